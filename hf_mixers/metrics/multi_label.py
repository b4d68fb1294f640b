"""Report of a classifier whose rows have any number of labels."""

from collections.abc import Sequence

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


def multi_label_report(
    scores: Sequence | np.ndarray,
    labels: Sequence | np.ndarray,
    lengths: Sequence[int] | np.ndarray | None = None,
    *,
    num_bootstrap: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    class_names: Sequence[str] | None = None,
    threshold: float = 0.0,
) -> dict:
    """Scores of a multi-label classifier, overall and by length, with confidence intervals.

    The metrics, `None` where they are undefined:

    - `exact_match`: share of the rows of which all labels are right.
    - `f1`: plain mean over the labels that occur in rows or predictions (`f1_of` is `macro`).
    - `f1_micro`: of all labels of all rows together.
    - `roc_auc`: mean over the labels that some rows have and others lack, ties count half.

    Args:
        scores: `(N, C)` log-odds, as the logits of a model.
        labels: `(N, C)` of 0 and 1.
        lengths: `(N,)`; adds the same metrics for the bins of `length_bins`.
        num_bootstrap: draws of the percentile bootstrap over rows; 0 gives no intervals.
        class_names: a name per label, for the reader of the report.
        threshold: labels with a score above it are predicted.

    >>> report = multi_label_report([[2, -1], [1, 1]], [[1, 0], [0, 1]], num_bootstrap=0)
    >>> report["overall"]["exact_match"]["value"], report["overall"]["f1_micro"]["value"]
    (0.5, 0.8)
    """
    check_bootstrap(num_bootstrap, confidence)
    values = check_finite("scores", scores)
    truth = check_finite("labels", labels)
    if values.ndim != 2 or values.shape != truth.shape:
        raise ValueError(
            f"scores and labels are in (N, C), got shapes {values.shape} and {truth.shape}."
        )
    if not np.isin(truth, (0, 1)).all():
        raise ValueError(f"labels are 0 or 1, got {truth[~np.isin(truth, (0, 1))][0]}.")
    names = [str(name) for name in class_names or range(values.shape[1])]
    if len(names) != values.shape[1]:
        raise ValueError(
            f"class_names need one name per label, got {len(names)} for {values.shape[1]}."
        )
    predicted = (values > threshold).astype(np.float64)

    def statistics_of(rows: np.ndarray) -> Statistics:
        return _make_statistics(values[rows], predicted[rows], truth[rows])

    report = make_report(statistics_of, len(values), lengths, num_bootstrap, confidence, seed)
    hits = (truth * predicted).sum(0)
    report["by_class"] = score_classes(hits, truth.sum(0), predicted.sum(0), names)
    settings = {"class_names": names, "f1_of": "macro", "threshold": float(threshold)}
    return report | settings


def _make_statistics(values: np.ndarray, predicted: np.ndarray, truth: np.ndarray) -> Statistics:
    parts = np.concatenate([truth * predicted, truth, predicted], 1)
    is_exact = (truth == predicted).all(1).astype(np.float64)
    columns = [SortedRows(values[:, c], truth[:, c] == 1) for c in range(values.shape[1])]

    def statistics(weights: np.ndarray) -> dict[str, np.ndarray]:
        hits, labelled, guessed = np.split(weights @ parts, 3, axis=1)
        areas = np.stack([column.area(weights) for column in columns], 1)
        return {
            "exact_match": weights @ is_exact / weights.sum(1),
            "f1": mean_of_defined(divide(2 * hits, labelled + guessed)),
            "f1_micro": divide(2 * hits.sum(1), labelled.sum(1) + guessed.sum(1)),
            "roc_auc": mean_of_defined(areas),
        }

    return statistics
