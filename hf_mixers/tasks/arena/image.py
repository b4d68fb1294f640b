"""Image: CIFAR-10 in grey as 1024 pixels; also any other labelled images of one size."""

import math
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from ...data.splits import draw_stratified
from ..batches import Padding
from ..pathfinder_images import PixelMode
from ..pixels import Labelled, PixelArrays, pixel_task, read_images, to_grey
from ..sources import find_path
from ..task import Task, TaskKind

_WHERE = (
    "CIFAR-10 is the folder cifar-10-batches-py of"
    " https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz; folders train and test with one"
    " folder of images per class, IDX, .npz and parquet files are read too."
)
_TRAIN_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
# of grey CIFAR-10, as published loaders have them
_MEAN, _STD = 122.6, 61.0
# all that arrays of numpy need
_UNPICKLED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


def load(
    path: str | os.PathLike,
    *,
    pixels: PixelMode = "ids",
    padding: Padding = "none",
    validation_fraction: float = 0.1,
    data_seed: int = 0,
    reference_zero_mask: bool = False,
    reference_validation: bool = False,
) -> Task:
    """Grey images as sequences of pixels.

    The last tenth of the training part, in the order of the files, is the validation part. Where
    the files go class by class, as in folders of pictures, a tenth of every class is drawn.

    Args:
        path: The folder `cifar-10-batches-py` (or one that has it), or images that
            `hf_mixers.data.other.load_images` reads.
        pixels: `ids` gives 256 shades; `values` gives them with mean 0 and deviation 1, by the
            published mean and deviation of CIFAR-10, or those of the training part for others.
        padding: See `TaskCollator`.
        validation_fraction: Share of the training part that is left for validation where there is
            no such part; 0 requires `reference_validation`.
        data_seed: Of that draw.
        reference_zero_mask: Mask black pixels, as the published code does.
        reference_validation: Take the test part as validation part, as some published code does;
            `validation_fraction` of the training part is left out then, too.
    """
    if not 0 <= validation_fraction < 1 or (not validation_fraction and not reference_validation):
        raise ValueError(
            f"validation_fraction={validation_fraction} was given: more than 0 and less than 1 is"
            " accepted, and 0 with reference_validation."
        )
    folder = find_path(path, _WHERE)
    if (folder / "cifar-10-batches-py").is_dir():
        folder = folder / "cifar-10-batches-py"
    if (folder / _TRAIN_BATCHES[0]).is_file():
        parts, names = _read_cifar(folder)
        mean, std = _MEAN, _STD
    else:
        parts, names = read_images(folder, _WHERE)
        mean, std = float(parts["train"][0].mean()), float(parts["train"][0].std())
    if "test" not in parts:
        raise ValueError(f"{folder} has no test part; {_WHERE}")
    notes = []
    if "validation" not in parts:
        images, labels = parts["train"]
        held = _hold_out(labels, validation_fraction, data_seed)
        parts["train"], parts["validation"] = (
            (images[chosen], labels[chosen]) for chosen in (~held, held)
        )
    if reference_validation:
        parts["validation"] = parts["test"]
        notes.append("The validation part is the test part, as in some published code.")
    rows = {
        part: PixelArrays(*parts[part], pixels, mean, std or 1.0)
        for part in ("train", "validation", "test")
    }
    return pixel_task(
        "image",
        rows,
        parts["train"][0].shape[1:],
        names,
        pixels=pixels,
        padding=padding,
        reference_zero_mask=reference_zero_mask,
        notes=notes,
    )


def _hold_out(labels: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """Which rows are the validation part: the last, or some of every class."""
    if fraction and (np.diff(labels) >= 0).all():
        return draw_stratified(Dataset.from_dict({"label": labels}), fraction, seed)
    # 45,000 of 50,000, whatever the rounding of 0.9
    return np.arange(len(labels)) >= len(labels) - math.ceil(fraction * len(labels) - 1e-9)


class _ArrayUnpickler(pickle.Unpickler):
    """Reads pickled arrays and containers, and nothing that runs code."""

    def find_class(self, module: str, name: str):
        if (module, name) not in _UNPICKLED:
            raise ValueError(f"A batch of CIFAR-10 holds {module}.{name}: arrays are accepted.")
        return super().find_class(module, name)


def _read_cifar(folder: Path) -> tuple[dict[str, Labelled], list[str]]:
    batches = [_read_batch(folder / name) for name in _TRAIN_BATCHES]
    images, labels = zip(*batches, strict=True)
    train = np.concatenate(images), np.concatenate(labels)
    names = [str(number) for number in range(10)]
    if (folder / "batches.meta").is_file():
        stored = _get(folder / "batches.meta", "label_names")
        names = [name.decode() if isinstance(name, bytes) else str(name) for name in stored]
    return {"train": train, "test": _read_batch(folder / "test_batch")}, names


def _read_batch(file: Path) -> Labelled:
    data, labels = np.asarray(_get(file, "data")), np.asarray(_get(file, "labels"))
    if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3 * 32 * 32:
        raise ValueError(
            f"{file} has data of shape {data.shape} and type {data.dtype}: (N, 3072) and uint8 are"
            " accepted."
        )
    if labels.shape != data.shape[:1] or not np.isin(labels, np.arange(10)).all():
        raise ValueError(f"{file} has labels other than one of 0 to 9 for each image.")
    return to_grey(data.reshape(-1, 3, 32, 32)), labels


def _get(file: Path, name: str) -> Any:
    """One entry of a pickled dictionary, whose keys Python 2 wrote as bytes."""
    stored = _unpickle(file)
    for key in (name.encode(), name):
        if isinstance(stored, dict) and key in stored:
            return stored[key]
    raise ValueError(f"{file} has no {name}: it is not a batch of CIFAR-10.")


def _unpickle(file: Path) -> Any:
    if not file.is_file():
        raise ValueError(f"{file} does not exist; {_WHERE}")
    try:
        with open(file, "rb") as handle:
            return _ArrayUnpickler(handle, encoding="bytes").load()
    except (pickle.UnpicklingError, EOFError) as error:
        raise ValueError(f"{file} cannot be read as a batch of CIFAR-10: {error}") from error


TASK = TaskKind("image", "CIFAR-10 as 1024 grey pixels, 10 classes", _WHERE, load=load)
