"""The adding problem follows its published definition."""

import numpy as np
import pytest

from hf_mixers.data.synthetic import ADDING_CAPS, adding_problem


def test_targets_are_the_scaled_sum_of_the_two_marked_numbers():
    data = adding_problem(50, base_length=200, seed=3)
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


def test_seeds_and_indices_decide_everything():
    one, same, other = (adding_problem(5, 200, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one[3]["input_values"], same[3]["input_values"])
    assert not np.array_equal(one.lengths, other.lengths)
    assert not np.array_equal(one[3]["input_values"][:9], one[4]["input_values"][:9])


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match="room for 32 steps, got 5, 10 and 20"):
        adding_problem(5, 10, longest=20)
    with pytest.raises(IndexError, match="has 5 examples, got index 5"):
        adding_problem(5, 200)[5]
