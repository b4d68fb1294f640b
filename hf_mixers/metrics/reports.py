"""Reports of a run: scores overall and by length, as a dict that is ready for JSON."""

from collections.abc import Mapping, Sequence

import numpy as np

from .bootstrap import Statistics, check_bootstrap
from .statistics import (
    SortedRows,
    check_finite,
    divide,
    make_report,
    mean_of_defined,
    score_classes,
)


def classification_report(
    scores: Sequence | np.ndarray,
    labels: Sequence[int] | np.ndarray,
    lengths: Sequence[int] | np.ndarray | None = None,
    *,
    num_bootstrap: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    class_names: Sequence[str] | None = None,
    threshold: float | None = None,
) -> dict:
    """Scores of a classifier, overall and by length, with confidence intervals.

    The metrics are those of scikit-learn, `None` where they are undefined:

    - `accuracy`.
    - `balanced_accuracy`: mean recall of the classes that occur in the labels.
    - `f1`: with two classes that of class 1; with more the plain mean over the classes that occur
      in labels or predictions. Undefined without class 1 in either. `f1_of` says which it is: the
      name of class 1, or `macro`.
    - `mcc`: Matthews correlation; 0 if all predictions are one class, undefined if all labels are.
    - `roc_auc`: from scores, ties count half; with more than two classes the mean over the
      classes that occur, each against the rest. Undefined if all labels are one class.

    Args:
        scores: `(N, C)` logits or probabilities, or `(N,)` scores of class 1. Rows that sum to one
            are read as probabilities, others as logits.
        labels: `(N,)` class numbers.
        lengths: `(N,)`; adds the same metrics for the bins of `length_bins`, without intervals for
            bins of fewer than 10 rows.
        num_bootstrap: draws of the percentile bootstrap over rows; 0 gives no intervals.
        class_names: a name per class, for the reader of the report.
        threshold: for `(N,)` scores: class 1 is predicted above it; by default 0.5 if all scores
            are in [0, 1], otherwise 0.

    Returns:
        `overall`, `by_length`, `by_class` (rows, precision, recall and F1 of every class),
        `count`, `confusion_matrix` (a row per label, a column per prediction), `class_names`,
        `f1_of` and the settings.

    >>> report = classification_report([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], num_bootstrap=0)
    >>> report["overall"]["roc_auc"]["value"], report["overall"]["accuracy"]["value"]
    (0.75, 0.75)
    """
    check_bootstrap(num_bootstrap, confidence)
    values = check_finite("scores", scores)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2):
        raise ValueError(f"scores are in (N, C) or (N,), got shape {values.shape}.")
    num_classes = 2 if values.ndim == 1 else values.shape[1]
    truth = _check_labels(labels, len(values), num_classes)
    if class_names is not None and len(class_names) != num_classes:
        raise ValueError(
            f"class_names need one name per class, got {len(class_names)} for {num_classes}."
        )
    if values.ndim == 1:
        if threshold is None:
            threshold = 0.5 if values.min() >= 0 and values.max() <= 1 else 0.0
        predicted = (values > threshold).astype(np.int64)
    elif threshold is not None:
        raise ValueError(f"threshold is for scores in (N,), got scores of shape {values.shape}.")
    else:
        predicted = values.argmax(1)
    ranked = _scores_to_rank(values)

    def statistics_of(rows: np.ndarray) -> Statistics:
        return _classification_statistics(ranked[rows], predicted[rows], truth[rows], num_classes)

    report = make_report(statistics_of, len(values), lengths, num_bootstrap, confidence, seed)
    cells = np.bincount(truth * num_classes + predicted, minlength=num_classes**2)
    confusion = cells.reshape(num_classes, num_classes)
    names = [str(name) for name in class_names or range(num_classes)]
    report["by_class"] = score_classes(
        np.diag(confusion), confusion.sum(1), confusion.sum(0), names
    )
    report["confusion_matrix"] = confusion.tolist()
    report["class_names"] = names
    report["f1_of"] = names[1] if num_classes == 2 else "macro"
    if threshold is not None:
        report["threshold"] = float(threshold)
    return report


