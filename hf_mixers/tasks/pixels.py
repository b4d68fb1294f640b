"""Grey images as sequences of pixels, in memory or in files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .batches import Padding
from .pathfinder_images import PixelMode, as_sequence, check_pixel_mode
from .rows import TaskRows
from .task import Task

NUM_SHADES = 256
# weights of red, green and blue, cut to whole numbers as the arena does
_LUMINANCE = np.array([0.2989, 0.5870, 0.1140])
MASK_RATIO = 0.5

Labelled = tuple[np.ndarray, np.ndarray]


def to_grey(images: np.ndarray) -> np.ndarray:
    """Luminance `(N, H, W)` of images `(N, 3, H, W)`, or grey images `(N, 1, H, W)` as they are."""
    if images.shape[1] == 1:
        return images[:, 0]
    weighed = np.tensordot(images.astype(np.float64), _LUMINANCE, axes=([1], [0]))
    return np.floor(weighed + 1e-9).astype(np.uint8)


def has_images(folder: Path) -> bool:
    """Whether a folder holds anything that `load_images` reads."""
    from ..data.other.images import PICTURE_ENDINGS

    if any(folder.glob("*-ubyte*")):
        return True
    return any(f.suffix.lower() in (*PICTURE_ENDINGS, ".parquet") for f in folder.rglob("*"))


def read_images(path: Path, where: str) -> tuple[dict[str, Labelled], list[str]]:
    """Grey images `(N, H, W)` with classes by part, from what `load_images` reads, and the classes'
    names."""
    from ..data.other import load_images

    try:
        found = load_images(path)
    except ValueError as error:
        raise ValueError(f"{error} {where}") from error
    if "train" not in found:
        raise ValueError(f"{path} has no part train: it has {', '.join(found)}; {where}")
    names = found["train"].features["label"].names
    parts = {}
    for part, rows in found.items():
        images = np.stack(list(rows.with_format("numpy")["image"][:])).astype(np.uint8)
        if (images == images[:, :1]).all():
            # grey that is stored as colours
            images = images[:, :1]
        parts[part] = to_grey(images), np.asarray(rows["label"][:])
    return parts, names


class PixelArrays(TaskRows):
    """Grey images `(N, H, W)` in memory.

    Args:
        mean, std: Of the shades; values are brought to 0 and 1 with them. By default values go from
            -1 to 1.
    """

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        pixels: PixelMode,
        mean: float = 127.5,
        std: float = 127.5,
    ):
        super().__init__(len(images))
        self.images, self.all_labels, self.pixels = images, labels, pixels
        self.mean, self.std = mean, std

    def read(self, row: int) -> dict:
        content = as_sequence(self.images[row], self.pixels, self.mean, self.std)
        return {**content, "labels": int(self.all_labels[row])}

    def find_labels(self, rows: np.ndarray) -> np.ndarray:
        return self.all_labels[rows]

    def find_lengths(self, rows: np.ndarray) -> np.ndarray:
        return np.full(len(rows), self.images[0].size)


class PixelFiles(TaskRows):
    """Grey images in files, read when asked for."""

    def __init__(
        self, files: Sequence[Path | str], labels: np.ndarray, pixels: PixelMode, resolution: int
    ):
        super().__init__(len(files))
        self.files, self.all_labels, self.pixels = list(map(str, files)), labels, pixels
        self.resolution = resolution

    def read(self, row: int) -> dict:
        from PIL import Image

        try:
            with Image.open(self.files[row]) as picture:
                image = np.asarray(picture.convert("L"), dtype=np.uint8)
        except OSError as error:
            raise ValueError(f"{self.files[row]} cannot be read as an image: {error}") from error
        if image.shape != (self.resolution, self.resolution):
            raise ValueError(
                f"{self.files[row]} has {image.shape[0]} x {image.shape[1]} pixels:"
                f" {self.resolution} x {self.resolution} are accepted."
            )
        return {**as_sequence(image, self.pixels), "labels": int(self.all_labels[row])}

    def find_labels(self, rows: np.ndarray) -> np.ndarray:
        return self.all_labels[rows]

    def find_lengths(self, rows: np.ndarray) -> np.ndarray:
        return np.full(len(rows), self.resolution**2)


def pixel_task(
    name: str,
    parts: Mapping[str, TaskRows],
    shape: tuple[int, int],
    class_names: Sequence[str],
    *,
    pixels: PixelMode,
    padding: Padding,
    reference_zero_mask: bool,
    notes: Sequence[str] = (),
) -> Task:
    """The task of images as pixel ids, with ids for padding and mask after the shades, or values.

    With `reference_zero_mask`, id 0 (black) is padding and masked, as in the published code.
    """
    check_pixel_mode(pixels)
    fields: dict[str, Any] = {"inputs": "values", "input_features": 1}
    if pixels == "ids":
        fields = {
            "inputs": "ids",
            "vocab_size": NUM_SHADES + 2,
            "pad_token_id": 0 if reference_zero_mask else NUM_SHADES,
            "mask_token_id": NUM_SHADES + 1,
            "maskable_ids": tuple(range(NUM_SHADES)),
        }
    elif reference_zero_mask:
        raise ValueError("reference_zero_mask was given with pixels='values': it is for ids.")
    return Task(
        name,
        parts,
        max_length=shape[0] * shape[1],
        class_names=tuple(class_names),
        mask_ratio=MASK_RATIO,
        padding=padding,
        zero_is_padding=reference_zero_mask,
        pixel_shape=shape,
        notes=list(notes),
        **fields,
    )
