"""Files of results: JSON for reading and CSV tables, there as a whole or not at all."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .atomic import write_atomically


def write_text(path: str | Path, text: str) -> None:
    """A text file in UTF-8."""
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, content: Any) -> None:
    """JSON for reading, with text in place of what JSON does not know."""
    write_text(path, json.dumps(content, indent=1, default=str) + "\n")


def write_table(path: str | Path, columns: Mapping[str, Sequence | np.ndarray]) -> None:
    """A CSV file with one column per name."""
    with (
        write_atomically(path) as draft,
        open(draft, "w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
