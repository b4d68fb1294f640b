"""One split policy: what belongs together lies in one part, and no seed of a run moves a row."""

import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from hypothesis import given
from hypothesis import strategies as st

from hf_mixers import reverse_complement
from hf_mixers.data import SplitOptions, make_parts
from hf_mixers.data.splits import PARTS


def random_sequences(count, seed=0, length=12):
    letters = np.random.default_rng(seed).integers(0, 4, (count, length))
    return ["".join(row) for row in np.array(list("ACGT"))[letters]]


def make(sequences, **columns):
    """Rows with an id and the class 0 or 1, which copies of a sequence share."""
    numbers = {sequence: number for number, sequence in enumerate(dict.fromkeys(sequences))}
    rows = {
        "id": [f"r{number}" for number in range(len(sequences))],
        "sequence": list(sequences),
        "label": [numbers[sequence] % 2 for sequence in sequences],
    }
    return Dataset.from_dict({**rows, **columns})


def place(parts, column="id"):
    """The parts where each value of a column stands."""
    found = {}
    for name, part in parts.items():
        for value in part[column]:
            found.setdefault(value, set()).add(name)
    return found


def ids(parts):
    return {name: part["id"][:] for name, part in parts.items()}


def test_parts_that_are_missing_are_drawn_in_proportion(caplog):
    caplog.set_level("INFO", "hf_mixers")
    parts = make_parts(make(random_sequences(200)))
    assert {name: len(part) for name, part in parts.items()} == {
        "train": 140,
        "validation": 30,
        "test": 30,
    }
    assert list(parts) == list(PARTS)
    assert sorted(place(parts)) == sorted(f"r{number}" for number in range(200))
    assert all(len(found) == 1 for found in place(parts).values())
    assert [sum(part["label"]) / len(part) for part in parts.values()] == [0.5, 0.5, 0.5]
    assert caplog.messages == [
        "0 of 200 sequences are copies of another; copies are kept in one part.",
        "The data have no test part: 30 rows are drawn for it.",
        "The data have no validation part: 30 rows are drawn for it.",
    ]


@pytest.mark.parametrize("copies", [0, 20])
@pytest.mark.parametrize("groups", [False, True])
def test_the_split_seed_alone_changes_what_is_drawn(copies, groups):
    sequences = random_sequences(60)
    rows = make([*sequences, *sequences[:copies]])
    rows = rows.add_column("species", [f"s{n % 20}" for n in range(len(rows))])
    group = {"group_column": "species"} if groups else {}
    first, again, other = (
        ids(make_parts(rows, SplitOptions(split_seed=seed, **group))) for seed in (0, 0, 1)
    )
    assert first == again
    assert first["test"] != other["test"]


def test_no_validation_part_is_drawn_if_none_is_asked_for():
    rows = make(random_sequences(40))
    with_validation = make_parts(rows)
    without = make_parts(rows, SplitOptions(validation_fraction=0))
    assert list(without) == ["train", "test"]
    assert ids(without)["test"] == ids(with_validation)["test"]
    with pytest.raises(ValueError, match="There is no validation part: there are train and test"):
        make_parts(rows, SplitOptions(validation_fraction=0), required="validation")


# number of the sequence, number of the group, other strand
ROWS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9), st.booleans()), max_size=60)
# three rows that share nothing, so that there is something for every part
OWN = [(13, 10, False), (14, 11, False), (15, 12, False)]


