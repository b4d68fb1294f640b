"""Tasks made from a seed, written to parquet part by part and read back."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from tqdm.auto import tqdm

from .rows import TaskRows, count_tokens
from .task import Task

# examples that a process makes at a time
_CHUNK = 256
_DESCRIPTION = "task.json"


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
    not depend on the number of processes.

    Args:
        num_processes: Processes that make examples.
        description: Kept in `task.json`, such as the options that the task was made with.
    """
    folder = Path(folder)
    if (folder / _DESCRIPTION).exists():
        raise ValueError(f"{folder} holds a task already: give another folder.")
    if num_processes < 1:
        raise ValueError(f"num_processes={num_processes} was given: at least 1 is accepted.")
    folder.mkdir(parents=True, exist_ok=True)
    for part, rows in task.parts.items():
        _write_part(rows, folder / f"{part}.parquet", part, num_processes)
    sizes = {part: len(rows) for part, rows in task.parts.items()}
    # last, so that a folder without it is known to be incomplete
    about = {"task": task.name, "sizes": sizes, "options": dict(description or {})}
    (folder / _DESCRIPTION).write_text(json.dumps(about, indent=1) + "\n")


def load_stored(folder: Path, name: str) -> dict[str, TaskRows] | None:
    """Parts that `write_task` wrote, or None if the folder has none of this task."""
    if not (folder / _DESCRIPTION).is_file():
        return None
    about = json.loads((folder / _DESCRIPTION).read_text())
    if about["task"] != name:
        raise ValueError(f"{folder} holds the task {about['task']!r}: {name!r} was asked for.")
    return {
        part: StoredRows(Dataset.from_parquet(str(folder / f"{part}.parquet")))
        for part in about["sizes"]
    }


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


def _write_part(rows: TaskRows, file: Path, part: str, num_processes: int) -> None:
    import pyarrow.parquet as pq

    writer = None
    with tqdm(total=len(rows), desc=f"Making {part}") as bar:
        for table in _make_tables(rows, num_processes):
            writer = writer or pq.ParquetWriter(file, table.schema, compression="zstd")
            writer.write_table(table)
            bar.update(len(table))
    if writer is not None:
        writer.close()


def _make_tables(rows: TaskRows, num_processes: int) -> Iterator:
    starts = range(0, len(rows), _CHUNK)
    # a process gets the rows of its chunk only, not all of them
    chunks = (rows.select(np.arange(s, min(s + _CHUNK, len(rows)))) for s in starts)
    if num_processes == 1:
        yield from map(_make_table, chunks)
        return
    import multiprocessing

    # threads of torch do not survive a fork
    with multiprocessing.get_context("spawn").Pool(num_processes) as pool:
        yield from pool.imap(_make_table, chunks)


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
