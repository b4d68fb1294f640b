"""ListOps: the official TSV files, tables with the same columns, or trees made from a seed."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from ..batches import Padding
from ..codes import ListOpsVocabulary, SymbolCode, check_max_length, count_symbols
from ..listops_trees import NUM_CLASSES, SYMBOLS, ListOps, ListOpsSettings, read_source
from ..rows import TaskRows
from ..sources import (
    PARTS,
    ColumnTexts,
    LineFile,
    TextSource,
    find_column,
    find_folder,
    find_path,
    read_tables,
)
from ..stored import load_stored, read_description, split_rows
from ..task import Task, TaskKind

_WHERE = (
    "ListOps is the folder listops-1000 (basic_train.tsv, basic_val.tsv, basic_test.tsv) of"
    " https://storage.googleapis.com/long-range-arena/lra_release.gz, and without a path it is"
    " made from a seed."
)
_FILES = {"train": "basic_train.tsv", "validation": "basic_val.tsv", "test": "basic_test.tsv"}
_HEAD = "Source\tTarget"
_SAMPLED = 2000
_VALUES = {str(value) for value in range(NUM_CLASSES)}
MASK_RATIO = 0.1


class ListOpsLines(TaskRows):
    """Expressions of a source, with their values."""

    def __init__(self, sources, labels: np.ndarray, code: SymbolCode, max_length: int | None):
        super().__init__(len(sources))
        self.sources, self.all_labels = sources, labels
        self.code, self.max_length = code, max_length

    def symbols(self, row: int) -> list[str]:
        return read_source(self.sources[row])

    def read(self, row: int) -> dict:
        try:
            ids = self.code.encode(self.symbols(row), self.max_length)
        except ValueError as error:
            raise ValueError(f"{self.sources.place(row)}: {error}") from error
        return {"input_ids": ids, "labels": int(self.all_labels[row])}

    def find_labels(self, rows: np.ndarray) -> np.ndarray:
        return self.all_labels[rows]

    def find_lengths(self, rows: np.ndarray) -> np.ndarray:
        extra, limit = self.code.code.eos_id is not None, self.max_length
        counts = np.array([_count(self.sources[int(row)]) for row in rows]) + extra
        return counts if limit is None else np.minimum(counts, limit)


class _TsvSources(TextSource):
    """The first columns of the lines of a TSV file."""

    def __init__(self, lines: LineFile):
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, row: int) -> str:
        try:
            return self.lines[row].split(b"\t")[0].decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.place(row)} is not UTF-8.") from error

    def place(self, row: int) -> str:
        return f"{self.lines.path}, line {row + 2}"


class CodedTrees(ListOps):
    """Trees made from a seed, in some vocabulary."""

    code: SymbolCode

    def read(self, row: int) -> dict:
        example = super().read(row)
        return {**example, "input_ids": self.code.recode(example["input_ids"])}

    def find_lengths(self, rows: np.ndarray) -> np.ndarray:
        return super().find_lengths(rows) + (self.code.code.eos_id is not None)


def load(
    path: str | os.PathLike,
    *,
    vocabulary: ListOpsVocabulary = "hf_mixers",
    max_length: int | None = None,
    padding: Padding = "none",
) -> Task:
    """ListOps from files.

    Args:
        path: A folder with `basic_train.tsv` and so on (or one that has it as `listops-1000`), a
            folder with tables `train`, `validation` and `test` of the columns `Source` and
            `Target`, or one that `write_task` made.
        vocabulary: See `SymbolCode`.
        max_length: Cut longer expressions; the arena has 2000.
        padding: See `TaskCollator`.
    """
    check_max_length(max_length)
    folder = find_folder(find_path(path, _WHERE), "listops-1000")
    stored = load_stored(folder, "listops")
    if stored is not None:
        code, longest = SymbolCode(vocabulary), max(_limits(stored))
        _check_stored(folder, code, vocabulary, longest, max_length)
        return _describe(stored, code, padding, longest)
    sources: dict[str, tuple[TextSource, np.ndarray]]
    if (folder / _FILES["train"]).exists():
        sources = {part: _read_tsv(folder / name) for part, name in _FILES.items()}
    else:
        sources = _read_copies(folder)
    code = SymbolCode(vocabulary, _count_some(sources["train"][0], vocabulary))
    parts = {
        part: ListOpsLines(texts, labels, code, max_length)
        for part, (texts, labels) in sources.items()
    }
    longest = max_length or max(_limits(parts))
    return _describe(parts, code, padding, longest)


def make(
    *,
    num_train: int = 96_000,
    num_validation: int = 2_000,
    num_test: int = 2_000,
    min_length: int = 500,
    max_length: int = 2000,
    max_depth: int = 10,
    max_args: int = 10,
    data_seed: int = 0,
    vocabulary: ListOpsVocabulary = "hf_mixers",
    padding: Padding = "none",
) -> Task:
    """ListOps made from a seed; see `listops` and `load`. The test part is the same whatever the
    number of training examples."""
    settings = ListOpsSettings(min_length, max_length, max_depth, max_args)
    count = num_train + num_validation + num_test
    rows = CodedTrees(count, settings, seed=data_seed, first_id=0)
    rows.code = SymbolCode(vocabulary, _count_drawn(rows) if vocabulary == "s4" else None)
    parts = split_rows(rows, num_train, num_validation, num_test)
    longest = max_length - 1 + (rows.code.code.eos_id is not None)
    return _describe(parts, rows.code, padding, longest)


def _check_stored(
    folder: Path, code: SymbolCode, vocabulary: str, longest: int, max_length: int | None
) -> None:
    size = (read_description(folder) or {}).get("vocab_size")
    if size not in (None, code.code.vocab_size):
        raise ValueError(
            f"{folder} holds ids of a vocabulary of {size}: vocabulary={vocabulary!r} with"
            f" {code.code.vocab_size} was asked for."
        )
    if max_length is not None and longest > max_length:
        raise ValueError(
            f"max_length={max_length} was given: {folder} holds a made task of up to {longest}"
            " tokens, which is not cut."
        )


def _describe(parts, code: SymbolCode, padding: Padding, max_length: int) -> Task:
    return Task(
        "listops",
        parts,
        max_length=max_length,
        class_names=tuple(map(str, range(NUM_CLASSES))),
        mask_ratio=MASK_RATIO,
        padding=padding,
        **code.code.task_fields(),
    )


def _limits(parts) -> Iterator[int]:
    return (int(part.lengths.max()) for part in parts.values())


def _read_tsv(file: Path) -> tuple[TextSource, np.ndarray]:
    if not file.exists():
        raise ValueError(f"{file} does not exist; {_WHERE}")
    with open(file, encoding="utf-8", errors="replace") as handle:
        head = handle.readline().rstrip("\r\n")
    if head != _HEAD:
        raise ValueError(f"{file} begins with {head[:60]!r}: the head {_HEAD!r} is accepted.")
    lines = LineFile(file, has_head=True)
    sources = _TsvSources(lines)
    bar = tqdm(lines, file.name, leave=False)
    labels = [_read_target(line, sources, row) for row, line in enumerate(bar)]
    if not labels:
        raise ValueError(f"{file} holds no expressions; {_WHERE}")
    return sources, np.array(labels)


def _read_target(line: bytes, sources: TextSource, row: int) -> int:
    fields = line.split(b"\t")
    if len(fields) != 2 or not fields[0].strip():
        raise ValueError(
            f"{sources.place(row)} is {line[:40]!r}: an expression and its value, between which is"
            " a tab, are accepted."
        )
    if fields[1].decode("ascii", "replace") in _VALUES:
        return int(fields[1])
    raise ValueError(
        f"{sources.place(row)} has the target {fields[1][:20]!r}: 0 to 9 are accepted."
    )


def _read_copies(folder: Path) -> dict[str, tuple[TextSource, np.ndarray]]:
    tables = read_tables(folder, _WHERE)
    found: dict[str, tuple[TextSource, np.ndarray]] = {}
    for part in PARTS:
        if part not in tables:
            raise ValueError(f"{folder} has no part {part}; {_WHERE}")
        rows = tables[part]
        source = find_column(rows, ("Source", "source"), folder)
        target = find_column(rows, ("Target", "target", "label"), folder)
        values = rows.with_format(None)[target][:]
        if None in values:
            raise ValueError(f"{folder} has rows without a target in {part}.")
        if wrong := {str(value) for value in values} - _VALUES:
            raise ValueError(
                f"{folder} has the target {wrong.pop()} in {part}: 0 to 9 are accepted."
            )
        found[part] = (ColumnTexts(rows, source), np.array(values, dtype=np.int64))
    return found


def _count_some(sources, vocabulary: str) -> dict | None:
    if vocabulary != "s4":
        return None
    some = range(min(len(sources), _SAMPLED))
    return count_symbols(read_source(sources[row]) for row in some)


def _count_drawn(trees: ListOps) -> dict:
    some = (ListOps.read(trees, row)["input_ids"] for row in range(min(len(trees), 200)))
    return count_symbols([SYMBOLS[number] for number in symbols] for symbols in some)


def _count(source: str) -> int:
    return len(read_source(source))


TASK = TaskKind(
    "listops", "value of nested lists of digits, 10 classes", _WHERE, load=load, make=make
)