@pytest.mark.slow
@given(ROWS, st.booleans(), st.booleans(), st.integers(0, 3))
def test_neither_a_sequence_nor_a_group_is_divided(rows, has_groups, match_strands, seed):
    known, rows = random_sequences(16, seed=7), [*rows, *OWN]
    sequences = [reverse_complement(known[i]) if turned else known[i] for i, _, turned in rows]
    dataset = make(sequences, species=[f"s{group}" for _, group, _ in rows])
    options = SplitOptions(
        group_column="species" if has_groups else None,
        match_strands=match_strands,
        split_seed=seed,
    )
    parts = make_parts(dataset, options, label_column=None)
    assert sorted(place(parts)) == sorted(dataset["id"])
    assert all(len(part) > 0 for part in parts.values())
    if match_strands:
        strands = {name: min(name, reverse_complement(name)) for name in set(sequences)}
        parts = parts.map(lambda row: {"strand": strands[row["sequence"]]})
        assert all(len(found) == 1 for found in place(parts, "strand").values())
    assert all(len(found) == 1 for found in place(parts, "sequence").values())
    if has_groups:
        assert all(len(found) == 1 for found in place(parts, "species").values())


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(PARTS)), max_size=60))
def test_given_parts_lose_what_a_later_part_holds(rows):
    known = random_sequences(12, seed=3)
    # each part has a sequence of its own
    rows = [*rows, (10, "train"), (11, "validation")]
    dataset = make([known[i] for i, _ in rows], split=[part for _, part in rows])
    options = SplitOptions(split_column="split", test_fraction=0.4, validation_fraction=0)
    has_test = any(part == "test" for _, part in rows)
    if not has_test:
        dataset = dataset.add_item({**dataset[0], "id": "last", "split": "test"})
        dataset = dataset.add_item({"id": "own", "sequence": "AAA", "label": 0, "split": "train"})
    parts = make_parts(dataset, options)
    given = {part: set() for part in PARTS}
    for row in dataset:
        given[row["split"]].add(row["sequence"])
    expected = {
        "test": given["test"],
        "validation": given["validation"] - given["test"],
        "train": given["train"] - given["validation"] - given["test"],
    }
    assert {name: set(part["sequence"]) for name, part in parts.items()} == expected
    kept = {row["id"] for row in dataset if row["sequence"] in expected[row["split"]]}
    assert set(place(parts)) == kept, "no other row is left out"


@pytest.mark.parametrize("from_column", [True, False])
def test_rows_that_are_left_out_are_counted(from_column, caplog):
    a, b, c, d, e = random_sequences(5)
    rows = make([a, b, c, a, d, d, e], split=["train"] * 4 + ["val", "val", "val"])
    rows = rows.add_item({"id": "t1", "sequence": a.lower(), "label": 0, "split": "test"})
    rows = rows.add_item({"id": "t2", "sequence": e, "label": 0, "split": "test"})
    options = SplitOptions(split_column="split")
    if not from_column:
        options = SplitOptions()
        bounds = {"train": range(4), "validation": range(4, 7), "test": range(7, 9)}
        rows = DatasetDict({name: rows.select(chosen) for name, chosen in bounds.items()})
    parts = make_parts(rows, options)
    assert ids(parts) == {
        "train": ["r1", "r2"],
        "validation": ["r4", "r5"],
        "test": ["t1", "t2"],
    }
    assert caplog.messages == [
        "1 of 3 rows of the validation part are left out: their sequence is in test too.",
        "2 of 4 rows of the train part are left out: their sequence is in validation or test too.",
    ]


def test_other_strands_are_copies_by_option_only(caplog):
    caplog.set_level("INFO", "hf_mixers")
    sequences = random_sequences(10)
    turned = reverse_complement(sequences[0])
    rows = make([*sequences, turned], split=["train"] * 10 + ["test"], label=[0] * 11)
    options = {"split_column": "split", "validation_fraction": 0}
    assert len(make_parts(rows, SplitOptions(**options))["train"]) == 10
    assert len(make_parts(rows, SplitOptions(match_strands=True, **options))["train"]) == 9
    assert (
        "1 of 11 sequences are copies of another or its reverse complement;"
        " copies are kept in one part."
    ) in caplog.messages


def test_a_group_of_a_given_part_is_left_out_of_the_others(caplog):
    sequences = random_sequences(6)
    train = make(sequences[:4], species=["x", "y", "z", "x"])
    test = make(sequences[4:], species=["y", "w"])
    options = SplitOptions(group_column="species", validation_fraction=0)
    parts = make_parts(DatasetDict(train=train, test=test), options)
    assert parts["train"]["species"][:] == ["x", "z", "x"]
    assert parts["test"]["species"][:] == ["y", "w"]
    assert caplog.messages == [
        "1 of 4 rows of the train part are left out: their group is in test too."
    ]


def test_nothing_left_to_train_on_is_an_error():
    a, b = random_sequences(2)
    rows = make([a, b, a, b], split=["train", "train", "test", "test"])
    message = "Every sequence of the train part is in test too: nothing is left."
    with pytest.raises(ValueError, match=message):
        make_parts(rows, SplitOptions(split_column="split", validation_fraction=0))


