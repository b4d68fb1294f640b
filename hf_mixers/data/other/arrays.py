"""Arrays in `.npz` files, and classes that they number."""

import os
from collections.abc import Iterable

import numpy as np


def read_npz(path: str) -> dict[str, np.ndarray]:
    """All arrays of a file, or a ValueError that names it."""
    if not os.path.isfile(path):
        raise ValueError(f"{path} does not exist.")
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except Exception as error:
        # zipfile, zlib and numpy have many words for the same thing
        raise ValueError(f"{path} is no .npz file that can be read: {error}") from error


def name_classes(path: str, labels: np.ndarray, names: np.ndarray | None) -> list[str]:
    """Labels as text: numbers are looked up in the names of the classes, if there are some."""
    if labels.ndim != 1 or labels.dtype.kind not in "iuUb":
        raise ValueError(
            f"{path} has labels of {labels.dtype} in shape {labels.shape}: one text or whole number"
            " per example is accepted."
        )
    if names is None or labels.dtype.kind == "U":
        return [str(label) for label in labels.tolist()]
    if labels.min() < 0 or labels.max() >= len(names):
        raise ValueError(
            f"{path} has labels from {labels.min()} to {labels.max()} for {len(names)} classes."
        )
    return [str(names[label]) for label in labels.astype(int)]


def sort_names(labels: Iterable) -> list[str]:
    """The classes that occur, once each: numbers by size, other text by letter.

    >>> sort_names(["10", "9", "9"]), sort_names([2, "b", "a"])
    (['9', '10'], ['2', 'a', 'b'])
    """
    names = {str(label) for label in labels}
    if all(name.removeprefix("-").isdecimal() for name in names):
        return sorted(names, key=int)
    return sorted(names)
