"""Long documents by character: which area is a paper from?"""

import os
import re
from pathlib import Path
from typing import Literal

import numpy as np
from datasets import Dataset, DatasetDict
from transformers.utils import logging

from ..batches import Padding
from ..codes import TextCode, Tokenization, check_max_length
from ..rows import TaskRows
from ..sources import (
    PARTS,
    ColumnTexts,
    TextSource,
    complete_parts,
    draw_parts,
    find_column,
    find_path,
    name_labels,
    number_labels,
    read_tables,
)
from ..task import Task, TaskKind
from .text import TextRows

logger = logging.get_logger(__name__)

_WHERE = (
    "Long documents are cs.AI.csv, cs.NE.csv, math.AC.csv and math.GR.csv of"
    " https://storage.googleapis.com/chordmixerdata/longdoc.zip, or tables with the columns text"
    " and label (and split)."
)
_FILES = ("cs.AI.csv", "cs.NE.csv", "math.AC.csv", "math.GR.csv")
# the area in brackets, which would give the answer away
_TAGS = re.compile(r"\[\w+.\w+\]")
_SPLITS = {"paper": (0.7, 0.1, 0.2), "release": (0.8, 0.0, 0.2)}


class Untagged(TextSource):
    """Texts without the tags of their areas."""

    def __init__(self, texts: TextSource):
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, number: int) -> str:
        return _TAGS.sub("", self.texts[number])


def load(
    path: str | os.PathLike,
    *,
    tokenization: Tokenization = "chars",
    max_length: int | None = 131_000,
    too_long: Literal["drop", "cut"] = "drop",
    remove_tags: bool = True,
    min_count: int = 1,
    split: Literal["paper", "release", "file_order"] = "paper",
    validation_fraction: float = 0.1,
    data_seed: int = 0,
    padding: Padding = "none",
    reference_unknown: bool = False,
    reference_cut: bool = False,
    reference_validation: bool = False,
) -> Task:
    """Long documents from files.

    Args:
        path: A folder with the four published files, or tables in parts, or one table.
        tokenization, min_count: See `TextCode`; the characters are those of the training part.
        max_length: Longest document; None for no limit.
        too_long: `drop` leaves longer documents out and counts them, `cut` cuts them.
        remove_tags: Delete tags of areas such as [cs.AI] from the texts.
        split: How documents without parts are split: `paper` draws 70/10/20 (train, validation,
            test) and `release` 80/20, both with classes in proportion and identical texts in one
            part; `file_order` takes 70/10/20 of each class in the order of the files.
        validation_fraction, data_seed, padding, reference_validation: As for IMDb.
        reference_unknown: Unknown characters get the id of padding, as in the published loader.
        reference_cut: Cut training documents at their beginning and others at their end, as one
            published loader does; needs too_long="cut".
    """
    check_max_length(max_length)
    if too_long not in ("drop", "cut"):
        raise ValueError(f"too_long={too_long!r} was given: drop and cut are accepted.")
    if reference_cut and too_long != "cut":
        raise ValueError("reference_cut was given with too_long='drop': it is for 'cut'.")
    folder = find_path(path, _WHERE)
    tables = _read(folder)
    label = find_column(tables["train"], ("label", "labels", "class"), folder)
    names = name_labels(tables["train"], label)
    text = find_column(tables["train"], ("text", "content"), folder)
    if list(tables) == ["train"]:
        tables = _split(tables["train"], label, text, split, data_seed)
    tables, notes = complete_parts(
        tables,
        label,
        reference_validation=reference_validation,
        fraction=validation_fraction,
        seed=data_seed,
        text_column=text,
    )
    sources: dict[str, TextSource] = {part: ColumnTexts(tables[part], text) for part in PARTS}
    if remove_tags:
        sources = {part: Untagged(texts) for part, texts in sources.items()}
    code = TextCode(
        tokenization, sources["train"], min_count=min_count, unknown_is_padding=reference_unknown
    )
    cut = max_length if too_long == "cut" else None
    parts = {}
    for part in PARTS:
        labels = number_labels(tables[part], label, names)
        rows: TaskRows = TextRows(
            sources[part], labels, code, cut, reference_cut and part == "train"
        )
        if too_long == "drop" and max_length is not None:
            rows = _drop_long(rows, max_length, part, notes)
        parts[part] = rows
    return Task(
        "longdoc",
        parts,
        max_length=cut or max(int(part.lengths.max()) for part in parts.values()),
        class_names=names,
        padding=padding,
        notes=notes,
        **code.code.task_fields(),
    )


def _read(folder: Path) -> DatasetDict:
    if not all((folder / name).is_file() for name in _FILES):
        return read_tables(folder, _WHERE)
    from datasets import concatenate_datasets

    tables = [Dataset.from_csv(str(folder / name)) for name in _FILES]
    for name, table in zip(_FILES, tables, strict=True):
        for column in ("content", "label"):
            find_column(table, (column,), folder / name)
    tables = [table.select_columns(["content", "label"]) for table in tables]
    return DatasetDict(train=concatenate_datasets(tables))


def _split(rows: Dataset, label: str, text: str, split: str, seed: int) -> DatasetDict:
    if split in _SPLITS:
        texts = ColumnTexts(rows, text)
        return DatasetDict(draw_parts(rows, label, _SPLITS[split], seed, texts))
    if split != "file_order":
        raise ValueError(
            f"split={split!r} was given: {', '.join(_SPLITS)} and file_order are accepted."
        )
    train, _, test = _SPLITS["paper"]
    chosen: dict[str, list[np.ndarray]] = {part: [] for part in PARTS}
    labels = np.asarray(rows.with_format(None)[label][:])
    for name in np.unique(labels):
        members = np.flatnonzero(labels == name)
        # test follows train, and validation is last
        ends = [int(train * len(members)), int((train + test) * len(members))]
        for part, piece in zip(
            ("train", "test", "validation"), np.split(members, ends), strict=True
        ):
            chosen[part].append(piece)
    return DatasetDict({part: rows.select(np.concatenate(found)) for part, found in chosen.items()})


def _drop_long(rows: TaskRows, max_length: int, part: str, notes: list[str]) -> TaskRows:
    kept = np.flatnonzero(rows.lengths <= max_length)
    if len(kept) == 0:
        raise ValueError(f"No document of {part} has at most {max_length} tokens.")
    if len(kept) < len(rows):
        notes.append(
            f"{len(rows) - len(kept)} of {len(rows)} documents of {part} are longer than"
            f" {max_length} tokens and left out."
        )
        logger.warning(notes[-1])
    return rows.select(kept)


TASK = TaskKind("longdoc", "area of long documents by characters, 4 classes", _WHERE, load=load)
