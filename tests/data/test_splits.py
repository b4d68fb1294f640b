"""Splits lose nothing, mix nothing, keep classes in proportion and repeat with their seed."""

import logging
from itertools import chain

import numpy as np
import pytest
from datasets import ClassLabel, Dataset
from hypothesis import given
from hypothesis import strategies as st

from hf_mixers.data import (
    balanced_class_weights,
    describe_classes,
    filter_lengths,
    filter_letters,
    format_classes,
    split_by_column,
    split_by_group,
    split_stratified,
    subset_stratified,
)

SHARES = np.array([0.7, 0.15, 0.15])


def make(counts, **columns):
    labels = np.repeat(np.arange(len(counts)), counts)
    labels = np.random.default_rng(1).permutation(labels).tolist()
    rows = {"id": [f"r{i}" for i in range(len(labels))], "label": labels}
    names = [f"c{number}" for number in range(len(counts))]
    return Dataset.from_dict(rows | columns).cast_column("label", ClassLabel(names=names))


def ids(parts):
    return [part["id"][:] for part in parts.values()]


@pytest.mark.slow
@given(st.lists(st.integers(3, 60), min_size=1, max_size=8), st.integers(0, 5))
def test_stratified_split_keeps_every_example_once_and_every_class_near_its_share(counts, seed):
    dataset = make(counts)
    parts = split_stratified(dataset, seed=seed)
    assert sorted(chain.from_iterable(ids(parts))) == sorted(dataset["id"])
    sizes = np.array(
        [np.bincount(part["label"][:], minlength=len(counts)) for part in parts.values()]
    )
    quotas = SHARES[:, None] * np.array(counts)
    assert (sizes >= 1).all()
    # one example in each part may be more than the share of a small class
    assert (np.abs(sizes - quotas) < 2.2).all()


def test_rounding_does_not_favour_a_part():
    parts = split_stratified(make([10] * 40))
    assert [len(part) for part in parts.values()] == [280, 60, 60]


def test_splits_repeat_with_their_seed_only():
    dataset = make([30, 50], species=[f"s{i % 17}" for i in range(80)])
    for split in (split_stratified, lambda d, seed: split_by_group(d, "species", seed=seed)):
        assert ids(split(dataset, seed=3)) == ids(split(dataset, seed=3))
        assert ids(split(dataset, seed=3)) != ids(split(dataset, seed=4))


def test_two_fractions_give_train_and_test():
    parts = split_stratified(make([10, 10]), (0.8, 0.2))
    assert {name: len(part) for name, part in parts.items()} == {"train": 16, "test": 4}


def test_class_with_too_few_examples_is_named_with_its_record():
    with pytest.raises(ValueError, match=r"Class 'c1' has 1 examples, record 'r\d+'.* at least 3"):
        split_stratified(make([10, 1]))


@pytest.mark.parametrize("fractions", [(1.0,), (0.5, 0.6), (0.5, 0.5, 0.0), (0.7, 0.2)])
def test_wrong_fractions_are_errors(fractions):
    for split in (split_stratified, lambda d, f: split_by_group(d, "id", f)):
        with pytest.raises(ValueError, match="fractions="):
            split(make([9, 9]), fractions)


@pytest.mark.slow
@given(st.lists(st.integers(0, 12), min_size=40, max_size=200), st.integers(0, 5))
def test_no_group_is_in_two_parts_and_nothing_is_lost(groups, seed):
    if len(set(groups)) < 3:
        return
    labels = [group % 2 for group in groups]
    rows = {"id": [str(i) for i in range(len(groups))], "species": groups, "label": labels}
    dataset = Dataset.from_dict(rows)
    parts = split_by_group(dataset, "species", seed=seed)
    assert sorted(chain.from_iterable(ids(parts))) == sorted(dataset["id"])
    found = [set(part["species"]) for part in parts.values()]
    assert all(found)
    assert sum(map(len, found)) == len(set(groups))


def test_group_split_keeps_classes_near_their_shares():
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 60, size=(2, 60))
    species = [f"c{c}s{s}" for c in range(2) for s in range(60) for _ in range(sizes[c, s])]
    labels = [int(name[1]) for name in species]
    dataset = Dataset.from_dict({"species": species, "label": labels})
    parts = split_by_group(dataset, "species")
    for label in range(2):
        counts = np.array([part["label"][:].count(label) for part in parts.values()])
        assert np.abs(counts / counts.sum() - SHARES).max() < 0.01


def test_class_of_one_group_goes_to_train_and_is_reported(caplog):
    species = ["only"] * 5 + [f"s{i % 9}" for i in range(90)]
    dataset = Dataset.from_dict({"species": species, "label": ["rare"] * 5 + ["common"] * 90})
    with caplog.at_level(logging.WARNING):
        parts = split_by_group(dataset, "species")
    assert parts["train"]["label"][:].count("rare") == 5
    assert "Class 'rare' is absent from validation and test: it has 1 groups" in caplog.text


