"""Tasks made from a seed, written to parquet part by part and read back."""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from tqdm.auto import tqdm

from .rows import TaskRows, count_tokens
from .task import Task

# examples that a process makes at a time
_CHUNK = 256
# what an interruption takes away at most
_CHUNKS_OF_A_PIECE = 16
DESCRIPTION = "task.json"
_UNFINISHED = ".unfinished"


class StoredRows(TaskRows):
    """Examples of a parquet file, memory-mapped."""

    def __init__(self, table: Dataset):
        super().__init__(len(table))
        self.table = table.with_format("numpy")
        self.shapes = {
            name.removesuffix("_width"): name for name in table.column_names if "_width" in name
        }

    def read(self, row: int) -> dict[str, Any]:
        stored = self.table[row]
        example = {}
        for name, value in stored.items():
            if name == "length" or name.endswith("_width"):
                continue
            if name in self.shapes:
                value = value.reshape(-1, int(stored[self.shapes[name]]))
            example[name] = value if np.ndim(value) else value.item()
        return example

    def find_lengths(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.table["length"][:])[rows]

    def find_labels(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.table["labels"][:])[rows]


def write_task(
    task: Task,
    folder: str | os.PathLike,
    *,
    num_processes: int = 1,
    description: Mapping[str, Any] | None = None,
) -> None:
    """Write the parts of a task as `train.parquet` and so on, which `load_arena_task` reads.

    Examples are made chunk by chunk and written at once, so that memory stays small. The files do
    not depend on the number of processes. What was interrupted goes on where it stopped if it is
    called again with the same task and folder.

    Args:
        num_processes: Processes that make examples.
        description: Kept in `task.json`, such as the options that the task was made with.
    """
    folder = Path(folder)
    if (folder / DESCRIPTION).exists():
        raise ValueError(f"{folder} holds a task already: give another folder.")
    if num_processes < 1:
        raise ValueError(f"num_processes={num_processes} was given: at least 1 is accepted.")
    folder.mkdir(parents=True, exist_ok=True)
    about = {
        "task": task.name,
        "sizes": {part: len(rows) for part, rows in task.parts.items()},
        "options": dict(description or {}),
        "vocab_size": task.vocab_size,
        "first_examples": {part: _digest(rows[0]) for part, rows in task.parts.items()},
    }
    text = json.dumps(about, indent=1) + "\n"
    begun = folder / f"{DESCRIPTION}{_UNFINISHED}"
    if begun.is_file() and begun.read_text() != text:
        raise ValueError(
            f"{folder} holds an unfinished task with other options: give another folder."
        )
    is_new = not begun.is_file()
    _write_whole(begun, lambda file: file.write_text(text))
    with _workers(num_processes) as run:
        for part, rows in task.parts.items():
            file = folder / f"{part}.parquet"
            if is_new:
                _remove_pieces(folder, part)
            if is_new or not file.is_file():
                _write_part(rows, file, run)
            _remove_pieces(folder, part)
    # last, so that a folder without it is known to be incomplete
    begun.replace(folder / DESCRIPTION)


def load_stored(folder: Path, name: str) -> dict[str, TaskRows] | None:
    """Parts that `write_task` wrote, or None if the folder has none of this task."""
    about = read_description(folder)
    if about is None:
        return None
    if about["task"] != name:
        raise ValueError(f"{folder} holds the task {about['task']!r}: {name!r} was asked for.")
    return {
        part: StoredRows(Dataset.from_parquet(str(folder / f"{part}.parquet")))
        for part in about["sizes"]
    }


def read_description(folder: Path) -> dict[str, Any] | None:
    """What `write_task` says about a folder, or None if it did not write it to the end."""
    if (folder / DESCRIPTION).is_file():
        return json.loads((folder / DESCRIPTION).read_text())
    if (folder / f"{DESCRIPTION}{_UNFINISHED}").is_file():
        raise ValueError(
            f"{folder} holds an unfinished task: make it again with the same options to go on."
        )
    return None