def test_groups_come_from_column_pattern_and_table(tmp_path):
    sequences = random_sequences(60)
    species = [f"species {number % 12}" for number in range(60)]
    rows = make(
        sequences,
        species=species,
        description=[f"gene [{name}] x" for name in species],
    )
    table = tmp_path / "species.tsv"
    table.write_text("".join(f"r{n}\t{name}\n" for n, name in enumerate(species)))
    sources = (
        {"group_column": "species"},
        {"group_pattern": r"\[(.*)\]"},
        {"group_table": str(table)},
    )
    found = [make_parts(rows, SplitOptions(**source)) for source in sources]
    assert ids(found[0]) == ids(found[1]) == ids(found[2])
    assert all(len(parts) == 1 for parts in place(found[0], "species").values())
    assert {name: len(part) for name, part in found[0].items()} == {
        "train": 40,
        "validation": 10,
        "test": 10,
    }


def test_groups_of_rows_without_sequence_are_not_divided():
    """Those that remain when a part is drawn need not be numbered from 0."""
    rows = Dataset.from_dict(
        {"label": [0, 1] * 30, "patient": [n // 5 for n in range(60)], "value": range(60)}
    )
    parts = make_parts(rows, SplitOptions(group_column="patient"))
    assert list(parts) == list(PARTS)
    assert all(len(found) == 1 for found in place(parts, "patient").values())
    two = rows.filter(lambda row: row["patient"] in (3, 9))
    with pytest.raises(ValueError, match="All rows are of one group"):
        make_parts(two, SplitOptions(group_column="patient"))


def test_one_sequence_under_two_labels_stops_unless_it_is_allowed(caplog):
    sequences = random_sequences(40)
    rows = make([*sequences, sequences[3]], label=[*([0, 1] * 20), 0])
    message = "has different labels: record 'r3' with 1 and record 'r40' with 0; allow_conflicts"
    with pytest.raises(ValueError, match=message):
        make_parts(rows)
    parts = make_parts(rows, SplitOptions(allow_conflicts=True))
    assert len(place(parts, "sequence")[sequences[3]]) == 1
    assert "(1 records in all); they are kept together in one part." in caplog.text
    # across given parts as well
    given = rows.add_column("split", ["train"] * 40 + ["test"])
    with pytest.raises(ValueError, match="different labels: record 'r3' with 1 and record 'r40'"):
        make_parts(given, SplitOptions(split_column="split"))


def test_amounts_are_drawn_without_classes():
    sequences = random_sequences(40)
    rows = make([*sequences, sequences[0]], label=[float(n) for n in range(41)])
    parts = make_parts(rows)
    assert sorted(map(len, parts.values())) == [6, 6, 29]
    assert len(place(parts, "sequence")[sequences[0]]) == 1


def test_parts_that_are_there_stay_as_they_are():
    sequences = random_sequences(60)
    bounds = {"train": range(30), "validation": range(30, 40), "test": range(40, 60)}
    rows = make(sequences)
    given = DatasetDict({name: rows.select(chosen) for name, chosen in bounds.items()})
    assert ids(make_parts(given)) == ids(given)


@pytest.mark.parametrize(
    ("parts", "options", "message"),
    [
        (("test",), {}, "There are no rows to train on, only for test."),
        (("train", "dev"), {}, "Parts are train, validation, test, got 'dev'."),
        (
            ("train", "test"),
            {"split_column": "split"},
            "split_column='split' was given for data that come in the parts train, test.",
        ),
    ],
)
def test_parts_that_cannot_be_are_refused(parts, options, message):
    rows = make(random_sequences(12), split=["train"] * 12)
    given = DatasetDict({name: rows.select(range(4)) for name in parts})
    with pytest.raises(ValueError, match=f"^{message}$"):
        make_parts(given, SplitOptions(**options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"group_column": "a", "group_table": "b"},
            "Groups come from one source, got group_column and group_table.",
        ),
        (
            {"split_column": "a", "group_pattern": "b"},
            "split_column and group_pattern were given: one of them is accepted.",
        ),
        (
            {"test_fraction": 0},
            "test_fraction=0 and validation_fraction=0.15 were given: shares below 1",
        ),
        ({"validation_fraction": -0.1}, "validation_fraction=-0.1 were given: shares below 1"),
        (
            {"test_fraction": 0.5, "validation_fraction": 0.5},
            "test_fraction and validation_fraction leave nothing to train on.",
        ),
    ],
)
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SplitOptions(**options)
