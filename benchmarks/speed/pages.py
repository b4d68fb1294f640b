"""The section about speed and memory, made from the CSV files."""

import json
from pathlib import Path

from ..tables import Row, find_rows, make_picture, make_table, read_tables
from .measures import make_measures

TITLES = {
    "chordmixer": "**ChordMixer**",
    "plain": "ChordMixer, plain implementation",
    "modernbert": "ModernBERT (sdpa)",
    "longformer": "Longformer",
    "nystromformer": "Nyströmformer",
    "mra": "MRA",
    "fnet": "FNet",
}


def make_speed_section(folder: Path) -> str:
    """Goals, comparison with other networks and machines of the measurements of a folder."""
    tables = read_tables(folder)
    if not tables:
        return "Not measured yet.\n"
    parts = []
    if measures := make_measures(tables):
        rows = [[one.name, one.must, one.value] for one in measures]
        parts.append(make_table(["", "goal", "measured"], rows))
    if "peers" in tables:
        parts += [_make_peer_table(tables["peers"], mode) for mode in ("forward", "training")]
        parts[-1] += make_picture("peers", "time and memory over length, next to other networks")
    parts.append(describe_machines(folder, list(tables)))
    return "\n".join(parts)


def make_scale_section(folder: Path) -> str:
    """What `predict` and `embed` reach, next to what users of other models report."""
    return _make_figures(folder, "inference")


def make_variants_section(folder: Path) -> str:
    """What `score-variants` reaches."""
    return _make_figures(folder, "variants")


def _make_figures(folder: Path, command: str) -> str:
    tables = read_tables(folder)
    if command not in tables:
        return "Not measured yet.\n"
    rows = [[one.name, one.must, one.value] for one in make_measures({command: tables[command]})]
    return f"{make_table(['', 'goal', 'measured'], rows)}\n{describe_machines(folder, [command])}"


def _make_peer_table(rows: list[Row], mode: str) -> str:
    """Time and memory of each network at each length."""
    lengths = sorted({row["length"] for row in rows})
    title = {"forward": "forward", "training": "training step"}[mode]
    header = [f"{title}: time, peak memory", "parameters", *(f"{n:,}" for n in lengths)]
    lines = []
    failures: dict[str, None] = {}
    for network in dict.fromkeys(row["network"] for row in rows):
        found = find_rows(rows, network=network, mode=mode)
        counts = [row["parameters"] for row in found if row.get("parameters")]
        parameters = f"{max(counts) / 1e6:.2f} M" if counts else ""
        cells = []
        for length in lengths:
            row = find_rows(found, length=length)[0]
            if row["status"] == "ok":
                cells.append(f"{show_seconds(row['median_s'])}, {show_memory(row['peak_mib'])}")
            else:
                failures.setdefault(row["status"])
                cells.append(_mark(list(failures).index(row["status"])))
        lines.append([TITLES.get(network, network), parameters, *cells])
    notes = "".join(f"{_mark(number)} {text}\n\n" for number, text in enumerate(failures))
    return f"{make_table(header, lines)}\n{notes}".rstrip("\n") + "\n"


def describe_machines(folder: Path, commands: list[str]) -> str:
    """One sentence per machine and setting that results come from."""
    places: dict[str, list[str]] = {}
    for command in commands:
        run = json.loads((folder / f"{command}.json").read_text(encoding="utf-8"))
        machine = run["machine"]
        sentence = (
            f"{machine['cpu']}, {machine['threads']} threads, torch {run['versions']['torch']}, "
            f"transformers {run['versions']['transformers']}, allocator: {run['allocator']}"
        )
        places.setdefault(sentence, []).append(command)
    return "".join(f"{', '.join(names)}: {place}.\n" for place, names in places.items())


def _mark(number: int) -> str:
    return f"({chr(ord('a') + number)})"


def show_seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"


def show_memory(mib: float | None) -> str:
    if mib is None:
        return "?"
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"
