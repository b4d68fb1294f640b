"""Retrieval: does one paper of the ACL anthology cite another? Pairs of texts, by bytes."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from ..batches import Padding
from ..codes import TextCode, Tokenization, check_max_length
from ..rows import TaskRows
from ..sources import (
    PARTS,
    ColumnTexts,
    LineFile,
    find_column,
    find_folder,
    find_path,
    read_tables,
)
from ..task import Task, TaskKind

_WHERE = (
    "Retrieval is the folder tsv_data (new_aan_pairs.train.tsv, new_aan_pairs.eval.tsv,"
    " new_aan_pairs.test.tsv) of https://storage.googleapis.com/long-range-arena/lra_release.gz."
)
_FILES = {
    "train": "new_aan_pairs.train.tsv",
    "validation": "new_aan_pairs.eval.tsv",
    "test": "new_aan_pairs.test.tsv",
}
# label, two names, two texts
_COLUMNS = 5
_LABELS = {b"0": 0, b"0.0": 0, b"1": 1, b"1.0": 1}
CLASS_NAMES = ("no citation", "citation")
MASK_RATIO = 0.15


class PairLines(TaskRows):
    """Pairs of texts, one per line of a file."""

    def __init__(self, file: str | os.PathLike, code: TextCode, max_length: int | None):
        self.lines, self.code, self.max_length = LineFile(file), code, max_length
        super().__init__(len(self.lines))
        name = os.path.basename(self.lines.path)
        bar = tqdm(self.lines, name, leave=False, disable=len(self.lines) < 1000)
        found = [self._measure(line, number) for number, line in enumerate(bar, start=1)]
        if not found:
            raise ValueError(f"{file} is empty; {_WHERE}")
        self.all_labels, self.all_lengths = (
            np.array(column) for column in zip(*found, strict=True)
        )

    def _measure(self, line: bytes, number: int) -> tuple[int, int]:
        fields = line.split(b"\t")
        if len(fields) != _COLUMNS or fields[0] not in _LABELS:
            raise ValueError(
                f"{self.lines.path}, line {number} has {len(fields)} columns and begins with"
                f" {fields[0][:20]!r}: a label 0.0 or 1.0, two names and two texts are accepted."
            )
        counts = [self.code.count(text, self.max_length) for text in fields[3:]]
        return _LABELS[fields[0]], sum(counts)

    def texts(self, row: int) -> list[bytes]:
        return self.lines[row].split(b"\t")[3:]

    def read(self, row: int) -> dict:
        return _encode(self, row)

    def find_labels(self, rows: np.ndarray) -> np.ndarray:
        return self.all_labels[rows]

    def find_lengths(self, rows: np.ndarray) -> np.ndarray:
        return self.all_lengths[rows]


class PairColumns(TaskRows):
    """Pairs of texts in two columns of a table."""

    def __init__(
        self,
        columns: Sequence[ColumnTexts],
        labels: np.ndarray,
        code: TextCode,
        max_length: int | None,
    ):
        super().__init__(len(labels))
        self.columns, self.all_labels = columns, labels
        self.code, self.max_length = code, max_length

    def texts(self, row: int) -> list[str]:
        return [column[row] for column in self.columns]

    def read(self, row: int) -> dict:
        return _encode(self, row)

    def find_labels(self, rows: np.ndarray) -> np.ndarray:
        return self.all_labels[rows]

    def find_lengths(self, rows: np.ndarray) -> np.ndarray:
        count, limit = self.code.count, self.max_length
        return np.array([sum(count(text, limit) for text in self.texts(row)) for row in rows])


def _encode(rows: PairLines | PairColumns, row: int) -> dict:
    first, second = (rows.code.encode(text, rows.max_length) for text in rows.texts(row))
    return {"input_ids": first, "input_ids_2": second, "labels": int(rows.all_labels[row])}


def load(
    path: str | os.PathLike,
    *,
    tokenization: Tokenization = "bytes",
    max_length: int | None = 4000,
    min_count: int = 1,
    append_eos: bool = False,
    padding: Padding = "none",
) -> Task:
    """AAN pairs from files.

    Args:
        path: The folder `tsv_data`, or one that has it, or tables `train`, `validation` and `test`
            of the columns `label`, `text1` and `text2`.
        tokenization, min_count, append_eos: See `TextCode`.
        max_length: Cut each text; 4000 in the arena, None for none.
        padding: See `TaskCollator`.
    """
    check_max_length(max_length)
    folder = find_folder(find_path(path, _WHERE), "tsv_data")
    if any((folder / name).is_file() for name in _FILES.values()):
        for name in _FILES.values():
            if not (folder / name).is_file():
                raise ValueError(f"{folder / name} does not exist; {_WHERE}")
        corpus = _read_corpus(folder / _FILES["train"])
        code = TextCode(tokenization, corpus, min_count=min_count, append_eos=append_eos)
        parts: dict[str, TaskRows] = {
            part: PairLines(folder / name, code, max_length) for part, name in _FILES.items()
        }
    else:
        copies = _read_copies(folder)
        corpus = (text for column in copies["train"][0] for text in column)
        code = TextCode(tokenization, corpus, min_count=min_count, append_eos=append_eos)
        parts = {
            part: PairColumns(columns, labels, code, max_length)
            for part, (columns, labels) in copies.items()
        }
    return Task(
        "retrieval",
        parts,
        max_length=max_length or max(_longest_text(part) for part in parts.values()),
        class_names=CLASS_NAMES,
        is_pair=True,
        mask_ratio=MASK_RATIO,
        padding=padding,
        **code.code.task_fields(),
    )


def _read_copies(folder: Path) -> dict[str, tuple[list[ColumnTexts], np.ndarray]]:
    tables, found = read_tables(folder, _WHERE), {}
    for part in PARTS:
        if part not in tables:
            raise ValueError(f"{folder} has no part {part}; {_WHERE}")
        rows = tables[part]
        columns = [
            ColumnTexts(rows, find_column(rows, (f"text{n}", f"text_{n}"), folder)) for n in (1, 2)
        ]
        values = rows.with_format(None)[find_column(rows, ("label", "labels"), folder)][:]
        numbers = {str(value): _LABELS.get(str(value).encode()) for value in set(values)}
        if None in numbers.values():
            raise ValueError(f"{folder} has the labels {', '.join(numbers)}: 0 and 1 are accepted.")
        found[part] = (columns, np.array([numbers[str(value)] for value in values]))
    return found


def _read_corpus(file: Path):
    for line in LineFile(file):
        for text in line.split(b"\t")[3:]:
            yield text.decode("utf-8", "replace")


def _longest_text(rows) -> int:
    return max(rows.code.count(text) for row in range(len(rows)) for text in rows.texts(row))


TASK = TaskKind("retrieval", "citation between two papers by bytes, 2 classes", _WHERE, load=load)
