"""Labelled images: folders, `.npz`, parquet, IDX files; as pictures or as sequences of pixels."""

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from datasets import Array3D, ClassLabel, Dataset, DatasetDict, Features, Value
from torch.utils.data import Dataset as TorchDataset
from tqdm.auto import tqdm
from transformers.utils import is_vision_available

from ..splits import PART_NAMES
from .arrays import name_classes, read_npz, sort_names
from .idx_files import find_idx_parts, read_idx

if TYPE_CHECKING:
    from transformers.image_processing_utils import BaseImageProcessor

ReadAs = Literal["picture", "values", "ids"]
READINGS = ("picture", "values", "ids")

PICTURE_ENDINGS = (
    ".png",
    ".jpg",
    ".jpeg",
    ".bmp",
    ".gif",
    ".webp",
    ".ppm",
    ".pgm",
    ".tif",
    ".tiff",
)

# a tag of TIFF files
_BITS_PER_SAMPLE = 258

Examples = tuple[Sequence[np.ndarray], Sequence[str], Sequence[str]]


def load_images(
    source: str | os.PathLike, image_size: int | None = None, channels: int | None = None
) -> DatasetDict:
    """Images with classes, in the parts that the source has; all are in `train` if it has none.

    Columns are `image` `(C, H, W)` uint8, `label` and `id`. All images of a source must have one
    size and one number of channels, unless they are to be changed. Grey of 12 or 16 bits becomes 8.

    Args:
        source: A folder with one folder of pictures per class (in folders `train`, `test` and
            `validation` if there are parts); an `.npz` file with `x_train` `(N, H, W)` or
            `(N, H, W, C)` in uint8, `y_train` and so on, and maybe `class_names`; a folder with
            the IDX files of MNIST; or a folder with parquet files `train*`, `test*` as on the Hub,
            with columns `image` (or `img`) and `label`, or one such file.
        image_size: Height and width to which pictures of folders and parquet files are scaled.
        channels: 1 for grey, 3 for colours: to which such pictures are changed.
    """
    if channels not in (None, 1, 3):
        raise ValueError(f"channels={channels} was given: 1 and 3 are accepted.")
    path = Path(source)
    if not path.exists():
        raise ValueError(f"{path} does not exist.")
    change = _Change(image_size, channels)
    idx = find_idx_parts(path) if path.is_dir() else {}
    if change.is_asked and (idx or path.suffix == ".npz"):
        raise ValueError("image_size and channels are for pictures in folders and parquet files.")
    names = None
    if path.suffix == ".npz":
        parts, names = _read_arrays(str(path))
    elif path.suffix == ".parquet":
        parts, names = _read_parquet({"train": [path]}, change)
    elif not path.is_dir():
        raise ValueError(f"{path} is neither a folder nor an .npz or .parquet file.")
    elif idx:
        parts = {part: _name_rows(part, read_idx(x), read_idx(y)) for part, (x, y) in idx.items()}
    elif files := _parts_by_file(path.rglob("*.parquet")):
        parts, names = _read_parquet(files, change)
    else:
        parts = _read_folders(path, change)
    return make_image_parts(parts, names)


def make_image_parts(
    parts: Mapping[str, Examples], class_names: Sequence[str] | None = None
) -> DatasetDict:
    """Images `(C, H, W)`, labels and ids by part, as the data sets that `load_images` gives.

    >>> image = np.zeros((1, 2, 2), dtype=np.uint8)
    >>> make_image_parts({"train": ([image], ["cat"], ["a.png"])})["train"].features["label"].names
    ['cat']
    """
    if class_names is None:
        class_names = sort_names(label for _, labels, _ in parts.values() for label in labels)
    for part, (images, _, _) in parts.items():
        if len(images) == 0:
            raise ValueError(f"The part {part} holds no images.")
    shape = next(iter(parts.values()))[0][0].shape
    features = Features(
        image=Array3D(shape, "uint8"), label=ClassLabel(names=list(class_names)), id=Value("string")
    )
    made = {}
    for part, (images, labels, ids) in parts.items():
        for name, image in zip(ids, images, strict=True):
            if image.shape != shape:
                raise ValueError(
                    f"{name} has the shape {image.shape} (channels, height, width) and others have"
                    f" {shape}: one size is accepted, or image_size and channels to change them."
                )
        rows = {"image": list(images), "label": list(labels), "id": list(ids)}
        made[part] = Dataset.from_dict(rows, features=features)
    return DatasetDict(made)


