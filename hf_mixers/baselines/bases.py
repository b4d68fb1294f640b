"""Sequences as small integers: A, C, G and T are 0 to 3, everything else is 4; their labels."""

from collections.abc import Sequence

import numpy as np
import torch

UNKNOWN = 4

_TABLE = np.full(256, UNKNOWN, np.uint8)
# U is read as T
for _letters in ("ACGT", "acgt", "ACGU", "acgu"):
    _TABLE[list(_letters.encode("ascii"))] = range(4)


def encode(sequence: str) -> np.ndarray:
    """The bases of a text as uint8 in `(L,)`, one number per character.

    >>> encode("ACGTun")
    array([0, 1, 2, 3, 3, 4], dtype=uint8)
    """
    # "?" stands for every character beyond ascii, and is not a base either
    return _TABLE[np.frombuffer(sequence.encode("ascii", "replace"), np.uint8)]


def check_examples(sequences: Sequence[str], labels: Sequence[int]) -> np.ndarray:
    """The labels as integers, after checking that there is one for each of the texts."""
    check_sequences(sequences)
    classes = np.asarray(labels)
    if classes.shape != (len(sequences),):
        raise ValueError(
            f"Baselines need one label per sequence, got {len(sequences)} sequences and labels of"
            f" shape {classes.shape}."
        )
    if not np.issubdtype(classes.dtype, np.integer) or classes.min() < 0:
        raise ValueError(
            f"Labels are integers from 0 on, got {classes.dtype} from {classes.min()} on."
        )
    return classes.astype(np.int64)


def count_classes(num_labels: int | None, *labels: np.ndarray | torch.Tensor) -> int:
    """How many classes there are: as many as was said, or else up to the largest label.

    >>> count_classes(None, np.array([0, 2])), count_classes(5, np.array([0, 2]))
    (3, 5)
    """
    largest = max(int(one.max()) for one in labels)
    if num_labels is None:
        return largest + 1
    if num_labels <= largest:
        raise ValueError(f"num_labels={num_labels} was given, but there is a label {largest}.")
    return num_labels


def check_sequences(sequences: Sequence[str]) -> None:
    """A ValueError unless there is at least one text, and no empty one."""
    if isinstance(sequences, str) or len(sequences) == 0:
        raise ValueError("Baselines need a list of at least one sequence, got one text or none.")
    for number, sequence in enumerate(sequences):
        if not isinstance(sequence, str) or not sequence:
            kind = "an empty str" if sequence == "" else type(sequence).__name__
            raise ValueError(f"A sequence is a str of one base or more, number {number} is {kind}.")
