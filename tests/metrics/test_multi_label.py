"""Scores of rows with any number of labels, against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from hf_mixers.metrics import multi_label_report


@pytest.fixture
def rows():
    chance = np.random.default_rng(0)
    labels = (chance.random((60, 4)) < 0.4).astype(int)
    return chance.normal(size=(60, 4)) + labels, labels


def test_it_is_what_scikit_learn_says(rows):
    scores, labels = rows
    report = multi_label_report(scores, labels, lengths=range(60), num_bootstrap=20)
    found = {name: metric["value"] for name, metric in report["overall"].items()}
    predicted = scores > 0
    assert found == pytest.approx(
        {
            "exact_match": accuracy_score(labels, predicted),
            "f1": f1_score(labels, predicted, average="macro"),
            "f1_micro": f1_score(labels, predicted, average="micro"),
            "roc_auc": roc_auc_score(labels, scores, average="macro"),
        }
    )
    assert all(one["low"] <= one["value"] <= one["high"] for one in report["overall"].values())
    assert sum(part["count"] for part in report["by_length"]) == 60


def test_each_label_has_its_scores(rows):
    scores, labels = rows
    labels[:, 2] = 0
    report = multi_label_report(scores, labels, class_names=list("abcd"), num_bootstrap=0)
    assert [one["name"] for one in report["by_class"]] == list("abcd")
    assert [one["count"] for one in report["by_class"]] == labels.sum(0).tolist()
    assert report["by_class"][2]["recall"] is None
    # the area of a label that nobody has is undefined, and not part of the mean
    others = [0, 1, 3]
    area = roc_auc_score(labels[:, others], scores[:, others])
    assert report["overall"]["roc_auc"]["value"] == pytest.approx(area)


@pytest.mark.parametrize(
    ("scores", "labels", "names", "message"),
    [
        ([[1, 2]], [[1, 2]], None, "labels are 0 or 1, got 2"),
        ([[1, 2]], [[1]], None, r"\(1, 2\) and \(1, 1\)"),
        ([[1, np.nan]], [[1, 0]], None, "must be finite"),
        ([[1, 2]], [[1, 0]], ["a"], "one name per label, got 1 for 2"),
    ],
)
def test_what_cannot_be_scored_is_named(scores, labels, names, message):
    with pytest.raises(ValueError, match=message):
        multi_label_report(scores, labels, class_names=names)
