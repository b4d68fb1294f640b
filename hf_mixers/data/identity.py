"""Which sequences of a data set are identical, so that splits keep them together."""

import hashlib
from dataclasses import dataclass

import numpy as np
from datasets import Dataset
from transformers.utils import logging

from ..models.dna import reverse_complement
from .classes import name_row, read_column

logger = logging.get_logger(__name__)

# RNA is the same sequence as DNA, in either case
_AS_DNA = str.maketrans("U", "T")


@dataclass(frozen=True)
class Identity:
    """The distinct sequences of a data set.

    Args:
        units: Number of the distinct sequence of every row, counted from 0.
        first: Row where each distinct sequence appears first.
    """

    units: np.ndarray
    first: np.ndarray

    @property
    def copies(self) -> int:
        """Rows whose sequence stands in an earlier row."""
        return len(self.units) - len(self.first)


def find_identical(
    dataset: Dataset, column: str = "sequence", match_strands: bool = False
) -> Identity:
    """The distinct sequences of a column, whatever their case and whether with U or T.

    Args:
        match_strands: A sequence and its reverse complement count as identical.

    >>> dataset = Dataset.from_dict({"sequence": ["ACGG", "ttt", "acgg", "CCGU"]})
    >>> find_identical(dataset).units.tolist()
    [0, 1, 0, 2]
    >>> find_identical(dataset, match_strands=True).units.tolist()
    [0, 1, 0, 0]
    """
    digests = bytearray()
    for batch in dataset.with_format("arrow").select_columns(column).iter(10_000):
        for text in batch[column].to_pylist():
            sequence = text.upper().translate(_AS_DNA)
            if match_strands:
                sequence = min(sequence, reverse_complement(sequence))
            digests += hashlib.blake2b(sequence.encode(), digest_size=16).digest()
    halves = np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2)
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (halves[order[1:]] != halves[order[:-1]]).any(1)
    sorted_units = np.cumsum(is_new) - 1
    # lexsort is stable: the first of equal rows is the earliest
    first = order[is_new]
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    units = np.empty(len(order), dtype=np.int64)
    units[order] = rank[sorted_units]
    return Identity(units, np.sort(first))


def check_conflicts(
    dataset: Dataset, identity: Identity, label_column: str, allow: bool = False
) -> None:
    """An error if the same sequence stands under two labels, naming both records.

    Args:
        allow: Such sequences are counted in the log instead.
    """
    labels = read_column(dataset, label_column)
    conflicts, example = 0, None
    seen: dict[int, int] = {}
    # only sequences with copies can be in conflict
    has_copies = np.bincount(identity.units, minlength=len(identity.first)) > 1
    for row in np.flatnonzero(has_copies[identity.units]):
        unit = int(identity.units[row])
        earlier = seen.setdefault(unit, int(row))
        if labels[earlier] != labels[row]:
            conflicts += 1
            example = example or (earlier, int(row))
    if example is None:
        return
    names = " and ".join(
        f"{name_row(dataset, row)} with {_name_label(dataset, label_column, labels[row])!r}"
        for row in example
    )
    text = f"The same sequence has different labels: {names}"
    if not allow:
        raise ValueError(f"{text}; allow_conflicts=True keeps such records.")
    logger.warning(f"{text} ({conflicts:,} records in all); they are kept together in one part.")


def _name_label(dataset: Dataset, column: str, value):
    names = getattr(dataset.features[column], "names", None)
    return value if names is None else names[value]