@dataclass
class PixelScaler:
    """Brings every colour to mean 0 and deviation 1 of the training part; says how to read images.

    Args:
        read_as: `picture` gives `pixel_values` `(C, H, W)`; `values` gives the pixels row by row as
            a sequence `input_values` `(H W, C)`; `ids` gives those of grey images as `input_ids`
            `(H W,)`, the 256 shades being the vocabulary.
    """

    read_as: ReadAs
    mean: list[float]
    std: list[float]

    @classmethod
    def fit(cls, train: Dataset, read_as: ReadAs = "picture") -> "PixelScaler":
        if read_as not in READINGS:
            raise ValueError(f"read_as={read_as!r} was given: {', '.join(READINGS)} are accepted.")
        pixels = read_pixels(train)
        if read_as == "ids" and pixels.shape[1] != 1:
            raise ValueError(
                f"read_as='ids' is for grey images, got {pixels.shape[1]} channels: channels=1"
                " makes them grey where they are read."
            )
        mean, std = pixels.mean((0, 2, 3)), pixels.std((0, 2, 3))
        return cls(read_as, mean.tolist(), np.where(std > 0, std, 1.0).tolist())

    def apply(self, part: Dataset) -> "PixelRows":
        """Model inputs with `labels`, made when asked for."""
        pixels = read_pixels(part)
        self._check_channels(pixels[0])
        return PixelRows(pixels, np.asarray(part.with_format(None)["label"][:]), self)

    def scale(self, image: np.ndarray) -> np.ndarray:
        """One image `(C, H, W)`, as `read_as` says."""
        self._check_channels(image)
        if self.read_as == "ids":
            return image.reshape(-1)
        mean, std = (np.asarray(v, np.float32)[:, None, None] for v in (self.mean, self.std))
        scaled = (image.astype(np.float32) - mean) / std
        return scaled if self.read_as == "picture" else scaled.reshape(len(scaled), -1).T

    def _check_channels(self, image: np.ndarray) -> None:
        if image.ndim != 3 or len(image) != len(self.mean):
            raise ValueError(
                f"An image has the shape {image.shape}: the scaler is for ({len(self.mean)}, H, W)."
            )

    def image_processor(self, image_size: int) -> "BaseImageProcessor | None":
        """What prepares pictures in the pipeline of transformers as `scale` does; None for pixels.

        Args:
            image_size: Pixels on a side of the images that the model reads.
        """
        if self.read_as != "picture" or not is_vision_available():
            return None
        from transformers import ViTImageProcessor

        from ...models.image_processing_grey import GreyImageProcessor

        kind = ViTImageProcessor if len(self.mean) == 3 else GreyImageProcessor
        return kind(
            size={"height": image_size, "width": image_size},
            image_mean=[mean / 255 for mean in self.mean],
            image_std=[std / 255 for std in self.std],
        )

    def to_dict(self) -> dict:
        """For JSON; `PixelScaler(**...)` takes it back."""
        return asdict(self)


