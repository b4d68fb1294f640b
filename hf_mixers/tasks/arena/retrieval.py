"""Retrieval: does one paper of the ACL anthology cite another? Pairs of texts, by bytes."""

import os
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from ..batches import Padding
from ..codes import TextCode, Tokenization
from ..rows import TaskRows
from ..sources import LineFile, find_folder, find_path
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
        first, second = (self.code.encode(text, self.max_length) for text in self.texts(row))
        return {"input_ids": first, "input_ids_2": second, "labels": int(self.all_labels[row])}

    def find_labels(self, rows: np.ndarray) -> np.ndarray:
        return self.all_labels[rows]

    def find_lengths(self, rows: np.ndarray) -> np.ndarray:
        return self.all_lengths[rows]


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
        path: The folder `tsv_data`, or one that has it.
        tokenization, min_count, append_eos: See `TextCode`.
        max_length: Cut each text; 4000 in the arena, None for none.
        padding: See `TaskCollator`.
    """
    folder = find_path(path, _WHERE)
    folder = find_folder(folder, "tsv_data")
    for name in _FILES.values():
        if not (folder / name).is_file():
            raise ValueError(f"{folder / name} does not exist; {_WHERE}")
    code = TextCode(
        tokenization,
        _read_corpus(folder / _FILES["train"]),
        min_count=min_count,
        append_eos=append_eos,
    )
    parts = {part: PairLines(folder / name, code, max_length) for part, name in _FILES.items()}
    return Task(
        "retrieval",
        parts,
        max_length=max_length or max(_longest_text(part) for part in parts.values()),
        class_names=("no citation", "citation"),
        is_pair=True,
        mask_ratio=MASK_RATIO,
        padding=padding,
        **code.code.task_fields(),
    )


def _read_corpus(file: Path):
    for line in LineFile(file):
        for text in line.split(b"\t")[3:]:
            yield text.decode("utf-8", "replace")


def _longest_text(rows: PairLines) -> int:
    return max(rows.code.count(text) for row in range(len(rows)) for text in rows.texts(row))


TASK = TaskKind("retrieval", "citation between two papers by bytes, 2 classes", _WHERE, load=load)