def regression_report(
    predictions: Sequence[float] | np.ndarray,
    targets: Sequence[float] | np.ndarray,
    lengths: Sequence[int] | np.ndarray | None = None,
    tolerance: float | None = 0.04,
    *,
    num_bootstrap: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict:
    """Scores of a regression, overall and by length, with confidence intervals.

    The metrics are `mse`, its root `rmse`, `mae`, `r2` (undefined, `None`, if all targets are the
    same) and `within_tolerance`, the fraction of rows whose error is strictly less than
    `tolerance`.

    Args:
        predictions: `(N,)` or `(N, 1)`.
        targets: as the predictions.
        lengths: `(N,)`; adds the same metrics for the bins of `length_bins`.
        tolerance: None leaves `within_tolerance` out.
        num_bootstrap: draws of the percentile bootstrap over rows; 0 gives no intervals.

    >>> report = regression_report([0.5, 1.0], [0.52, 1.5], num_bootstrap=0)
    >>> report["overall"]["within_tolerance"]["value"]
    0.5
    """
    check_bootstrap(num_bootstrap, confidence)
    if tolerance is not None and not tolerance > 0:
        raise ValueError(f"tolerance must be positive, got {tolerance}.")
    guesses, truth = check_finite("predictions", predictions), check_finite("targets", targets)
    guesses, truth = (v[:, 0] if v.shape[1:] == (1,) else v for v in (guesses, truth))
    if guesses.ndim != 1 or guesses.shape != truth.shape:
        raise ValueError(
            f"predictions and targets are one number per row, got shapes {guesses.shape} and"
            f" {truth.shape}."
        )

    def statistics_of(rows: np.ndarray) -> Statistics:
        return _regression_statistics(guesses[rows], truth[rows], tolerance)

    report = make_report(statistics_of, len(truth), lengths, num_bootstrap, confidence, seed)
    if tolerance is not None:
        report["tolerance"] = float(tolerance)
    return report


def masked_report(
    correct: Sequence[int] | np.ndarray,
    masked: Sequence[int] | np.ndarray,
    lengths: Sequence[int] | np.ndarray | None = None,
    *,
    num_bootstrap: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict:
    """Accuracy on the masked tokens of sequences, overall and by length, with intervals.

    Args:
        correct: `(N,)` tokens of every sequence that were guessed.
        masked: `(N,)` tokens of every sequence that were to be guessed.
        lengths: `(N,)`; adds the same for the bins of `length_bins`.
        num_bootstrap: draws of the percentile bootstrap over sequences; 0 gives no intervals.

    >>> masked_report([1, 3], [2, 4], num_bootstrap=0)["overall"]["accuracy"]["value"]
    0.6666666666666666
    """
    check_bootstrap(num_bootstrap, confidence)
    hits, chances = np.asarray(correct, float), np.asarray(masked, float)
    if hits.ndim != 1 or hits.shape != chances.shape or (hits > chances).any():
        raise ValueError("correct and masked are one number per sequence, correct the smaller.")

    def statistics_of(rows: np.ndarray) -> Statistics:
        def statistics(weights: np.ndarray) -> dict[str, np.ndarray]:
            return {"accuracy": divide(weights @ hits[rows], weights @ chances[rows])}

        return statistics

    return make_report(statistics_of, len(hits), lengths, num_bootstrap, confidence, seed)


def overall_values(report: Mapping) -> dict[str, float | None]:
    """The metrics of a report by name, without intervals; plain numbers stay what they are.

    >>> overall_values({"overall": {"accuracy": {"value": 0.5, "low": 0.4, "high": 0.6}}})
    {'accuracy': 0.5}
    """
    return {
        name: metric["value"] if isinstance(metric, Mapping) else metric
        for name, metric in report.get("overall", report).items()
    }


def _classification_statistics(
    ranked: np.ndarray, predicted: np.ndarray, truth: np.ndarray, num_classes: int
) -> Statistics:
    classes = np.eye(num_classes)
    is_label, is_predicted = classes[truth], classes[predicted]
    # all that the metrics need of a confusion matrix: its diagonal and its two margins
    parts = np.concatenate([is_label * is_predicted, is_label, is_predicted], 1)
    # with two classes both have the same area
    positives = [1] if num_classes == 2 else range(num_classes)
    sorted_rows = [SortedRows(ranked[:, place], truth == c) for place, c in enumerate(positives)]

    def statistics(weights: np.ndarray) -> dict[str, np.ndarray]:
        hits, labelled, predicted = np.split(weights @ parts, 3, axis=1)
        areas = np.stack([rows.area(weights) for rows in sorted_rows], 1)
        metrics = _confusion_statistics(hits, labelled, predicted)
        return metrics | {"roc_auc": mean_of_defined(areas)}

    return statistics


def _confusion_statistics(
    hits: np.ndarray, labelled: np.ndarray, predicted: np.ndarray
) -> dict[str, np.ndarray]:
    """Metrics of hits, labels and predictions per draw and class, each in `(R, C)`."""
    total = labelled.sum(1)
    f1 = divide(2 * hits, labelled + predicted)
    covariance = hits.sum(1) * total - (labelled * predicted).sum(1)
    spread_of_labels = total**2 - (labelled**2).sum(1)
    spread_of_predictions = total**2 - (predicted**2).sum(1)
    mcc = divide(covariance, np.sqrt(spread_of_labels * spread_of_predictions))
    mcc[(spread_of_predictions == 0) & (spread_of_labels > 0)] = 0
    return {
        "accuracy": hits.sum(1) / total,
        "balanced_accuracy": mean_of_defined(divide(hits, labelled)),
        "f1": f1[:, 1] if f1.shape[1] == 2 else mean_of_defined(f1),
        "mcc": mcc,
    }


def _regression_statistics(
    guesses: np.ndarray, truth: np.ndarray, tolerance: float | None
) -> Statistics:
    error = np.abs(guesses - truth)
    # spread around the mean of a draw from sums: centred first, so that nothing cancels
    centred = truth - truth.mean()
    terms = np.stack([error**2, error, error < (tolerance or 0), centred, centred**2], 1)
    is_constant = (truth == truth[0]).all()

    def statistics(weights: np.ndarray) -> dict[str, np.ndarray]:
        mse, mae, within, mean, square = (weights @ terms / weights.sum(1, keepdims=True)).T
        spread = np.zeros_like(mse) if is_constant else square - mean**2
        # a draw of one value again and again leaves nothing but rounding
        spread[spread < 1e-12 * square] = 0
        r2 = 1 - divide(mse, spread)
        metrics = {"mse": mse, "rmse": np.sqrt(mse), "mae": mae, "r2": r2}
        return metrics if tolerance is None else metrics | {"within_tolerance": within}

    return statistics


def _scores_to_rank(values: np.ndarray) -> np.ndarray:
    """Scores that can be compared between rows, in `(N, 1)` for two classes or `(N, C)`."""
    if values.ndim == 1:
        return values[:, None]
    are_probabilities = values.min() >= 0 and np.allclose(values.sum(1), 1, rtol=0, atol=1e-2)
    if values.shape[1] == 2:
        return values[:, 1:] if are_probabilities else values[:, 1:] - values[:, :1]
    if are_probabilities:
        return values
    exponents = np.exp(values - values.max(1, keepdims=True))
    return exponents / exponents.sum(1, keepdims=True)


def _check_labels(labels: Sequence | np.ndarray, count: int, num_classes: int) -> np.ndarray:
    truth = np.asarray(labels)
    if truth.shape != (count,):
        raise ValueError(f"labels need one number per row, got {truth.shape} for {count} rows.")
    if truth.dtype.kind not in "iub" or truth.min() < 0 or truth.max() >= num_classes:
        raise ValueError(
            f"labels are class numbers from 0 to {num_classes - 1}, got {truth.dtype} from"
            f" {truth.min()} to {truth.max()}."
        )
    return truth.astype(np.int64)
