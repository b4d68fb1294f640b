"""Reports agree with scikit-learn, overall and by length, and say how sure they are."""

import json
import re
import socket
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from hf_mixers.metrics import (
    METRIC_PATH,
    classification_report,
    length_bins,
    masked_report,
    regression_report,
)
from hf_mixers.metrics.length import PERCENTILES
from hf_mixers.metrics.length_aware_classification.length_aware_classification import (
    LengthAwareClassification,
)

NAMES = {"accuracy", "balanced_accuracy", "f1", "mcc", "roc_auc"}


def draw(count=400, classes=2, seed=0, signal=1.0):
    """Logits that know something about the labels, in steps that give exact ties."""
    chance = np.random.default_rng(seed)
    labels = chance.integers(classes, size=count)
    logits = chance.normal(size=(count, classes)) + signal * np.eye(classes)[labels]
    return np.round(logits * 8) / 8, labels, chance.integers(10, 5000, size=count)


def softmax(logits):
    exponents = np.exp(logits - logits.max(1, keepdims=True))
    return exponents / exponents.sum(1, keepdims=True)


def values(metrics):
    return {name: metrics[name]["value"] for name in NAMES}


def twin(probabilities, labels):
    """The same by scikit-learn."""
    predicted = probabilities.argmax(1)
    is_binary = probabilities.shape[1] == 2
    average = {"average": "binary" if is_binary else "macro"}
    ranked = probabilities[:, 1] if is_binary else probabilities
    return {
        "accuracy": sklearn_metrics.accuracy_score(labels, predicted),
        "balanced_accuracy": sklearn_metrics.balanced_accuracy_score(labels, predicted),
        "f1": sklearn_metrics.f1_score(labels, predicted, **average),
        "mcc": sklearn_metrics.matthews_corrcoef(labels, predicted),
        "roc_auc": sklearn_metrics.roc_auc_score(labels, ranked, multi_class="ovr"),
    }


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_classification_equals_scikit_learn(classes):
    logits, labels, _ = draw(classes=classes)
    expected = pytest.approx(twin(softmax(logits), labels), abs=1e-12)
    assert values(classification_report(logits, labels)["overall"]) == expected


def test_bins_equal_the_report_of_their_rows():
    logits, labels, lengths = draw(2000)
    report = classification_report(logits, labels, lengths, num_bootstrap=50)
    bins = length_bins(lengths)
    assert sum(part["count"] for part in report["by_length"]) == report["count"] == 2000
    for part, found in zip(report["by_length"], bins, strict=True):
        expected = twin(softmax(logits[found.rows]), labels[found.rows])
        assert values(part) == pytest.approx(expected, abs=1e-12)
        assert (part["min_length"], part["max_length"]) == (found.min_length, found.max_length)


@pytest.mark.parametrize("classes", [2, 5])
def test_logits_and_probabilities_give_the_same(classes):
    logits, labels, lengths = draw(classes=classes)
    from_logits = classification_report(logits, labels, lengths, num_bootstrap=20)
    from_probabilities = classification_report(softmax(logits), labels, lengths, num_bootstrap=20)
    for name, metric in from_logits["overall"].items():
        assert metric == pytest.approx(from_probabilities["overall"][name], abs=1e-3)


def test_one_score_per_row_is_read_as_class_one():
    logits, labels, _ = draw()
    margin = logits[:, 1] - logits[:, 0]
    # away from zero, where the two ways to break a tie differ
    keep = np.abs(margin) > 1e-9
    both = classification_report(logits[keep], labels[keep], num_bootstrap=0)
    for scores, threshold in ((margin, 0.0), (softmax(logits)[:, 1], 0.5)):
        one = classification_report(scores[keep, None], labels[keep], num_bootstrap=0)
        assert values(one["overall"]) == pytest.approx(values(both["overall"]))
        assert one["threshold"] == threshold


def test_threshold_moves_predictions_but_not_the_area():
    logits, labels, _ = draw()
    scores = softmax(logits)[:, 1]
    plain = classification_report(scores, labels, num_bootstrap=0)
    strict = classification_report(scores, labels, num_bootstrap=0, threshold=0.9)
    assert strict["overall"]["roc_auc"] == plain["overall"]["roc_auc"]
    accuracy = ((scores > 0.9) == labels).mean()
    assert strict["overall"]["accuracy"]["value"] == pytest.approx(accuracy)


