"""Files that are there whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def write_atomically(path: str | Path) -> Iterator[Path]:
    """A path to write to; what was written takes the place of `path` when it is complete.

    A run that is killed, or whose disk is full, leaves the file that was there before, or none.

    >>> folder = Path(getfixture("tmp_path"))
    >>> with write_atomically(folder / "metrics.json") as draft:
    ...     _ = draft.write_text("{}")
    >>> [path.name for path in folder.iterdir()]
    ['metrics.json']
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # the same suffix, from which libraries take the format
    draft = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        yield draft
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
