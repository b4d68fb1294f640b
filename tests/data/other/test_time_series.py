"""Time series of every kind of file are read alike, scaled by the training part, and batched."""

import sys
from types import ModuleType

import numpy as np
import pytest

from hf_mixers.data import FlatCollator, PaddedCollator, fix_lengths, load_embedded_series
from hf_mixers.data.other import SeriesScaler, load_aeon_series, load_time_series, make_series_parts
from tests.data.files import write

HEADER = """# a comment
@problemName Tiny
@timestamps false
@missing false
@univariate false
@dimensions 2
@equalLength false
@classLabel true up down
@data
"""
TRAIN = HEADER + "1,2,3:4,5,6:up\n7,8:9,1e1:down\n"
TEST = HEADER + "0.5:-1:down\n"


def values(part):
    return [np.asarray(one) for one in part.with_format("numpy")["input_values"][:]]


def test_ts_files_are_read_in_their_official_parts(tmp_path):
    write(tmp_path / "Tiny" / "Tiny_TRAIN.ts", TRAIN)
    write(tmp_path / "Tiny" / "Tiny_TEST.ts", TEST)
    for source in (tmp_path / "Tiny", tmp_path / "Tiny" / "Tiny_TEST.ts"):
        parts = load_time_series(source)
        assert list(parts) == ["train", "test"]
        assert values(parts["train"])[0].tolist() == [[1, 4], [2, 5], [3, 6]]
        assert values(parts["train"])[1].tolist() == [[7, 9], [8, 10]]
        assert values(parts["test"])[0].tolist() == [[0.5, -1]]
        assert parts["train"]["length"][:] == [3, 2]
        # classes in the order of the header
        assert parts["train"].features["label"].names == ["up", "down"]
        assert parts["test"]["label"][:] == [1]
    assert len(load_time_series(tmp_path, "Tiny")["train"]) == 2


def test_one_file_is_all_there_is_and_may_be_packed(tmp_path):
    parts = load_time_series(write(tmp_path / "mine.ts.gz", TRAIN))
    assert list(parts) == ["train"]
    assert len(parts["train"]) == 2


@pytest.mark.parametrize("endings", [(".ts.gz", ".ts.gz"), (".ts", ".ts.gz"), (".ts.gz", ".ts")])
def test_packed_files_are_paired_as_plain_ones(tmp_path, endings):
    paths = [
        write(tmp_path / f"A_{part}{ending}", text)
        for part, ending, text in zip(("TRAIN", "TEST"), endings, (TRAIN, TEST), strict=True)
    ]
    for source in (*paths, tmp_path):
        parts = load_time_series(source)
        assert {part: len(rows) for part, rows in parts.items()} == {"train": 2, "test": 1}
    write(tmp_path / "B_TRAIN.ts.gz", TRAIN)
    assert len(load_time_series(tmp_path, "A")["test"]) == 1
    with pytest.raises(ValueError, match=r"should hold one set .*: it has A, B"):
        load_time_series(tmp_path)


def test_two_copies_of_a_part_are_refused(tmp_path):
    path = write(tmp_path / "A_TRAIN.ts", TRAIN)
    for ending in (".ts", ".ts.gz"):
        write(tmp_path / f"A_TEST{ending}", TEST)
    with pytest.raises(ValueError, match=r"A_TEST\.ts and .*A_TEST\.ts\.gz one is needed: both"):
        load_time_series(path)


def test_classes_may_be_announced_in_another_order(tmp_path):
    write(tmp_path / "A_TRAIN.ts", TRAIN)
    write(tmp_path / "A_TEST.ts", TEST.replace("up down", "down up"))
    parts = load_time_series(tmp_path)
    assert parts["test"].features["label"].names == ["up", "down"]
    assert parts["test"]["label"][:] == [1]


