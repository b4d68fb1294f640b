"""Targets score in the units of the data, and write classes by name."""

import numpy as np
import pytest

from hf_mixers.recipes.targets import Amount, Classes


def test_amounts_are_scored_in_units_of_the_target():
    target = Amount(mean=100.0, std=10.0)
    outputs, labels = np.array([[0.0], [1.0]]), np.array([0.5, 1.0])
    overall = target.report(outputs, labels, num_bootstrap=0)["overall"]
    assert overall["mae"]["value"] == pytest.approx(2.5)
    assert overall["rmse"]["value"] == pytest.approx(10 * overall["rmse_standardized"]["value"])
    assert target.notes() == [
        "The model answers in standard deviations: its output times 10 plus 100 is the amount."
    ]
    columns = target.columns(outputs, labels)
    assert columns["target"].tolist() == [105, 110]
    assert columns["prediction"].tolist() == [100, 110]


def test_amounts_may_be_right_within_a_tolerance():
    target = Amount(tolerance=0.04)
    report = target.report(np.array([[0.5], [1.0]]), np.array([0.52, 1.5]), num_bootstrap=0)
    assert report["overall"]["within_tolerance"]["value"] == 0.5
    assert "rmse_standardized" not in report["overall"], "models see the target as it is"
    assert target.notes() == []


def test_classes_are_written_by_name():
    target = Classes(["cat", "dog"])
    columns = target.columns(np.array([[0.0, 0.0], [-50.0, 50.0]]), np.array([0, 1]))
    assert columns["label"] == ["cat", "dog"]
    assert columns["score_dog"].tolist() == [0.5, 1]


def test_predictions_stand_between_labels_and_scores():
    target = Classes(["cat", "dog", "cow"])
    outputs = np.array([[0.0, 2.0, 1.0], [3.0, 2.0, 1.0], [0.0, 0.0, 1.0]])
    columns = target.columns(outputs, np.array([0, 0, 2]))
    assert list(columns) == ["label", "prediction", "score_cat", "score_dog", "score_cow"]
    assert columns["prediction"] == ["dog", "cat", "cow"]


def test_results_by_length_are_drawn_where_lengths_differ(tmp_path):
    target = Classes(["cat", "dog"])
    outputs, labels = np.tile(np.eye(2), (20, 1)), np.tile([0, 1], 20)
    for lengths, drawn in ((np.arange(40) + 5, True), (np.full(40, 7), False)):
        reports = {"model": target.report(outputs, labels, lengths, num_bootstrap=0)}
        names = target.draw(reports, outputs, labels, tmp_path)
        assert ("by_length.png" in names) == drawn
        assert all((tmp_path / name).stat().st_size > 1000 for name in names)
