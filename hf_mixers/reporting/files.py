"""Files of results: JSON for reading and CSV tables, there as a whole or not at all."""

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def write_atomically(path: str | Path) -> Iterator[Path]:
    """A temporary name for a file, which gets its own name once everything is written.

    Whoever reads the file finds the one before or the new one, also if the process is killed.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "results.txt"
    >>> with write_atomically(path) as temporary:
    ...     _ = temporary.write_text("all of it")
    >>> path.read_text(), [file.name for file in path.parent.iterdir()]
    ('all of it', ['results.txt'])
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # the ending stays: some writers go by it
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        # a file system may carry out the renaming before the writing
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """A text file in UTF-8."""
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, content: Any) -> None:
    """JSON for reading, with text in place of what JSON does not know."""
    write_text(path, json.dumps(content, indent=1, default=str) + "\n")


def write_table(path: str | Path, columns: Mapping[str, Sequence]) -> None:
    """A CSV file with one column per name."""
    with (
        write_atomically(path) as temporary,
        open(temporary, "w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
