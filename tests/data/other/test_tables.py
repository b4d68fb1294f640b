"""Tables are read, split and turned into numbers by what the training part holds."""

import numpy as np
import pandas as pd
import pytest
from datasets import ClassLabel, Dataset
from sklearn.preprocessing import QuantileTransformer

from hf_mixers.data import PaddedCollator, split_by_column, split_stratified
from hf_mixers.data.other import TableEncoder, load_table
from hf_mixers.data.other.tables import to_normal

ROWS = {
    "size": [1.0, 2.0, 4.0, 8.0],
    "count": [3, 1, 2, 2],
    "kind": ["b", "a", "b", "c"],
    "price": [10.5, 20.0, 30.0, 41.5],
    "part": ["train", "train", "val", "test"],
}


def table(**changes):
    return Dataset.from_dict({**ROWS, **changes})


def write(path, rows):
    frame = pd.DataFrame(rows)
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")
    return path


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.csv.gz", "x.parquet"])
def test_files_of_every_kind_give_the_same_rows(tmp_path, name):
    rows = load_table(write(tmp_path / name, ROWS), "price", keep=["part"])
    assert rows.column_names == ["size", "count", "kind", "part", "label"]
    assert rows["label"][:] == ROWS["price"]
    assert {name: len(part) for name, part in split_by_column(rows, "part").items()} == {
        "train": 2,
        "validation": 1,
        "test": 1,
    }
    classes = load_table(tmp_path / name, "kind", ignore=["part"])
    assert classes.features["label"] == ClassLabel(names=["a", "b", "c"])
    assert classes["label"][:] == [1, 0, 1, 2]
    assert classes.column_names == ["size", "count", "price", "label"]


def test_a_column_of_part_names_is_no_feature_unless_named(tmp_path, caplog):
    path = write(tmp_path / "x.csv", ROWS)
    assert "part" not in load_table(path, "price").column_names
    assert "the column 'part' names parts of the data and is not read" in caplog.text
    assert "part" in load_table(path, "price", keep=["part"]).column_names


def test_whole_numbers_need_to_be_told_what_they_are(tmp_path):
    path = write(tmp_path / "x.csv", ROWS)
    with pytest.raises(ValueError, match="'count' holds whole numbers, which could be classes"):
        load_table(path, "count")
    assert load_table(path, "count", "classification").features["label"].names == ["1", "2", "3"]
    assert load_table(path, "count", "regression")["label"][:] == [3.0, 1.0, 2.0, 2.0]


def test_several_files_are_one_table(tmp_path):
    for name in ("a.csv", "b.csv"):
        write(tmp_path / name, ROWS)
    assert len(load_table(tmp_path, "price")) == 8
    write(tmp_path / "c.csv", {"price": [1.0], "size": [2.0]})
    with pytest.raises(ValueError, match=r"c\.csv has other columns than .*a\.csv"):
        load_table(tmp_path, "price")


def test_columns_that_mix_numbers_and_text_are_text(tmp_path):
    for name, text in (
        ("a.csv", "x,z,y\n1,1,0.5\n2.5,,0.5\n,2,0.5\n"),
        ("b.csv", "x,z,y\nno,3,0.5\n3,4.5,0.5\n,5,0.5\n"),
    ):
        (tmp_path / name).write_text(text)
    rows = load_table(tmp_path, "y")
    assert rows["x"][:] == ["1", "2.5", None, "no", "3", None]
    assert rows["z"][:] == [1, None, 2, 3, 4.5, 5]
    for name, kind in (("a", [1]), ("b", ["u"])):
        write(tmp_path / f"{name}.parquet", {"x": [0.5], "y": kind})
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    assert load_table(files, "y").features["label"].names == ["1", "u"]
    write(files[1], {"x": pd.to_datetime(["2020-01-01"]), "y": ["u"]})
    with pytest.raises(ValueError, match="Column 'x' holds Timestamp and number: numbers, text"):
        load_table(files, "y")