def test_area_comes_from_scores_not_from_hard_labels():
    scores, labels = np.array([0.6, 0.7, 0.8, 0.9]), np.array([0, 0, 1, 1])
    report = classification_report(scores, labels, num_bootstrap=0)
    assert report["overall"]["roc_auc"]["value"] == 1.0
    assert report["overall"]["accuracy"]["value"] == 0.5


def test_one_class_leaves_undefined_metrics_empty():
    scores = np.array([0.2, 0.9, 0.3])
    overall = classification_report(scores, [0, 0, 0], num_bootstrap=20)["overall"]
    empty = {"value": None, "low": None, "high": None}
    assert overall["roc_auc"] == overall["mcc"] == empty
    assert overall["accuracy"]["value"] == overall["balanced_accuracy"]["value"]
    assert classification_report([0.2, 0.3], [0, 0])["overall"]["f1"] == empty


def test_constant_predictions_have_no_correlation():
    overall = classification_report([0.6, 0.7, 0.8], [0, 1, 0])["overall"]
    assert overall["mcc"]["value"] == 0
    assert overall["balanced_accuracy"]["value"] == 0.5


def test_classes_absent_from_a_bin_do_not_count():
    scores = softmax(np.array([[3.0, 1, 0], [0, 2, 1], [1, 2, 0]]))
    overall = classification_report(scores, [0, 1, 0], num_bootstrap=0)["overall"]
    areas = [sklearn_metrics.roc_auc_score(np.array([0, 1, 0]) == c, scores[:, c]) for c in (0, 1)]
    assert overall["roc_auc"]["value"] == pytest.approx(np.mean(areas))
    expected = sklearn_metrics.f1_score([0, 1, 0], scores.argmax(1), average="macro")
    assert overall["f1"]["value"] == pytest.approx(expected)


