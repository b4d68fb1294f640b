"""Results as files: a CSV with a row per configuration, and a JSON of where and how it was made."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hf_mixers.reporting.environment import run_environment
from hf_mixers.reporting.files import write_json, write_table

RESULTS = Path(__file__).parent / "results"
# variables of the environment that change speed or memory
_ALLOCATOR = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")
_SETTINGS = (*_ALLOCATOR, "OMP_", "GOMP_", "KMP_", "MKL_", "ONEDNN_")
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")

Row = dict[str, Any]


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """A CSV with the columns of all rows, in the order in which they first appear."""
    # results last, whatever columns single rows add
    names = dict.fromkeys(name for row in rows for name in row)
    last = ("repeats", "minimum_s", "median_s", "peak_mib", "status", "all_s")
    names = [*(name for name in names if name not in last), *(n for n in last if n in names)]
    write_table(path, {name: [row.get(name) for row in rows] for name in names})


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV, with numbers as numbers and nothing as None."""
    with open(path, newline="", encoding="utf-8") as file:
        return [
            {name: value if name == "all_s" else _parse(value) for name, value in row.items()}
            for row in csv.DictReader(file)
        ]


def read_tables(folder: Path) -> dict[str, list[Row]]:
    """All tables of a folder, by sub-command."""
    return {path.stem: read_rows(path) for path in sorted(folder.glob("*.csv"))}


def find_rows(rows: Sequence[Row], **labels: Any) -> list[Row]:
    """The rows with these labels."""
    return [row for row in rows if all(row.get(name) == value for name, value in labels.items())]


def make_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def make_picture(name: str, text: str) -> str:
    """Markdown of a plot for a page of docs/, below a table."""
    return f"\n![{text}](images/{name}.png)\n"


def write_environment(path: Path, seed: int, threads: int | None, options: dict) -> None:
    """Versions, machine, threads, allocator and options of a run."""
    environment = run_environment(seed)
    machine = environment["machine"]
    if threads is not None:
        machine["threads"] = threads
    machine["cores"] = os.cpu_count()
    machine["memory_gib"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    # how busy others kept the machine just before
    machine["load_average"] = os.getloadavg()[0]
    if _HUGE_PAGES.exists():
        machine["transparent_huge_pages"] = _HUGE_PAGES.read_text().strip()
    settings = {name: value for name, value in os.environ.items() if name.startswith(_SETTINGS)}
    is_set = any(name.startswith(_ALLOCATOR) for name in settings)
    environment["allocator"] = "set by the environment" if is_set else "default"
    environment["settings"] = dict(sorted(settings.items()))
    environment["options"] = options
    write_json(path, environment)


def _parse(text: str) -> Any:
    if text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
