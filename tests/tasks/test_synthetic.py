"""Synthetic tasks follow their published definitions."""

import importlib
import sys

import numpy as np
import pytest

from hf_mixers.tasks.synthetic import (
    ADDING_CAPS,
    adding_problem,
    fixed_adding_problem,
    temporal_order,
)


@pytest.mark.parametrize(
    "data", [adding_problem(50, base_length=200, seed=3), fixed_adding_problem(50, 128, seed=3)]
)
def test_targets_are_the_scaled_sum_of_the_two_marked_numbers(data):
    for index in range(len(data)):
        example = data[index]
        values, marks = example["input_values"].T
        assert sorted(set(marks.tolist())) == [0, 1]
        assert marks.sum() == 2
        assert -1 <= values.min() <= values.max() <= 1
        assert example["labels"] == pytest.approx(0.5 + values[marks == 1].sum() / 4, abs=1e-6)
        assert len(values) == data.lengths[index]


@pytest.mark.parametrize("base_length", ADDING_CAPS)
def test_lengths_are_log_normal_within_their_bounds(base_length):
    lengths = adding_problem(20_000, base_length).lengths
    assert lengths.min() >= 32
    assert lengths.max() <= ADDING_CAPS[base_length]
    # the median of the log-normal is exp(0.5); the bounds move it little
    assert np.median(lengths) == pytest.approx(base_length * np.exp(0.5), rel=0.05)
    assert np.log(lengths).std() == pytest.approx(0.7, abs=0.03)


def test_answering_one_half_is_right_in_15_percent_of_cases():
    targets = np.array([adding_problem(4000, 40, seed=1)[i]["labels"] for i in range(4000)])
    assert (np.abs(targets - 0.5) < 0.04).mean() == pytest.approx(0.154, abs=0.02)


@pytest.mark.parametrize("length", [128, 1000])
def test_fixed_tasks_have_sequences_of_one_length(length):
    for data, name in (
        (fixed_adding_problem(9, length), "input_values"),
        (temporal_order(9, length), "input_ids"),
    ):
        assert len(data) == 9
        assert data.longest == length
        assert {len(data[i][name]) for i in range(9)} == set(data.lengths.tolist()) == {length}


def test_temporal_order_has_two_of_x_and_y_whose_order_is_the_class():
    data = temporal_order(400, 64, seed=1)
    names = ["XX", "XY", "YX", "YY"]
    places, classes = [], []
    for index in range(len(data)):
        ids, label = data[index]["input_ids"], data[index]["labels"]
        assert ids.max() <= 5
        where = np.flatnonzero(ids >= 4)
        assert len(where) == 2
        assert "".join("XY"[i - 4] for i in ids[where]) == names[label]
        places.append(where)
        classes.append(label)
    assert np.bincount(classes).min() > 70
    # anywhere in the sequence, and the rest is any of four symbols
    assert np.ptp(places) > 55
    rest = np.concatenate([data[i]["input_ids"] for i in range(40)])
    assert set(rest.tolist()) == {0, 1, 2, 3, 4, 5}


def test_temporal_order_depends_on_seed_and_index_alone():
    one, same, other = (temporal_order(5, 64, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one[3]["input_ids"], same[3]["input_ids"])
    assert not np.array_equal(one[3]["input_ids"], other[3]["input_ids"])
    assert not np.array_equal(one[3]["input_ids"], one[4]["input_ids"])


def test_seeds_and_indices_decide_everything():
    one, same, other = (adding_problem(5, 200, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one[3]["input_values"], same[3]["input_values"])
    assert not np.array_equal(one.lengths, other.lengths)
    assert not np.array_equal(one[3]["input_values"][:9], one[4]["input_values"][:9])


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match="room for 32 steps, got 5, 10 and 20"):
        adding_problem(5, 10, longest=20)
    for task in (fixed_adding_problem, temporal_order):
        with pytest.raises(ValueError, match="at least two steps, got 5 of 1"):
            task(5, 1)
    with pytest.raises(IndexError, match="has 5 examples, got index 5"):
        adding_problem(5, 200)[5]


def test_the_former_import_paths_work_with_a_warning():
    import hf_mixers.data
    import hf_mixers.tasks

    for name in ("adding_problem", "fixed_adding_problem", "temporal_order"):
        with pytest.warns(DeprecationWarning, match=f"is now hf_mixers.tasks.{name}"):
            assert getattr(hf_mixers.data, name) is getattr(hf_mixers.tasks, name)
    sys.modules.pop("hf_mixers.data.synthetic", None)
    with pytest.warns(DeprecationWarning, match="is now hf_mixers.tasks.synthetic"):
        former = importlib.import_module("hf_mixers.data.synthetic")
    assert former.adding_problem is adding_problem
