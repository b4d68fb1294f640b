"""Examples of a task by number: read or made when asked for."""

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from torch.utils.data import Dataset


class TaskRows(Dataset):
    """Base of the parts of a task: one dictionary of model inputs and `labels` per example.

    A subclass gives `read(row)` and, where they are known beforehand, `all_labels` and
    `all_lengths` as arrays over all rows of its source. `select` gives another view of the same
    source.

    Args:
        num_rows: Examples of the source.
    """

    def __init__(self, num_rows: int):
        self.rows = np.arange(num_rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"The data set has {len(self)} examples, got index {index}.")
        return self.read(int(self.rows[index]))

    def read(self, row: int) -> dict[str, Any]:
        """One example of the source."""
        raise NotImplementedError

    def select(self, indices: Sequence[int] | np.ndarray) -> "TaskRows":
        """The examples with these numbers, in this order."""
        view = copy.copy(self)
        view.rows = self.rows[np.asarray(indices, dtype=np.int64)]
        # what is cached belongs to the rows
        for name in ("lengths", "labels"):
            view.__dict__.pop(name, None)
        return view

    def sample(self, size: int, seed: int = 0) -> "TaskRows":
        """So many examples drawn at random, in their order; all of them where there are fewer.

        Sources may go class by class, so that their first examples would all be of one.
        """
        drawn = np.random.default_rng(seed).permutation(len(self))[:size]
        return self.select(np.sort(drawn))

    @property
    def has_labels(self) -> bool:
        """Whether labels are known without reading or making the examples."""
        return type(self).find_labels is not TaskRows.find_labels

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of every example; of a pair, both sequences together."""
        return self.find_lengths(self.rows)

    @cached_property
    def labels(self) -> np.ndarray:
        """Label of every example."""
        return self.find_labels(self.rows)

    def find_lengths(self, rows: np.ndarray) -> np.ndarray:
        """Lengths of the given rows of the source."""
        return np.array([count_tokens(self.read(int(row))) for row in rows])

    def find_labels(self, rows: np.ndarray) -> np.ndarray:
        """Labels of the given rows of the source."""
        return np.array([self.read(int(row))["labels"] for row in rows])


def count_tokens(example: dict[str, Any]) -> int:
    """Tokens of an example; of a pair, both sequences together."""
    names = ("input_ids", "input_values", "input_ids_2", "input_values_2")
    return sum(len(example[name]) for name in names if name in example)