class PixelRows(TorchDataset):
    """Images in memory, one byte per pixel and colour, scaled when asked for."""

    _NAMES = {"picture": "pixel_values", "values": "input_values", "ids": "input_ids"}

    def __init__(self, pixels: np.ndarray, labels: np.ndarray, scaler: PixelScaler):
        self.pixels, self.labels, self.scaler = pixels, labels, scaler
        # steps of a sequence of pixels, for batches by tokens
        self.lengths = np.full(len(pixels), pixels.shape[2] * pixels.shape[3])

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        values = self.scaler.scale(self.pixels[index])
        return {self._NAMES[self.scaler.read_as]: values, "labels": int(self.labels[index])}


def read_pixels(part: Dataset) -> np.ndarray:
    """All images of a part `(N, C, H, W)`."""
    return np.stack(list(part.with_format("numpy")["image"][:])).astype(np.uint8)


class _Change:
    """Pictures as arrays of the size and colours that were asked for."""

    def __init__(self, image_size: int | None, channels: int | None):
        self.image_size, self.channels = image_size, channels
        self.is_asked = image_size is not None or channels is not None

    def read(self, file: str | os.PathLike | io.BytesIO, name: str) -> np.ndarray:
        try:
            from PIL import Image
        except ImportError as error:
            raise ImportError("Pictures need pillow: pip install hf-mixers[images].") from error
        try:
            with Image.open(file) as opened:
                picture: Image.Image = opened
                if picture.mode == "F" or picture.mode.startswith("I"):
                    picture = Image.fromarray(_flatten_grey(picture, name))
                # palettes and transparency become one of the two that are left
                is_grey = picture.mode in ("1", "L", "LA")
                mode = {1: "L", 3: "RGB", None: "L" if is_grey else "RGB"}[self.channels]
                picture = picture.convert(mode)
                if self.image_size is not None:
                    size = (self.image_size, self.image_size)
                    picture = picture.resize(size, Image.Resampling.BILINEAR)
                pixels = np.asarray(picture, dtype=np.uint8)
        except OSError as error:
            raise ValueError(f"{name} is no picture that can be read: {error}") from error
        return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def read_picture(file: str, image_size: int | None, channels: int | None) -> np.ndarray:
    """One picture `(C, H, W)` in uint8, scaled and changed as `load_images` does."""
    return _Change(image_size, channels).read(file, file)


def _flatten_grey(picture, name: str) -> np.ndarray:
    """Deep grey in 8 bits: a conversion by pillow would clip it at 255."""
    values = np.asarray(picture)
    # mode I has no depth: pgm files are brought to 16 bits there, of others only values can tell
    is_deep = picture.mode.startswith("I;16") or picture.format == "PPM" or values.max() > 255
    if picture.mode == "F" or not is_deep or values.min() < 0 or values.max() > 65535:
        raise ValueError(
            f"{name} has grey from {values.min()} to {values.max()} in mode {picture.mode}: grey"
            " of 8, 12 or 16 bits is accepted."
        )
    # pillow leaves the 12 bits of a TIFF file as they are, in mode I;16
    tags = getattr(picture, "tag_v2", {})
    depth = 12 if tags.get(_BITS_PER_SAMPLE) == (12,) else 16
    return (values >> depth - 8).astype(np.uint8)


def _read_folders(folder: Path, change: _Change) -> dict[str, Examples]:
    below = [entry for entry in sorted(folder.iterdir()) if entry.is_dir()]
    roots = {PART_NAMES[e.name.lower()]: e for e in below if e.name.lower() in PART_NAMES}
    if roots and len(roots) != len(below):
        odd = next(entry for entry in below if entry not in roots.values())
        raise ValueError(f"{folder} has parts beside {odd.name}: parts or classes are accepted.")
    parts: dict[str, Examples] = {}
    for part, root in (roots or {"train": folder}).items():
        files = sorted(f for f in root.rglob("*") if f.suffix.lower() in PICTURE_ENDINGS)
        if not files:
            accepted = ", ".join(PICTURE_ENDINGS)
            raise ValueError(f"{root} holds no pictures in folders: {accepted}.")
        strays = [file for file in files if file.parent == root]
        if strays:
            raise ValueError(f"{strays[0]} is in no folder that names its class.")
        images = [change.read(file, str(file)) for file in tqdm(files, f"Reading {part}")]
        labels = [file.relative_to(root).parts[0] for file in files]
        parts[part] = (images, labels, [str(file.relative_to(folder)) for file in files])
    return parts