def test_univariate_series_of_one_length(tmp_path):
    text = "@univariate true\n@equalLength true\n@seriesLength 3\n"
    text += "@targetLabel false\n@classLabel true a b\n@data\n"
    parts = load_time_series(write(tmp_path / "x.ts", text + "1,2,3:a\n4,?,6:b\n"))
    assert np.isnan(values(parts["train"])[1][1, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no line @data"),
        ("1,2:a\n", r"line 1: '1,2:a' stands before a line @data"),
        ("@colour blue\n@data\n1:a\n", "line 1: @colour is no line of a .ts header"),
        ("@dimensions two\n@data\n1:a\n", "line 1: @dimensions needs a whole number from 1 on"),
        ("@missing perhaps\n@data\n1:a\n", "line 1: @missing needs true or false, got 'perhaps'"),
        ("@classLabel false\n@data\n1\n", "line 1: the file has no class labels"),
        ("@targetLabel true\n@data\n1:2\n", "line 1: @targetLabel is for regression"),
        ("@timestamps true\n@data\n(0,1):a\n", "line 2: series with time stamps are not read"),
        ("@univariate true\n@dimensions 2\n@data\n1:a\n", "@univariate true and 2 dimensions"),
        (HEADER, "holds no series"),
        (HEADER + "1,2,3\n", "line 10: there is no label"),
        (HEADER + "1:2:\n", "line 10: the label is missing"),
        (HEADER + "1:2:?\n", "line 10: the label is missing"),
        (HEADER + "1:2:left\n", "line 10: the label 'left' is none of @classLabel: up, down"),
        (HEADER + "1:2:up\n1:up\n", "line 11: 1 channels where 2 are expected"),
        (HEADER + "1,2:1,2,3:up\n", "channel 1 has 2 values and channel 2 3: all channels"),
        (HEADER + "1,x:1,2:up\n", "channel 1 holds 'x', which is neither a number nor"),
        (HEADER + "1,,3:1,2,3:up\n", "channel 1 holds '', which is neither a number nor"),
        (HEADER + "1:inf:up\n", "channel 2 holds an infinite value"),
        (HEADER + "1:-1e39:up\n", "channel 2 holds an infinite value"),
        (HEADER + ":1:up\n", "channel 1 is empty"),
        (HEADER + "1,?:1,2:up\n", "a value is missing where @missing false says that none is"),
        ("@equalLength true\n@data\n1,2:a\n1:a\n", "line 4: a series of 1 values where all have 2"),
        (b"\xff\xfe\x00", "is damaged or no text"),
    ],
)
def test_bad_ts_files_are_named_with_their_line(tmp_path, text, message):
    path = write(tmp_path / "x.ts", text)
    with pytest.raises(ValueError, match=message) as caught:
        load_time_series(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_parts_that_do_not_fit_are_refused(tmp_path):
    path = write(tmp_path / "A_TRAIN.ts", TRAIN)
    with pytest.raises(ValueError, match=r"A_TEST\.ts and .*A_TEST\.ts\.gz one is needed: neither"):
        load_time_series(path)
    write(tmp_path / "A_TEST.ts", TEST.replace("up down", "down right"))
    with pytest.raises(ValueError, match="has other classes than its training part"):
        load_time_series(path)
    write(tmp_path / "B_TRAIN.ts", TRAIN)
    with pytest.raises(ValueError, match=r"should hold one set .*: it has A, B"):
        load_time_series(tmp_path)
    with pytest.raises(ValueError, match=r"is neither a folder nor a \.ts or \.npz file"):
        load_time_series(tmp_path / "x.csv")
    with pytest.raises(ValueError, match="does not exist"):
        load_time_series(tmp_path / "none.ts")


def test_npz_of_equal_and_of_joined_series(tmp_path):
    x = np.arange(24.0).reshape(4, 3, 2)
    np.savez(tmp_path / "a.npz", x_train=x, y_train=[0, 1, 1, 0], class_names=["no", "yes"])
    parts = load_time_series(tmp_path / "a.npz")
    assert values(parts["train"])[1].tolist() == x[1].tolist()
    assert parts["train"].features["label"].names == ["no", "yes"]
    np.savez(tmp_path / "b.npz", x_train=x[:, :, 0], y_train=["a", "b", "a", "b"])
    assert values(load_time_series(tmp_path / "b.npz")["train"])[0].shape == (3, 1)
    fields = {"x": x.reshape(12, 2), "lengths": [2, 1, 4, 5], "y": [0, 1, 0, 1], "n_train": 2}
    np.savez(tmp_path / "c.npz", **{f"S__{k}": v for k, v in fields.items()}, S__classes=["u", "v"])
    parts = load_time_series(tmp_path / "c.npz", "S")
    assert {name: part["length"][:] for name, part in parts.items()} == {
        "train": [2, 1],
        "test": [4, 5],
    }
    assert values(parts["test"])[0].tolist() == x.reshape(12, 2)[3:7].tolist()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_train": np.zeros((2, 3))}, "has x_train without y_train"),
        ({"z": np.zeros(2)}, "has no x_train and y_train: it has z"),
        ({"x_train": np.zeros((2, 3)), "y_train": [1]}, "has 2 series and 1 labels in train"),
        ({"x_train": np.zeros(3), "y_train": [1]}, r"x_train of shape \(3,\)"),
        ({"x_train": np.array([["a"]]), "y_train": [1]}, "numbers are accepted"),
        ({"x_train": np.zeros((2, 3)), "y_train": [0.5, 1]}, "labels of float64"),
        (
            {"x_train": np.zeros((2, 3)), "y_train": [0, 2], "class_names": ["a", "b"]},
            "labels from 0 to 2 for 2 classes",
        ),
        (
            {"x_train": np.zeros((5, 1)), "y_train": [0, 1], "lengths_train": [2, 2]},
            "lengths_train with sum 4",
        ),
        ({"S__x": np.zeros((5, 1))}, "has no S__lengths"),
        (
            {"x_train": [[1.0, 2.0], [np.nan, np.inf]], "y_train": [0, 1]},
            "Series 1 of train holds an infinite value in step 1",
        ),
        ({"x_train": [[1e39]], "y_train": [0]}, "Series 0 of train holds an infinite value"),
    ],
)
def test_bad_npz_files_are_named(tmp_path, arrays, message):
    path = tmp_path / "x.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=message) as caught:
        load_time_series(path)
    assert str(path) in str(caught.value)