def split_rows(
    rows: TaskRows, num_train: int, num_validation: int, num_test: int
) -> dict[str, TaskRows]:
    """Parts of rows made from one seed: the test part comes first, so that it stays the same
    whatever the sizes of the others."""
    sizes = {"test": num_test, "validation": num_validation, "train": num_train}
    if min(sizes.values()) < 1 or sum(sizes.values()) != len(rows):
        raise ValueError(f"The parts {sizes} were asked for: each has at least one example.")
    parts, start = {}, 0
    for part, size in sizes.items():
        parts[part] = rows.select(np.arange(start, start + size))
        start += size
    return {part: parts[part] for part in ("train", "validation", "test")}


def _write_part(rows: TaskRows, file: Path, run: Callable[..., Iterable]) -> None:
    """Write pieces of many chunks, of which those that are there already stay, and join them."""
    import pyarrow.parquet as pq

    starts = range(0, len(rows), _CHUNK * _CHUNKS_OF_A_PIECE)
    pieces = [file.with_suffix(f".{start}{_UNFINISHED}") for start in starts]
    with tqdm(total=len(rows), desc=f"Making {file.stem}") as bar:
        for start, piece in zip(starts, pieces, strict=True):
            places = np.arange(start, min(start + starts.step, len(rows)))
            if not piece.is_file():
                # a process gets the rows of its chunk only, not all of them
                cuts = range(_CHUNK, len(places), _CHUNK)
                chunks = [rows.select(some) for some in np.split(places, cuts)]
                tables = _count(run(_make_table, chunks), bar)
                _write_whole(piece, partial(_write_tables, tables))
            else:
                bar.update(len(places))
    tables = (
        content.read_row_group(number)
        for content in map(pq.ParquetFile, pieces)
        for number in range(content.num_row_groups)
    )
    _write_whole(file, partial(_write_tables, tables))


def _remove_pieces(folder: Path, part: str) -> None:
    for piece in folder.glob(f"{part}.*{_UNFINISHED}"):
        piece.unlink()


def _count(tables: Iterable, bar: tqdm) -> Iterator:
    for table in tables:
        yield table
        bar.update(len(table))


def _write_tables(tables: Iterable, file: Path) -> None:
    import pyarrow.parquet as pq

    writer = None
    for table in tables:
        writer = writer or pq.ParquetWriter(file, table.schema, compression="zstd")
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _write_whole(file: Path, write: Callable[[Path], Any]) -> None:
    """Write a file that is there as a whole or not at all."""
    begun = file.with_name(f".{file.name}")
    write(begun)
    begun.replace(file)


@contextlib.contextmanager
def _workers(num_processes: int) -> Iterator[Callable[..., Iterable]]:
    """What applies a function to many things, in some processes."""
    if num_processes == 1:
        yield map
        return
    import multiprocessing

    # threads of torch do not survive a fork
    with multiprocessing.get_context("spawn").Pool(num_processes) as pool:
        yield pool.imap


def _digest(example: Mapping[str, Any]) -> str:
    """What tells examples apart."""
    found = hashlib.sha256()
    for name in sorted(example):
        found.update(name.encode() + np.asarray(example[name]).tobytes())
    return found.hexdigest()[:16]


def _make_table(rows: TaskRows):
    import pyarrow as pa

    examples = [rows[index] for index in range(len(rows))]
    columns: dict[str, Any] = {}
    for name in examples[0]:
        values = [np.asarray(example[name]) for example in examples]
        if values[0].ndim == 2:
            columns[f"{name}_width"] = pa.array([value.shape[1] for value in values], pa.int32())
        if values[0].ndim == 0:
            columns[name] = pa.array([value.item() for value in values])
            continue
        flat = np.concatenate([value.reshape(-1) for value in values])
        ends = np.cumsum([value.size for value in values])
        offsets = pa.array(np.concatenate([[0], ends]))
        columns[name] = pa.LargeListArray.from_arrays(offsets, pa.array(flat))
    columns["length"] = pa.array([count_tokens(example) for example in examples])
    return pa.table(columns)
