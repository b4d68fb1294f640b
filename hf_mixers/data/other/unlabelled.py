"""Rows of tables, series and images without labels, for a trained model."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from ..records import TABLE_KINDS, find_kind
from .arrays import read_npz
from .images import PICTURE_ENDINGS, read_picture
from .tables import read_table_file
from .ts_files import read_ts

TABLE_ENDINGS = (".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz")
SERIES_ENDINGS = (".ts", ".ts.gz", ".npz")
IMAGE_ENDINGS = (*PICTURE_ENDINGS, ".npz")


def list_files(sources: list[str], endings: tuple[str, ...]) -> list[str]:
    """Sorted files of some endings; of folders, all that are in them."""
    found: list[str] = []
    for source in map(Path, sources):
        if not source.exists():
            raise ValueError(f"{source} does not exist.")
        inside = sorted(source.rglob("*")) if source.is_dir() else [source]
        chosen = [str(path) for path in inside if path.name.lower().endswith(endings)]
        if not chosen:
            raise ValueError(f"{source} has none of the endings {', '.join(endings)}.")
        found += chosen
    return found


def read_table_frame(file: str) -> pd.DataFrame:
    """The rows of one CSV or parquet file."""
    kind = find_kind(file)
    if kind not in TABLE_KINDS:
        raise ValueError(f"{file} is not a table: CSV and parquet are accepted.")
    return read_table_file(file, kind)


def read_series_file(file: str) -> Iterator[np.ndarray]:
    """Series `(L, F)` of a `.ts` file, or of the arrays `x` or `x_...` of an `.npz` file.

    Labels that the file has are not read.
    """
    if not file.lower().endswith(".npz"):
        yield from read_ts(file)[0]
        return
    arrays = read_npz(file)
    names = [name for name in arrays if name == "x" or name.startswith("x_")]
    if not names:
        raise ValueError(f"{file} has no array x: it has {', '.join(arrays)}.")
    for name in names:
        values, lengths = arrays[name], arrays.get(name.replace("x", "lengths", 1))
        if lengths is not None:
            yield from np.split(values, np.cumsum(lengths)[:-1])
        elif values.ndim in (2, 3):
            yield from values if values.ndim == 3 else values[:, :, None]
        else:
            raise ValueError(
                f"{file} has {name} of shape {values.shape}: (N, L, F), (N, L), or (T, F) with"
                " lengths is accepted."
            )


def read_image_file(
    file: str, image_size: int | None, channels: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Names and images `(C, H, W)` in uint8 of a picture, or of an array `x` of an `.npz` file.

    Args:
        image_size: Height and width to which pictures are scaled; None leaves them.
        channels: 1 for grey, 3 for colours, to which pictures are changed.
    """
    if not file.lower().endswith(".npz"):
        yield file, read_picture(file, image_size, channels)
        return
    arrays = read_npz(file)
    names = [name for name in arrays if name == "x" or name.startswith("x_")]
    if not names:
        raise ValueError(f"{file} has no array x: it has {', '.join(arrays)}.")
    for name in names:
        images = arrays[name]
        if images.dtype != np.uint8 or images.ndim not in (3, 4):
            raise ValueError(
                f"{file} has {images.dtype} of shape {images.shape} in {name}: uint8 (N, H, W) or"
                " (N, H, W, C) is accepted."
            )
        for number, image in enumerate(images):
            image = image[None] if image.ndim == 2 else image.transpose(2, 0, 1)
            yield f"{os.path.basename(file)}:{name}:{number}", image
