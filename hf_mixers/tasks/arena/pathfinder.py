"""Pathfinder and Path-X: the official folders of images, or images drawn from a seed."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from tqdm.auto import tqdm
from transformers.utils import logging

from ...data.splits import PARTS
from ..batches import Padding
from ..pathfinder_images import CLASS_NAMES, PixelMode, check_pixel_mode, pathfinder
from ..pathfinder_settings import DIFFICULTIES, Difficulty
from ..pixels import PixelArrays, PixelFiles, has_images, pixel_task, read_images
from ..rows import TaskRows
from ..sources import find_folder, find_path
from ..stored import load_stored, read_description, split_rows
from ..task import Task, TaskKind

logger = logging.get_logger(__name__)

Split = Literal["s4", "file_order", "paramixer"]

_WHERE = (
    "Pathfinder is the folder pathfinder{resolution} (curv_baseline, curv_contour_length_9,"
    " curv_contour_length_14) of https://storage.googleapis.com/long-range-arena/lra_release.gz;"
    " images in a folder per class, .npz and parquet files are read too, and without a path it is"
    " drawn from a seed."
)
_FOLDERS = {
    "easy": "curv_baseline",
    "intermediate": "curv_contour_length_9",
    "hard": "curv_contour_length_14",
}
_RELEASE = tuple(_FOLDERS.values())
# what classes of other copies are called: two contours, then one
_ANSWERS = (CLASS_NAMES, ("0", "1"), ("false", "true"), ("no", "yes"), ("negative", "positive"))
# fields of a line of metadata
_SUBFOLDER, _NAME, _LABEL = 0, 1, 3
_SPLIT_SEED = 42
# files of metadata per difficulty that are test, and validation, in the split of Paramixer
_HELD_OUT = 10


def load(
    path: str | os.PathLike,
    *,
    name: str = "pathfinder",
    resolution: int = 32,
    difficulty: Difficulty | Literal["all"] | None = None,
    split: Split | None = None,
    pixels: PixelMode = "ids",
    padding: Padding = "none",
    reference_zero_mask: bool = False,
) -> Task:
    """Pathfinder images from files; empty files are left out and counted.

    Args:
        path: The folder `pathfinder32` (or 64, 128, 256), one that has it, one difficulty of it,
            a folder of `write_task`, or images of two classes that
            `hf_mixers.data.other.load_images` reads.
        resolution: Height and width of the images.
        difficulty: Of the official folders: `easy`, `intermediate`, `all`, or `hard`, the default
            as in most published loaders.
        split: `s4`, the default, draws 80/10/10 by the seed 42 as published loaders do;
            `file_order` takes 80/10/10 in the order of the files; `paramixer` takes the first ten
            files of metadata of each difficulty as test part and the next ten as validation part.
            Other images keep the parts that they have.
        pixels, padding, reference_zero_mask: See `pixel_task`.
    """
    check_pixel_mode(pixels)
    where = _WHERE.format(resolution=resolution)
    folder = find_path(path, where)
    describe = partial(
        pixel_task,
        shape=(resolution, resolution),
        class_names=CLASS_NAMES,
        pixels=pixels,
        padding=padding,
        reference_zero_mask=reference_zero_mask,
    )
    stored = load_stored(folder, name)
    if stored is not None:
        made = (read_description(folder) or {})["options"].get("difficulty", "hard")
        if split is not None or difficulty not in (None, made):
            raise ValueError(
                f"{folder} holds images of the difficulty {made!r} in parts: difficulty="
                f"{difficulty!r} and split={split!r} were given."
            )
        return describe(name, _check_stored(stored, pixels, resolution))
    if split not in (None, "s4", "file_order", "paramixer"):
        raise ValueError(f"split={split!r} was given: s4, file_order and paramixer are accepted.")
    _check_difficulty(difficulty)
    is_release = _is_release(folder, resolution)
    if not is_release and difficulty is not None:
        raise ValueError(
            f"difficulty={difficulty!r} is for folders of the official release: {folder} is none."
        )
    split, difficulty = split or "s4", difficulty or "hard"
    if not is_release:
        rows, notes = _read_copies(folder, pixels, resolution, split, where)
        return describe(name, rows, notes=notes)
    files: list[Path] = []
    labels: list[int] = []
    groups: list[int] = []
    notes = []
    for root in _find_roots(folder, resolution, difficulty, where):
        found = _read_metadata(root, where)
        files += found[0]
        labels += found[1]
        groups += found[2]
        notes += found[3]
    rows = PixelFiles(files, np.array(labels), pixels, resolution)
    chosen = _split(len(files), groups, split)
    parts = {part: rows.select(numbers) for part, numbers in chosen.items()}
    for part, chosen_rows in parts.items():
        if len(chosen_rows) == 0:
            raise ValueError(f"The part {part} is empty: {len(files)} images were found.")
    return describe(name, parts, notes=notes)


def make(
    *,
    name: str = "pathfinder",
    resolution: int = 32,
    difficulty: Difficulty = "hard",
    num_train: int = 160_000,
    num_validation: int = 20_000,
    num_test: int = 20_000,
    data_seed: int = 0,
    pixels: PixelMode = "ids",
    padding: Padding = "none",
    reference_contrast: bool = False,
    reference_distractors: bool = False,
    reference_zero_mask: bool = False,
) -> Task:
    """Pathfinder images drawn from a seed; see `pathfinder` and `load`. The test part is the same
    whatever the number of training examples."""
    rows = pathfinder(
        num_train + num_validation + num_test,
        resolution,
        difficulty,
        seed=data_seed,
        pixels=pixels,
        reference_contrast=reference_contrast,
        reference_distractors=reference_distractors,
    )
    return pixel_task(
        name,
        split_rows(rows, num_train, num_validation, num_test),
        (resolution, resolution),
        CLASS_NAMES,
        pixels=pixels,
        padding=padding,
        reference_zero_mask=reference_zero_mask,
    )


def _check_stored(stored: dict, pixels: PixelMode, resolution: int) -> dict:
    example = stored["train"][0]
    content = {"ids": "input_ids", "values": "input_values"}[pixels]
    if content not in example or len(example[content]) != resolution**2:
        names = {name: len(value) for name, value in example.items() if np.ndim(value)}
        raise ValueError(
            f"The folder holds {names}: pixels={pixels!r} at resolution {resolution} were asked"
            " for."
        )
    return stored


def _is_release(folder: Path, resolution: int) -> bool:
    """Whether a path leads to folders of the official release, or to no images at all."""
    if find_folder(folder, f"pathfinder{resolution}") != folder or folder.name in _RELEASE:
        return True
    if folder.is_file():
        return False
    below = (next(folder.glob(f"{above}{name}"), None) for above in ("", "*/") for name in _RELEASE)
    return any(below) or not has_images(folder)


def _read_copies(
    path: Path, pixels: PixelMode, resolution: int, split: Split, where: str
) -> tuple[dict[str, TaskRows], list[str]]:
    """Parts of images that are not laid out as the release, and notes."""
    if split == "paramixer":
        raise ValueError("split='paramixer' is for folders of the official release.")
    parts, names = read_images(path, where)
    classes = _name_classes(path, names, where)
    parts = {part: (images, classes[labels]) for part, (images, labels) in parts.items()}
    for images, _ in parts.values():
        if images.shape[1:] != (resolution, resolution):
            height, width = images.shape[1:]
            raise ValueError(
                f"{path} has images of {height} x {width} pixels: {resolution} x {resolution} are"
                " accepted."
            )
    notes = []
    if drawn := [part for part in ("validation", "test") if part not in parts]:
        images, labels = parts["train"]
        if split == "file_order" and (np.diff(labels) >= 0).all():
            raise ValueError(f"{path} goes class by class: split='s4' draws parts at random.")
        wanted = _split(len(images), [], split)
        kept = np.ones(len(images), bool)
        for part in drawn:
            kept[wanted[part]] = False
            parts[part] = images[wanted[part]], labels[wanted[part]]
        parts["train"] = images[kept], labels[kept]
        notes.append(f"Split by {split!r} from the part train: {' and '.join(drawn)}.")
    for part, (images, _) in parts.items():
        if len(images) == 0:
            raise ValueError(f"The part {part} is empty; {where}")
    return {part: PixelArrays(*parts[part], pixels) for part in PARTS}, notes


def _name_classes(path: Path, names: Sequence[str], where: str) -> np.ndarray:
    """0 or 1 for each of the classes of a copy."""
    found = [name.lower() for name in names]
    for no, yes in _ANSWERS:
        if set(found) == {no, yes}:
            return np.array([int(name == yes) for name in found])
    accepted = "; ".join(f"{no} and {yes}" for no, yes in _ANSWERS)
    raise ValueError(f"{path} has the classes {', '.join(names)}: accepted are {accepted}; {where}")


def _check_difficulty(difficulty: str | None) -> None:
    if difficulty not in (None, "all", *DIFFICULTIES):
        raise ValueError(
            f"difficulty={difficulty!r} was given: {', '.join(DIFFICULTIES)} and all are accepted."
        )


def _find_roots(folder: Path, resolution: int, difficulty: str, where: str) -> list[Path]:
    wanted = list(_FOLDERS.values()) if difficulty == "all" else [_FOLDERS[difficulty]]
    if [folder.name] == wanted and (folder / "metadata").is_dir():
        return [folder]
    if folder.name in _FOLDERS.values():
        raise ValueError(
            f"{folder} is one difficulty: the folder with {' and '.join(wanted)} is needed for"
            f" difficulty={difficulty!r}."
        )
    folder = find_folder(folder, f"pathfinder{resolution}")
    for name in wanted:
        if not (folder / name / "metadata").is_dir():
            raise ValueError(f"{folder / name / 'metadata'} does not exist; {where}")
    return [folder / name for name in wanted]


def _read_metadata(root: Path, where: str):
    """Files, labels and files of metadata (by number) of one difficulty, and notes."""
    tables = sorted((root / "metadata").glob("*.npy"), key=_by_number)
    if not tables:
        raise ValueError(f"{root / 'metadata'} holds no .npy files; {where}")
    files, labels, groups, empty = [], [], [], 0
    for number, table in enumerate(tqdm(tables, root.name, leave=False)):
        text = table.read_text(encoding="utf-8", errors="replace")
        for place, line in enumerate(text.splitlines(), start=1):
            fields = line.split()
            if len(fields) <= _LABEL or fields[_LABEL] not in ("0", "1"):
                raise ValueError(
                    f"{table}, line {place} is {line[:60]!r}: folder, file, number and a label 0 or"
                    " 1 are accepted."
                )
            file = root / fields[_SUBFOLDER] / fields[_NAME]
            if not file.exists():
                raise ValueError(f"{file}, which {table} names, does not exist.")
            if file.stat().st_size == 0:
                empty += 1
                continue
            files.append(file)
            labels.append(int(fields[_LABEL]))
            groups.append(number)
    notes = []
    if empty:
        notes.append(f"{empty} empty image files of {root.name} are left out.")
        logger.warning(notes[0])
    return files, labels, groups, notes


def _by_number(file: Path) -> tuple:
    return (0, int(file.stem), "") if file.stem.isdigit() else (1, 0, file.stem)


def _split(count: int, groups: list[int], split: Split) -> dict[str, np.ndarray]:
    if split == "paramixer":
        numbers = np.array(groups)
        held = {"test": numbers < _HELD_OUT, "validation": numbers < 2 * _HELD_OUT}
        held["validation"] &= ~held["test"]
        held["train"] = ~(held["test"] | held["validation"])
        return {part: np.flatnonzero(held[part]) for part in ("train", "validation", "test")}
    order = np.arange(count)
    if split == "s4":
        import torch

        order = torch.randperm(count, generator=torch.Generator().manual_seed(_SPLIT_SEED)).numpy()
    # as in the published loaders, the training part has what rounding leaves over
    held = max(1, count // 10)
    train, validation, test = np.split(order, [count - 2 * held, count - held])
    return {"train": train, "validation": validation, "test": test}


TASK = TaskKind(
    "pathfinder",
    "are two discs on one dashed contour? 32 x 32 pixels, 2 classes",
    _WHERE.format(resolution=32),
    load=load,
    make=make,
)
PATHX = TaskKind(
    "pathx",
    "Pathfinder with 128 x 128 pixels",
    _WHERE.format(resolution=128),
    load=partial(load, name="pathx", resolution=128),
    make=partial(make, name="pathx", resolution=128),
)