def test_single_row_is_a_report():
    report = classification_report([[0.1, 2.0]], [1], [57])
    assert report["overall"]["accuracy"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    (part,) = report["by_length"]
    assert (part["from_percentile"], part["to_percentile"], part["count"]) == (0, 100, 1)
    assert regression_report([1.0], [1.0], [57])["overall"]["r2"]["value"] is None


def test_reports_are_ready_for_json():
    logits, labels, lengths = draw(60, classes=3)
    names = ["a", "b", "c"]
    report = classification_report(logits, labels, lengths, num_bootstrap=9, class_names=names)
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    predicted = logits.argmax(1)
    confusion = sklearn_metrics.confusion_matrix(labels, predicted)
    assert report["confusion_matrix"] == confusion.tolist()
    assert report["class_names"] == names
    report = regression_report(logits[:, 0], logits[:, 1], lengths, num_bootstrap=9)
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_regression_equals_scikit_learn():
    chance = np.random.default_rng(0)
    targets = chance.normal(1e4, 1, 500)
    guesses = targets + chance.normal(0, 0.1, 500)
    overall = regression_report(guesses[:, None], targets, tolerance=0.1)["overall"]
    assert {name: metric["value"] for name, metric in overall.items()} == pytest.approx(
        {
            "mse": sklearn_metrics.mean_squared_error(targets, guesses),
            "rmse": sklearn_metrics.root_mean_squared_error(targets, guesses),
            "mae": sklearn_metrics.mean_absolute_error(targets, guesses),
            "r2": sklearn_metrics.r2_score(targets, guesses),
            "within_tolerance": np.mean(np.abs(guesses - targets) < 0.1),
        }
    )


def test_without_tolerance_nothing_is_said_about_it():
    report = regression_report([0.5, 0.25], [0.0, 0.1], tolerance=None)
    assert list(report["overall"]) == ["mse", "rmse", "mae", "r2"]
    assert "tolerance" not in report


def test_tolerance_is_strict():
    overall = regression_report([0.5, 0.25], [0.0, 0.0], tolerance=0.5)["overall"]
    assert overall["within_tolerance"]["value"] == 0.5


@given(st.lists(st.integers(1, 60), min_size=1, max_size=300))
def test_every_row_is_in_exactly_one_bin(lengths):
    bins = length_bins(lengths)
    rows = np.concatenate([part.rows for part in bins])
    assert sorted(rows) == list(range(len(lengths)))
    for before, after in pairwise(bins):
        assert before.max_length < after.min_length
        assert before.to_percentile <= after.from_percentile
    for part in bins:
        assert part.from_percentile < part.to_percentile
        assert part.from_percentile in PERCENTILES
        assert part.to_percentile in PERCENTILES


def test_lengths_on_an_edge_are_in_the_bin_below_it():
    bins = length_bins(range(11))
    assert [part.rows.tolist() for part in bins] == [[0, 1], *([row] for row in range(2, 11))]
    edges = [(part.from_percentile, part.to_percentile) for part in bins]
    assert edges == [*pairwise(range(0, 100, 10)), (99.5, 100)]


def test_untied_lengths_fill_all_bins():
    bins = length_bins(np.random.default_rng(0).permutation(2000) + 30)
    edges = [(part.from_percentile, part.to_percentile) for part in bins]
    assert edges == list(pairwise(PERCENTILES))
    assert [len(part.rows) for part in bins] == [200] * 9 + [100, 80, 10, 10]


def test_bootstrap_depends_on_the_seed_alone():
    logits, labels, lengths = draw()
    first = classification_report(logits, labels, lengths, num_bootstrap=100, seed=3)
    np.random.seed(5)
    assert classification_report(logits, labels, lengths, num_bootstrap=100, seed=3) == first
    other = classification_report(logits, labels, lengths, num_bootstrap=100, seed=4)
    assert other["overall"]["roc_auc"] != first["overall"]["roc_auc"]


def test_chunks_of_draws_change_nothing(monkeypatch):
    logits, labels, _ = draw(50)
    whole = classification_report(logits, labels, num_bootstrap=30)
    monkeypatch.setattr("hf_mixers.metrics.bootstrap.CHUNK_CELLS", 170)
    assert classification_report(logits, labels, num_bootstrap=30) == whole


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    chance = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        is_right = chance.random(150) < 0.8
        labels = chance.integers(2, size=150)
        scores = np.where(is_right, labels, 1 - labels).astype(float)
        report = classification_report(scores, labels, num_bootstrap=200, seed=trial)
        interval = report["overall"]["accuracy"]
        covered += interval["low"] <= 0.8 <= interval["high"]
    assert 0.88 <= covered / 200 <= 0.99


def test_wider_confidence_is_wider():
    logits, labels, _ = draw()
    narrow, wide = (
        classification_report(logits, labels, confidence=c)["overall"]["roc_auc"]
        for c in (0.5, 0.99)
    )
    assert wide["low"] < narrow["low"] < narrow["value"] < narrow["high"] < wide["high"]


@pytest.mark.timing
def test_thousand_draws_of_a_test_set_take_seconds():
    logits, labels, lengths = draw(1500)
    start = time.perf_counter()
    classification_report(logits, labels, lengths)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores": [0.1, float("nan")], "labels": [0, 1]}, "row 1 holds nan"),
        ({"scores": [[0.1, float("inf")]], "labels": [0]}, "must be finite"),
        ({"scores": [0.1, 0.2], "labels": [0]}, "one number per row"),
        ({"scores": [0.1, 0.2], "labels": [0, 2]}, "from 0 to 1"),
        ({"scores": [0.1, 0.2], "labels": [0.0, 1.0]}, "class numbers"),
        ({"scores": [0.1, 0.2], "labels": [0, 1], "lengths": [3]}, "1 for 2 rows"),
        ({"scores": [0.1, 0.2], "labels": [0, 1], "lengths": [3, 2.5]}, "whole numbers"),
        ({"scores": [], "labels": []}, "at least one row"),
        ({"scores": np.zeros((2, 2, 2)), "labels": [0, 1]}, "shape (2, 2, 2)"),
        ({"scores": [0.1], "labels": [0], "class_names": ["a"]}, "1 for 2"),
        ({"scores": [[0.1, 1]], "labels": [0], "threshold": 0.5}, "scores in (N,)"),
        ({"scores": [0.1], "labels": [0], "confidence": 95}, "between 0 and 1"),
        ({"scores": [0.1], "labels": [0], "num_bootstrap": -1}, "0 (no intervals) or more"),
    ],
)
def test_wrong_input_is_one_sentence(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message) + r".*\.$"):
        classification_report(**arguments)


