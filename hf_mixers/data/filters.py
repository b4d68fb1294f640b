"""Examples that a model can read: others are an error or left out, counted."""

from typing import Literal

import numpy as np
from datasets import Dataset
from transformers.utils import logging

from ..models.dna import find_other_letter
from .classes import name_row, read_column

logger = logging.get_logger(__name__)


def filter_lengths(
    dataset: Dataset, minimum: int = 2, maximum: int | None = None, label_column: str = "label"
) -> Dataset:
    """Examples of which the `length` is within bounds; what is left out is reported.

    >>> filter_lengths(Dataset.from_dict({"length": [1, 5, 9]}), 2, 8)["length"][:]
    [5]
    """
    lengths = np.asarray(read_column(dataset, "length"))
    short = lengths < minimum
    long = lengths > maximum if maximum is not None else np.zeros_like(short)
    if not short.any() and not long.any():
        return dataset
    kept = np.flatnonzero(~short & ~long)
    text = f"{len(dataset) - len(kept)} of {len(dataset)} examples are left out:"
    text += f" {short.sum()} shorter than {minimum}"
    if maximum is not None:
        text += f", {long.sum()} longer than {maximum}"
    return _keep(dataset, kept, text, label_column)


def filter_letters(
    dataset: Dataset,
    letters: str,
    bad_records: Literal["error", "drop"] = "error",
    label_column: str = "label",
) -> Dataset:
    """Examples of which the `sequence` has these letters only, in either case.

    Args:
        letters: What a model's vocabulary has, such as `"ACGT"`.
        bad_records: What becomes of others: `error`, or `drop`, which reports how many.

    >>> dataset = Dataset.from_dict({"sequence": ["ACGT", "ACNT", "gatt"]})
    >>> filter_letters(dataset, "ACGT", bad_records="drop")["sequence"][:]
    ['ACGT', 'gatt']
    """
    if bad_records not in ("error", "drop"):
        raise ValueError(f"bad_records={bad_records!r} was given: error and drop are accepted.")
    places = np.array([find_other_letter(text, letters) for text in dataset["sequence"]])
    bad = np.flatnonzero(places >= 0)
    if len(bad) == 0:
        return dataset
    text = f"{len(bad)} of {len(dataset)} examples have other letters than {letters}"
    if bad_records == "error":
        place, row = places[bad[0]], int(bad[0])
        found = f"{name_row(dataset, row)} has {dataset[row]['sequence'][place]!r}"
        raise ValueError(
            f"{text}: {found} at position {place}; bad_records='drop' leaves them out."
        )
    return _keep(dataset, np.flatnonzero(places < 0), f"{text} and are left out", label_column)


def _keep(dataset: Dataset, kept: np.ndarray, text: str, label_column: str) -> Dataset:
    """Some rows, and a report of those that are left out."""
    if len(kept) == 0:
        raise ValueError(f"{text}; none is left.")
    logger.warning(f"{text}.")
    filtered = dataset.select(kept)
    if label_column in dataset.column_names:
        before, after = (set(part[label_column]) for part in (dataset, filtered))
        if before - after:
            logger.warning(f"Classes without examples now: {sorted(before - after)}.")
    return filtered
