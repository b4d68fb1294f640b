"""Files in the IDX format of MNIST: an array of bytes behind a short head."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from ..records import open_plain_or_gzip

# the third byte of a file: what its numbers are, highest byte first
_KINDS = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_PARTS = {"train": "train", "t10k": "test"}


def find_idx_parts(folder: str | os.PathLike) -> dict[str, tuple[Path, Path]]:
    """Images and labels of the parts in a folder: `train-images-idx3-ubyte`, `t10k-...`, or .gz."""
    found = {}
    for prefix, part in _PARTS.items():
        pair: list[Any] = [
            next(iter(sorted(Path(folder).glob(f"{prefix}-{kind}[-.]idx[13]-ubyte*"))), None)
            for kind in ("images", "labels")
        ]
        if all(pair):
            found[part] = (pair[0], pair[1])
        elif any(pair):
            there = next(filter(None, pair))
            raise ValueError(f"{there} has no file of images or labels that belongs to it.")
    return found


def read_idx(path: str | os.PathLike) -> np.ndarray:
    """The array of an IDX file, plain or gzip."""
    path = os.fspath(path)
    with open_plain_or_gzip(path) as file:
        try:
            data = file.read()
        except (EOFError, OSError) as error:
            raise ValueError(f"{path} is cut short or damaged: {error}") from error
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _KINDS:
        raise ValueError(f"{path} does not begin as an IDX file: 0, 0, a type, the dimensions.")
    start = 4 + 4 * data[3]
    shape = np.frombuffer(data[4:start].ljust(4 * data[3], b"\0"), ">u4").astype(int)
    kind = np.dtype(_KINDS[data[2]])
    expected = start + kind.itemsize * int(shape.prod())
    if len(data) != expected:
        raise ValueError(
            f"{path} has {len(data):,} bytes where its head says {expected:,}: shape"
            f" {tuple(shape.tolist())}."
        )
    return np.frombuffer(data, kind, offset=start).reshape(shape).astype(kind.newbyteorder("="))