def test_a_long_column_has_one_type(tmp_path):
    others = [f"c{i}" for i in range(62)]
    filler = "," * len(others)
    # so many cells that pandas would read them in two pieces
    lines = ["x,y," + ",".join(others), *[f"01,0.5{filler}"] * 2**14, f"no,0.5{filler}"]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    rows = load_table(tmp_path / "x.csv", "y", ignore=others)
    assert set(rows["x"][:]) == {"01", "no"}


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,y\n1,2.5\n", {"target": "z"}, "has no column 'z': it has a, y"),
        ("a,y\n1,2.5\n", {"ignore": ["z"]}, "has no column 'z': it has a, y"),
        ("a,y\n1,2.5\n2,\n3,\n", {}, "2 rows have no 'y', the first is row 2"),
        ("a,y\n", {}, "holds no rows"),
        ("", {}, "is no table that can be read"),
        ("a,y\n1,2\n1,2,3,4\n", {}, "is no table that can be read"),
        ("y\n1.5\n", {}, "has no column to predict 'y' from"),
        ("label,y\n1,1.5\n", {}, "has a column 'label' besides its target 'y'"),
        ("a,y\n1,no\n", {"task": "regression"}, "'y' holds text: a regression needs numbers"),
        ("a,y\n1,0.5\n", {"task": "classification"}, "'y' holds numbers with a point"),
        ("a,y\n1,inf\n", {}, "'y' is infinite in row 1"),
        ("a,y\n1,2\n", {"task": "ranking"}, "task='ranking' was given"),
    ],
)
def test_bad_tables_are_named(tmp_path, text, options, message):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        load_table(path, **{"target": "y", **options})
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_table_is_refused(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1 not at all")
    with pytest.raises(ValueError, match=r"x\.parquet is no table that can be read"):
        load_table(path, "y")
    (tmp_path / "x.fa").write_text(">a\nACGT\n")
    with pytest.raises(ValueError, match="is fasta: tables are CSV or parquet"):
        load_table(tmp_path / "x.fa", "y")
    dates = {"when": pd.to_datetime(["2020-01-01"]), "y": [1.5]}
    with pytest.raises(ValueError, match=r"Column 'when' holds datetime64.* are accepted"):
        TableEncoder.fit(load_table(write(tmp_path / "d.parquet", dates), "y"))


@pytest.mark.parametrize("kind", ["normal", "ties", "skewed"])
def test_quantile_normalisation_is_that_of_scikit_learn(kind):
    generator = np.random.default_rng(0)
    values = generator.normal(size=(900, 1))
    values = {"normal": values, "ties": values.round(), "skewed": np.exp(3 * values)}[kind]
    rows = Dataset.from_dict({"x": values[:, 0], "label": np.zeros(900)})
    quantiles = TableEncoder.fit(rows).quantiles["x"]
    assert len(quantiles) == 30
    reference = QuantileTransformer(n_quantiles=30, output_distribution="normal").fit(values)
    new = np.concatenate([values[:50], [[-100.0], [1e6]]])
    expected = reference.transform(new)[:, 0]
    np.testing.assert_allclose(to_normal(new[:, 0], quantiles), expected, atol=1e-5)


def test_rows_become_numbers_codes_and_a_standardised_target():
    rows = table().rename_column("price", "label").remove_columns("part")
    encoder = TableEncoder.fit(rows.select([0, 1, 2]), categorical=["count"])
    assert encoder.config_fields() == {"num_numeric_features": 1, "category_sizes": [4, 3]}
    encoded = encoder.encode(rows)
    # c does not occur in training, and 8 is beyond what does
    assert encoded["category_ids"][:] == [[3, 2], [1, 1], [2, 2], [2, 0]]
    assert encoded["numeric_values"][1] == [0]
    assert encoded["numeric_values"][3] == encoded["numeric_values"][2]
    train = np.array(ROWS["price"][:3])
    expected = (np.array(ROWS["price"]) - train.mean()) / train.std()
    np.testing.assert_allclose(encoded["labels"][:], expected, rtol=1e-6)
    np.testing.assert_allclose(encoder.unscale_target(expected), ROWS["price"])
    assert TableEncoder(**encoder.to_dict()) == encoder


def test_gaps_are_in_the_middle_with_a_flag_and_unknown_categories_are_counted(said):
    rows = Dataset.from_dict(
        {
            "x": [1.0, None, 3.0],
            "still": [7.0, 7.0, 7.0],
            "kind": ["a", None, "a"],
            "label": [0, 1, 0],
        }
    )
    encoder = TableEncoder.fit(rows)
    assert encoder.config_fields() == {"num_numeric_features": 2, "category_sizes": [3, 2]}
    encoded = encoder.encode(rows)
    assert encoded["numeric_values"][1] == [0, 0]
    # a missing category is one of its own, a missing number has a flag
    assert encoded["category_ids"][:] == [[2, 0], [1, 1], [2, 0]]
    assert encoded["labels"][:] == [0, 1, 0]
    assert "1 missing numbers in 3 rows" in said()
    other = Dataset.from_dict({"x": [1], "still": [2.0], "kind": ["z"]})
    assert encoder.encode(other)[0]["category_ids"] == [0, 0]
    assert "1 of 1 rows have a 'kind' that training does not know" in said()


def test_a_number_that_is_a_name_has_one_spelling_in_all_parts(said):
    train = Dataset.from_dict({"x": [1.0, 1.5, 2.0, None], "label": [0, 1, 0, 1]})
    encoder = TableEncoder.fit(train, categorical=["x"])
    assert encoder.categories == {"x": ["(missing)", "1", "1.5", "2"]}
    for values, codes in (([1.0, 2.0], [2, 4]), ([2, 1], [4, 2]), ([1.5, None], [3, 1])):
        found = encoder.encode(Dataset.from_dict({"x": values}))["category_ids"][:]
        assert found == [[code] for code in codes]
    assert "does not know" not in said()


def test_columns_that_do_not_fit_the_encoder_are_named():
    encoder = TableEncoder.fit(Dataset.from_dict({"x": [1.0, 2.0], "label": [0, 1]}))
    with pytest.raises(ValueError, match="has no column 'x': it has z"):
        encoder.encode(Dataset.from_dict({"z": [1.0]}))
    with pytest.raises(ValueError, match="'x' should hold numbers and has 'a'"):
        encoder.encode(Dataset.from_dict({"x": ["a"]}))
    with pytest.raises(ValueError, match="'x' has no value in the training part"):
        TableEncoder.fit(Dataset.from_dict({"x": [np.nan], "label": [0]}))
    with pytest.raises(ValueError, match="has no column 'y': it has x"):
        TableEncoder.fit(Dataset.from_dict({"x": [1.0], "label": [0]}), categorical=["y"])


def test_rows_are_stacked_to_batches():
    rows = table().rename_column("price", "label").remove_columns("part")
    encoded = TableEncoder.fit(rows).encode(rows)
    batch = PaddedCollator()([encoded[0], encoded[1]])
    shapes = {name: (tuple(value.shape), str(value.dtype)) for name, value in batch.items()}
    assert shapes == {
        "labels": ((2,), "torch.float32"),
        "numeric_values": ((2, 2), "torch.float32"),
        "category_ids": ((2, 1), "torch.int64"),
    }


def test_a_regression_is_split_at_random():
    rows = Dataset.from_dict({"label": np.arange(40) / 7})
    parts = split_stratified(rows, label_column=None)
    assert {name: len(part) for name, part in parts.items()} == {
        "train": 28,
        "validation": 6,
        "test": 6,
    }
    assert sorted(v for part in parts.values() for v in part["label"]) == rows["label"][:]
