"""Files of results: JSON for reading and CSV tables."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def write_json(path: Path, content: Any) -> None:
    """JSON for reading, with text in place of what JSON does not know."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")


def write_table(path: Path, columns: Mapping[str, Sequence | np.ndarray]) -> None:
    """A CSV file with one column per name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
