"""Rows by percentile of their length, as in figures 3 to 5 of the ChordMixer paper."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

PERCENTILES = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 100)


@dataclass(frozen=True)
class LengthBin:
    """The rows between two percentiles of length, and the lengths that occur among them."""

    from_percentile: float
    to_percentile: float
    min_length: int
    max_length: int
    rows: np.ndarray


def length_bins(lengths: Sequence[int] | np.ndarray) -> list[LengthBin]:
    """Bins by length, short ones first; every row is in exactly one of them.

    A bin holds what is longer than its lower percentile and not longer than its upper one; the
    first also holds its lower end. Rows of one length are never parted: where several percentiles
    are the same length, one bin spans them all. Bins without a row are left out.

    >>> [(part.from_percentile, part.to_percentile, len(part.rows)) for part in length_bins([7, 7])]
    [(0, 100, 2)]
    >>> [(part.min_length, part.max_length) for part in length_bins(range(1, 41))][:3]
    [(1, 4), (5, 8), (9, 12)]
    """
    values = check_lengths(lengths)
    edges = np.percentile(values, PERCENTILES)
    # interpolation may round an edge to just below the length that it is
    edges = np.where(np.isclose(edges, np.rint(edges), rtol=0, atol=1e-6), np.rint(edges), edges)
    uppers = np.unique(edges[1:])
    number = np.searchsorted(uppers, values)
    bins, start = [], 0
    for index, upper in enumerate(uppers):
        end = int(np.flatnonzero(edges == upper)[-1])
        rows = np.flatnonzero(number == index)
        if len(rows):
            found = values[rows]
            low, high = int(found.min()), int(found.max())
            bins.append(LengthBin(PERCENTILES[start], PERCENTILES[end], low, high, rows))
        start = end
    return bins


def check_lengths(lengths: Sequence[int] | np.ndarray, count: int | None = None) -> np.ndarray:
    """Lengths as integers in `(N,)`, or a ValueError that says why they are none."""
    values = np.asarray(lengths)
    if values.ndim != 1 or len(values) == 0 or values.dtype.kind not in "iuf":
        raise ValueError(
            f"lengths are one whole number per row, got {values.dtype} of shape {values.shape}."
        )
    if count is not None and len(values) != count:
        raise ValueError(f"lengths need one number per row, got {len(values)} for {count} rows.")
    whole = np.rint(values)
    if not np.isfinite(values).all() or (whole != values).any() or values.min() < 0:
        raise ValueError("lengths are whole numbers from 0 on, got something else.")
    return whole.astype(np.int64)
