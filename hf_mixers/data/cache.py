"""Rows of a generator as a memory-mapped data set, kept in the cache of `datasets`."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
from datasets import Dataset, Features
from datasets.fingerprint import Hasher
from datasets.utils import tqdm
from filelock import FileLock

_FOLDER = "hf_mixers"
_BATCH_SIZE = 1000


def build_cached(
    generate: Callable[..., Iterator[dict[str, Any]]],
    arguments: Mapping[str, Any],
    features: Features,
    cache_dir: str | os.PathLike | None = None,
) -> Dataset:
    """A data set of generated rows; the same arguments find it in the cache.

    `Dataset.from_generator` does the same but looks at every value of every row, which takes most
    of the time where records are many and short. A file appears in the cache only when complete.
    """
    folder = Path(cache_dir or datasets.config.HF_DATASETS_CACHE) / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{Hasher.hash((generate.__qualname__, dict(arguments), features))}.arrow"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            _write(path, generate(**arguments), features.arrow_schema)
    return Dataset.from_file(str(path))


def _write(path: Path, rows: Iterator[dict[str, Any]], schema: pa.Schema) -> None:
    """Write rows to a file that gets its name when all are there."""
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        try:
            bar = tqdm(desc="reading", unit=" records")
            with bar, pa.OSFile(file.name, "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
                while batch := list(islice(rows, _BATCH_SIZE)):
                    writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                    bar.update(len(batch))
        except BaseException:
            os.unlink(file.name)
            raise
    os.replace(file.name, path)