def _read_arrays(path: str) -> tuple[dict[str, Examples], list[str] | None]:
    arrays = read_npz(path)
    names = arrays.get("class_names")
    parts = {}
    for part in ("train", "validation", "test"):
        if f"x_{part}" in arrays:
            if f"y_{part}" not in arrays:
                raise ValueError(f"{path} has x_{part} without y_{part}.")
            labels = name_classes(path, arrays[f"y_{part}"], names)
            parts[part] = _name_rows(part, arrays[f"x_{part}"], np.array(labels), path)
    if "train" not in parts:
        raise ValueError(f"{path} has no x_train and y_train: it has {', '.join(arrays)}.")
    return parts, None if names is None else [str(name) for name in names]


def _name_rows(part: str, x: np.ndarray, y: np.ndarray, path: str = "The IDX file") -> Examples:
    """The images of an array as they are kept, with names."""
    if x.dtype != np.uint8 or x.ndim not in (3, 4) or (x.ndim == 4 and x.shape[3] not in (1, 3)):
        raise ValueError(
            f"{path} has {x.dtype} of shape {x.shape} as images of {part}: uint8 of shape (N, H, W)"
            " or (N, H, W, C) with 1 or 3 channels is accepted."
        )
    if len(x) != len(y):
        raise ValueError(f"{path} has {len(x)} images and {len(y)} labels in {part}.")
    images = x[:, None] if x.ndim == 3 else x.transpose(0, 3, 1, 2)
    return list(images), [str(label) for label in y], [f"{part}_{i}" for i in range(len(x))]


def _parts_by_file(files) -> dict[str, list[Path]]:
    """Parquet files by the part that their names begin with."""
    found: dict[str, list[Path]] = {}
    for file in sorted(files):
        word = file.stem.lower().split("-")[0]
        if word not in PART_NAMES:
            raise ValueError(f"{file} has a name that begins with no part, such as train or test.")
        found.setdefault(PART_NAMES[word], []).append(file)
    return found


def _read_parquet(
    files: Mapping[str, list[Path]], change: _Change
) -> tuple[dict[str, Examples], list[str] | None]:
    parts: dict[str, Examples] = {}
    names = None
    for part, paths in files.items():
        try:
            rows = Dataset.from_parquet([str(path) for path in paths])
        except Exception as error:
            # datasets wraps whatever pyarrow says, in several ways
            text = " ".join(str(error).split())
            raise ValueError(f"{paths[0]} is no parquet file that can be read: {text}") from error
        if "image" not in rows.column_names and "img" in rows.column_names:
            rows = rows.rename_column("img", "image")
        for column in ("image", "label"):
            if column not in rows.column_names:
                raise ValueError(
                    f"{paths[0]} has no column {column!r}: it has {', '.join(rows.column_names)}."
                )
        feature = rows.features["label"]
        if isinstance(feature, ClassLabel):
            names = feature.names
        labels = [feature.int2str(v) if names else str(v) for v in rows["label"][:]]
        images = []
        # the bytes as they are stored: decoding is ours
        stored = rows.data.column("image").to_pylist()
        for number, cell in enumerate(tqdm(stored, f"Reading {part}")):
            data = cell.get("bytes") if isinstance(cell, dict) else cell
            if not isinstance(data, bytes):
                raise ValueError(f"{paths[0]}: row {number} of {part} holds no bytes of a picture.")
            images.append(change.read(io.BytesIO(data), f"{paths[0]}: row {number} of {part}"))
        parts[part] = (images, labels, [f"{part}_{i}" for i in range(len(images))])
    return parts, names
