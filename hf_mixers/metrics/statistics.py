"""What the reports have in common: bins of length, areas under curves, undefined quotients."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .bootstrap import Statistics, estimate, number_or_none
from .length import check_lengths, length_bins

# a bootstrap of fewer rows says little more than which rows there are
MIN_ROWS_OF_INTERVAL = 10


def make_report(
    statistics_of: Callable[[np.ndarray], Statistics],
    count: int,
    lengths: Sequence[int] | np.ndarray | None,
    num_bootstrap: int,
    confidence: float,
    seed: int,
) -> dict:
    """Statistics of all rows and of the bins of length, given what makes them for some rows."""

    def estimate_rows(rows: np.ndarray, number: int) -> dict:
        # each bin has its own stream of chance, so that its interval does not hang on the others
        draws = 0 if number and len(rows) < MIN_ROWS_OF_INTERVAL else num_bootstrap
        return estimate(statistics_of(rows), len(rows), draws, confidence, [seed, number])

    report: dict[str, Any] = {"overall": estimate_rows(np.arange(count), 0), "by_length": []}
    if lengths is not None:
        for number, part in enumerate(length_bins(check_lengths(lengths, count)), start=1):
            place = {
                "from_percentile": part.from_percentile,
                "to_percentile": part.to_percentile,
                "min_length": part.min_length,
                "max_length": part.max_length,
                "count": len(part.rows),
            }
            report["by_length"].append(place | estimate_rows(part.rows, number))
    settings = {"num_bootstrap": num_bootstrap, "confidence": confidence, "seed": seed}
    return report | {"count": count} | settings


def score_classes(
    hits: np.ndarray, labelled: np.ndarray, predicted: np.ndarray, names: Sequence[str]
) -> list[dict]:
    """Rows, precision, recall and F1 of every class; `None` where they are undefined."""
    columns = {
        "precision": divide(hits, predicted),
        "recall": divide(hits, labelled),
        "f1": divide(2 * hits, labelled + predicted),
    }
    return [
        {"name": name, "count": int(labelled[number])}
        | {metric: number_or_none(values[number]) for metric, values in columns.items()}
        for number, name in enumerate(names)
    ]


class SortedRows:
    """Rows in the order of their score, for areas under the curve of many draws."""

    def __init__(self, scores: np.ndarray, is_positive: np.ndarray):
        self.order = np.argsort(scores, kind="stable")
        self.is_positive = is_positive[self.order].astype(np.float64)
        ordered = scores[self.order]
        self.starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])

    def area(self, weights: np.ndarray) -> np.ndarray:
        """Chance that a positive row scores above a negative one; `nan` without either."""
        weights = weights[:, self.order]
        positive = weights * self.is_positive
        negative = weights - positive
        if len(self.starts) < len(self.order):
            positive = np.add.reduceat(positive, self.starts, axis=1)
            negative = np.add.reduceat(negative, self.starts, axis=1)
        # rows of the same score count half
        below = np.cumsum(negative, axis=1) - negative / 2
        return divide((positive * below).sum(1), positive.sum(1) * negative.sum(1))


def divide(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """The quotient, `nan` where the denominator is 0."""
    result = np.full(numerator.shape, np.nan)
    return np.divide(numerator, denominator, out=result, where=denominator > 0)


def mean_of_defined(values: np.ndarray) -> np.ndarray:
    """The mean over the last axis without `nan`, `nan` if there is nothing else."""
    defined = ~np.isnan(values)
    return divide(np.where(defined, values, 0).sum(-1), defined.sum(-1))


def check_finite(name: str, values: Sequence | np.ndarray) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0 or array.ndim == 0:
        raise ValueError(f"{name} need at least one row, got shape {array.shape}.")
    if not np.isfinite(array).all():
        wrong = int(np.argwhere(~np.isfinite(array))[0][0])
        raise ValueError(f"{name} must be finite numbers, row {wrong} holds {array[wrong]}.")
    return array