def test_what_is_no_npz_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"x\.npz is no .npz file that can be read"):
        load_time_series(write(tmp_path / "x.npz", "nothing of the kind"))


def test_embedded_vowels_are_the_official_ones():
    parts = load_embedded_series()
    lengths = [length for part in parts.values() for length in part["length"]]
    assert (min(lengths), max(lengths)) == (7, 29)
    assert values(parts["train"])[0].shape == (20, 12)
    # 24 to 88 utterances of a speaker, as the donors say
    assert np.bincount(parts["test"]["label"][:]).tolist() == [31, 35, 88, 44, 29, 24, 40, 50, 29]


def test_aeon_is_asked_for_the_series_as_they_are(monkeypatch):
    monkeypatch.setitem(sys.modules, "aeon.datasets", None)
    with pytest.raises(ImportError, match="pip install aeon"):
        load_aeon_series("Tiny")

    def load_classification(name, split, **options):
        assert (name, options["load_equal_length"], options["load_no_missing"]) == (
            "Tiny",
            False,
            False,
        )
        return [np.zeros((2, 5)), np.zeros((2, 3))], np.array(["1", "2"])

    fake = ModuleType("aeon.datasets")
    fake.load_classification = load_classification
    monkeypatch.setitem(sys.modules, "aeon", ModuleType("aeon"))
    monkeypatch.setitem(sys.modules, "aeon.datasets", fake)
    parts = load_aeon_series("Tiny")
    assert parts["test"]["length"][:] == [5, 3]
    assert values(parts["train"])[0].shape == (5, 2)


def test_channels_are_scaled_by_the_training_part_alone():
    train = [np.array([[0.0, 5.0], [2.0, 5.0]]), np.array([[4.0, 5.0]])]
    parts = make_series_parts(
        {"train": (train, ["a", "b"]), "test": ([np.array([[8.0, 7.0]])], ["a"])}
    )
    scaler = SeriesScaler.fit(parts["train"])
    scaled = scaler.apply(parts)
    steps = np.concatenate([row["input_values"] for row in scaled["train"]])
    np.testing.assert_allclose(steps.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(steps.std(0), [1, 0], atol=1e-6)
    expected = [(8 - 2) / np.std([0, 2, 4]), 2]
    np.testing.assert_allclose(scaled["test"][0]["input_values"][0], expected, rtol=1e-6)
    assert SeriesScaler(**scaler.to_dict()) == scaler
    with pytest.raises(ValueError, match="have 2 channels: the scaler is for 1"):
        SeriesScaler([0.0], [1.0]).apply(parts["train"])


def test_gaps_are_filled_and_counted(said):
    nan = np.nan
    one = np.array([[nan, 1.0], [0.0, nan], [nan, nan], [2.0, 4.0], [nan, 1.0]])
    two = np.array([[nan, 2.0]])
    parts = make_series_parts({"train": ([one, two], ["a", "b"])})
    scaled = SeriesScaler([0.0, 0.0], [1.0, 1.0]).apply(parts["train"])
    assert scaled[0]["input_values"].T.tolist() == [[0, 0, 1, 2, 2], [1, 2, 3, 4, 1]]
    assert scaled[1]["input_values"].tolist() == [[0, 2]]
    assert "6 missing values in 2 of 2 series" in said()
    with pytest.raises(ValueError, match="Channel 1 has no value in the training part"):
        SeriesScaler.fit(make_series_parts({"train": ([two], ["a"])})["train"])


def test_scaled_series_go_through_the_collators():
    parts = load_embedded_series()
    scaled = SeriesScaler.fit(parts["train"]).apply(parts["train"])
    rows = [scaled[0], scaled[1]]
    padded = PaddedCollator()(rows)
    assert list(padded) == ["labels", "input_values", "attention_mask"]
    assert padded["input_values"].shape == (2, 26, 12)
    assert padded["attention_mask"].sum(1).tolist() == [20, 26]
    flat = FlatCollator()(rows)
    assert flat["input_values"].shape == (1, 46, 12)
    assert flat["input_values"].dtype == padded["input_values"].dtype


def test_series_are_cut_or_padded_with_zeros_to_one_length(said):
    parts = make_series_parts({"train": ([np.ones((2, 2)), np.ones((5, 2))], ["a", "b"])})
    scaled = SeriesScaler([0.0, 0.0], [1.0, 1.0]).apply(parts)
    fixed = fix_lengths(scaled, 3)["train"]
    assert fixed[0]["input_values"].tolist() == [[1, 1], [1, 1], [0, 0]]
    assert fixed[1]["input_values"].shape == (3, 2)
    assert fixed["length"][:] == [3, 3]
    assert "Of 2 sequences 1 are cut and 1 padded to 3 tokens" in said()