def test_masked_tokens_are_counted_by_length_of_their_sequence():
    report = masked_report([1, 0, 30], [10, 10, 40], [20, 20, 90], num_bootstrap=200)
    overall = report["overall"]["accuracy"]
    assert overall["value"] == pytest.approx(31 / 60)
    assert overall["low"] < overall["value"] < overall["high"]
    found = [(part["max_length"], part["accuracy"]["value"]) for part in report["by_length"]]
    assert found == [(20, pytest.approx(1 / 20)), (90, pytest.approx(30 / 40))]
    with pytest.raises(ValueError, match="correct the smaller"):
        masked_report([3], [2])


def test_regression_refuses_rows_that_do_not_match():
    with pytest.raises(ValueError, match="one number per row"):
        regression_report([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="predictions must be finite"):
        regression_report([float("nan")], [1.0])
    with pytest.raises(ValueError, match="tolerance must be positive"):
        regression_report([1.0], [1.0], tolerance=0)


@pytest.fixture
def evaluate(monkeypatch, tmp_path):
    """The library in an empty folder, with empty caches and without a network."""
    import evaluate

    def refuse(*args):
        raise OSError("There is no network.")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(evaluate.config, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", str(tmp_path / "metrics"))
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.chdir(tmp_path)
    return evaluate


@pytest.mark.parametrize("shape", ["logits", "scores"])
def test_evaluate_loads_the_metric_without_a_network(evaluate, shape):
    logits, labels, lengths = draw(40)
    scores = logits if shape == "logits" else logits[:, 1]
    metric = evaluate.load(str(METRIC_PATH))
    result = metric.compute(
        predictions=scores, references=labels, lengths=lengths, num_bootstrap=20
    )
    report = classification_report(scores, labels, lengths, num_bootstrap=20)
    assert result == values(report["overall"]) | report


def test_metric_takes_rows_in_batches(evaluate):
    logits, labels, lengths = draw(40)
    metric = LengthAwareClassification()
    for rows in (slice(0, 30), slice(30, 40)):
        metric.add_batch(predictions=logits[rows], references=labels[rows])
    result = metric.compute(lengths=lengths, num_bootstrap=5)
    report = classification_report(logits, labels, lengths, num_bootstrap=5)
    assert result["by_length"] == report["by_length"]


@pytest.mark.parametrize("num_classes", [2, 4])
def test_classes_have_their_own_precision_and_recall(num_classes):
    chance = np.random.default_rng(num_classes)
    labels = chance.integers(num_classes, size=60)
    logits = chance.normal(size=(60, num_classes)) + 2 * np.eye(num_classes)[labels]
    report = classification_report(logits, labels, num_bootstrap=0)
    expected = sklearn_metrics.precision_recall_fscore_support(labels, logits.argmax(1))
    found = [
        [one[name] for one in report["by_class"]] for name in ("precision", "recall", "f1", "count")
    ]
    assert np.allclose(found, expected)
    assert [one["name"] for one in report["by_class"]] == report["class_names"]


def test_precision_of_a_class_that_is_never_predicted_is_undefined():
    report = classification_report([[1, 0, 0], [1, 0, 0]], [0, 1], num_bootstrap=0)
    first, second, third = report["by_class"]
    assert (first["precision"], first["recall"]) == (0.5, 1.0)
    assert (second["precision"], second["recall"]) == (None, 0.0)
    assert (third["precision"], third["recall"], third["count"]) == (None, None, 0)


def test_f1_says_what_it_is_of():
    names = ["Mus", "Rattus"]
    two = classification_report([0.1, 0.9], [0, 1], num_bootstrap=0, class_names=names)
    assert two["f1_of"] == "Rattus"
    assert classification_report(np.eye(3), [0, 1, 2], num_bootstrap=0)["f1_of"] == "macro"


def test_bins_of_fewer_than_ten_rows_have_no_interval():
    chance = np.random.default_rng(0)
    labels, lengths = chance.integers(2, size=19), np.repeat([5, 50], [9, 10])
    by_length = classification_report(chance.random(19), labels, lengths)["by_length"]
    assert [part["count"] for part in by_length] == [9, 10]
    few, enough = (part["accuracy"] for part in by_length)
    assert few["value"] is not None
    assert few["low"] is few["high"] is None
    assert enough["low"] <= enough["value"] <= enough["high"]