def test_groups_can_be_split_without_labels():
    dataset = Dataset.from_dict({"species": list("abcdefghij") * 2})
    parts = split_by_group(dataset, "species", (0.6, 0.2, 0.2), label_column=None)
    assert [len(part) for part in parts.values()] == [12, 4, 4]


def test_missing_or_too_few_groups_are_errors():
    with pytest.raises(ValueError, match="record 'r1' has no group in 'species'"):
        split_by_group(make([2, 2], species=["a", "", "b", "c"]), "species")
    with pytest.raises(ValueError, match="has 2 groups"):
        split_by_group(make([2, 2], species=["a", "a", "b", "b"]), "species")
    with pytest.raises(ValueError, match="no column 'genus'"):
        split_by_group(make([2, 2]), "genus")


def test_column_of_parts_is_followed_and_checked():
    dataset = make([2, 3], split=["train", "val", "validation", "TEST", "train"])
    parts = split_by_column(dataset, "split")
    assert ids(parts) == [["r0", "r4"], ["r1", "r2"], ["r3"]]
    with pytest.raises(ValueError, match="record 'r1' has 'x' in 'split'"):
        split_by_column(make([1, 1], split=["train", "x"]), "split")


@pytest.mark.slow
@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(0, 3))
def test_subset_has_a_share_of_every_class_and_grows_with_the_fraction(counts, seed):
    dataset = make(counts)
    small, large = (subset_stratified(dataset, share, seed) for share in (0.05, 0.3))
    assert set(small["id"]) <= set(large["id"])
    for number, count in enumerate(counts):
        assert large["label"][:].count(number) == max(1, round(0.3 * count))


@pytest.mark.parametrize("fraction", [0, -1, 1.5])
def test_wrong_fraction_of_a_subset_is_an_error(fraction):
    with pytest.raises(ValueError, match="fraction="):
        subset_stratified(make([5]), fraction)


def test_length_filter_reports_what_it_leaves_out(caplog):
    dataset = make([2, 2], length=[1, 5, 9, 100]).remove_columns("label")
    dataset = dataset.add_column("label", ["a", "b", "b", "c"])
    with caplog.at_level(logging.WARNING):
        kept = filter_lengths(dataset, 2, 50)
    assert kept["id"][:] == ["r1", "r2"]
    assert "2 of 4 examples are left out: 1 shorter than 2, 1 longer than 50." in caplog.text
    assert "Classes without examples now: ['a', 'c']" in caplog.text
    with pytest.raises(ValueError, match="none is left"):
        filter_lengths(dataset, 1000)


def test_letter_filter_names_what_is_wrong_or_reports_what_it_leaves_out(caplog):
    sequences = ["ACGT", "acnt", "gattaca", "AC*"]
    dataset = make([2, 2]).add_column("sequence", sequences)
    sentence = r"2 of 4 .* other letters than ACGT: record 'r1' has 'n' at position 2; bad_records="
    with pytest.raises(ValueError, match=sentence):
        filter_letters(dataset, "ACGT")
    with caplog.at_level(logging.WARNING):
        assert filter_letters(dataset, "ACGT", "drop")["id"][:] == ["r0", "r2"]
    assert "2 of 4 examples have other letters than ACGT and are left out." in caplog.text
    assert filter_letters(dataset, "ACGTN*") is dataset
    with pytest.raises(ValueError, match="none is left"):
        filter_letters(dataset, "R", "drop")
    with pytest.raises(ValueError, match="error and drop are accepted"):
        filter_letters(dataset, "ACGT", "keep")


def test_length_filter_is_silent_when_all_stay(caplog):
    dataset = make([2], length=[3, 5])
    assert filter_lengths(dataset, 2) is dataset
    assert not caplog.text


def test_description_counts_classes_and_lengths():
    dataset = make([3, 1, 0], length=[2, 4, 6, 8])
    description = describe_classes(dataset)
    assert list(description) == ["c0", "c1", "c2", "all"]
    assert [values["count"] for values in description.values()] == [3, 1, 0, 4]
    assert description["all"] == {"count": 4, "share": 1.0, "min": 2, "median": 5.0, "max": 8}
    lines = format_classes(description).splitlines()
    assert lines[3].split() == ["c2", "0", "0.0%", "-", "-", "-"]
    assert len({len(line) for line in lines}) == 1


def test_balanced_weights_give_every_class_the_same_sum():
    weights = balanced_class_weights(make([30, 10, 5]))
    np.testing.assert_allclose(np.array(weights) * [30, 10, 5], 15)
    with pytest.raises(ValueError, match="Class 'c1' has no examples"):
        balanced_class_weights(make([3, 0]))


def test_labels_that_are_no_classes_are_errors():
    with pytest.raises(ValueError, match=r"Example 1 has None in 'label'"):
        split_stratified(Dataset.from_dict({"label": [1, None, 2]}))
    with pytest.raises(ValueError, match=r"has 0.5 in 'label'"):
        split_stratified(Dataset.from_dict({"label": [0.5, 1.0]}))
