"""Rows of token ids: filled, padded and handed over as lists, arrays or tensors."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch


def new_matrix(height: int, width: int) -> np.ndarray:
    """Uninitialised int64 matrix, in the memory that is quickest to come by."""
    # blocks above 32 MiB are always fresh from the system, where numpy's huge pages save half of
    # the time; smaller ones can be used again, and torch's are given back less eagerly
    if height * width * 8 > 1 << 25:
        return np.empty((height, width), dtype=np.int64)
    return torch.empty(height, width, dtype=torch.int64).numpy()


def fill_rows(
    widths: list[int], spans: list[tuple[int, int]], contents: Iterable, padding: int | None
) -> np.ndarray | list[np.ndarray]:
    """A matrix, or one array per row where widths differ, with contents in the span of each row."""
    rows: np.ndarray | list[np.ndarray]
    if len(set(widths)) == 1:
        rows = new_matrix(len(widths), widths[0])
    else:
        rows = [np.empty(width, dtype=np.int64) for width in widths]
    # no part is written twice: touching new memory is the main cost of a call
    for row, width, (begin, end), content in zip(rows, widths, spans, contents, strict=False):
        row[begin:end] = content
        if begin > 0:
            row[:begin] = padding
        if end < width:
            row[end:] = padding
    return rows


def convert_rows(rows: np.ndarray | list[np.ndarray], tensors: str | None) -> Any:
    """Rows as lists, numpy array or torch tensor; rows of different widths are left to torch."""
    if tensors is None:
        return [row.tolist() for row in rows]
    if isinstance(rows, np.ndarray):
        return torch.from_numpy(rows) if tensors == "pt" else rows
    if tensors == "pt":
        return rows  # transformers raises its own error for these
    ragged = np.empty(len(rows), dtype=object)
    ragged[:] = rows
    return ragged
