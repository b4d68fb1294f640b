"""The arena table: results of our own runs next to the published ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arena_published import COLUMNS, PUBLISHED, PublishedRow
from .arena_results import identify_settings

# the average of the arena leaves the last column out
AVERAGED = COLUMNS[:5]
SHORTENED = "\\*"
# the longest sequences of published tasks, where the length tells a variant of a task; expressions
# of fewer than 2000 symbols are as long as the longest of them happens to be
PUBLISHED_LENGTHS = {
    "listops": range(1900, 2049),
    "text": range(4000, 4097),
    "retrieval": range(4000, 4097),
    "image": (1024,),
    "pathfinder": (1024,),
    "pathx": (16_384,),
}
# options whose other values make another task
_VARIANTS = {"difficulty": "hard", "reference_contrast": False}
_SECONDS_OF_AN_HOUR = 3600


@dataclass(frozen=True)
class Cell:
    """Scores of one model on one task, over seeds.

    Args:
        scores: In percent, one per seed.
        steps: Optimiser steps.
        is_shortened: Fewer steps than published, or no published number to compare with.
    """

    scores: tuple[float, ...]
    steps: int
    is_shortened: bool

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))

    def __str__(self) -> str:
        spread = f" ± {np.std(self.scores):.2f}" if len(self.scores) > 1 else ""
        mark = SHORTENED if self.is_shortened else ""
        return f"{self.mean:.2f}{spread}{mark} ({_short(self.steps)} steps)"


def arena_table(
    results: Sequence[Mapping[str, Any]], published: Iterable[PublishedRow] = PUBLISHED
) -> str:
    """A table in Markdown: our runs first, then the published rows.

    Args:
        results: What `read_results` gives.
        published: Rows to show next to ours.
    """
    ours, others = collect_cells(results), list(published)
    seen = {task for cells in ours.values() for task in cells}
    tasks = [*COLUMNS, *sorted(seen - set(COLUMNS))]
    head = ["model", "source", *tasks, "average"]
    rows = [
        [name, "this run", *(str(cells[t]) if t in cells else "" for t in tasks), _average(cells)]
        for name, cells in ours.items()
    ]
    for row in others:
        shown = [_published_score(row, task) for task in tasks]
        rows.append([row.model, row.source, *shown, _published_average(row)])
    lines = [head, ["---"] * len(head), *rows]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{table}\n\n{_explain(results, any(row.failed for row in others))}"


def collect_cells(results: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Cell]]:
    """Cells by name of the model and task.

    Models of other sizes have rows of their own. Of runs with different steps the longest count,
    and of those the settings of the last one: the mean is over seeds and nothing else.
    """
    groups: dict[tuple[str, str], dict[int, list[Mapping[str, Any]]]] = {}
    for entry in results:
        if entry.get("part", "test") == "test":
            sizes = groups.setdefault((name_model(entry), name_task(entry)), {})
            sizes.setdefault(entry["parameters"], []).append(entry)
    found: dict[str, dict[str, Cell]] = {}
    named = [
        (f"{name}, {count:,} parameters" if len(sizes) > 1 else name, task, entries)
        for (name, task), sizes in groups.items()
        for count, entries in sizes.items()
    ]
    for name, task, entries in named:
        steps = max(entry["steps"] for entry in entries)
        longest = [entry for entry in entries if entry["steps"] == steps]
        last = identify_settings(longest[-1])
        kept = [entry for entry in longest if identify_settings(entry) == last]
        scores = tuple(100 * entry["score"] for entry in sorted(kept, key=lambda e: e["seed"]))
        shortened = any(entry.get("is_shortened", True) for entry in kept)
        found.setdefault(name, {})[task] = Cell(scores, steps, shortened)
    return found


def name_model(entry: Mapping[str, Any]) -> str:
    """What a row of the table is called."""
    name = entry["model"]
    if entry.get("protocol"):
        name += f", as {entry['protocol']}"
    return f"{name}, self-pretrained" if entry.get("self_pretraining") else name


def name_task(entry: Mapping[str, Any]) -> str:
    """What a column of the table is called: variants of a task are not compared with it.

    >>> name_task({"task": "listops", "max_length": 500})
    'listops, 500 tokens'
    >>> name_task({"task": "listops", "max_length": 1999})
    'listops'
    """
    name, length = entry["task"], entry.get("max_length")
    if length is not None and length not in PUBLISHED_LENGTHS.get(name, ()):
        name += f", {length:,} tokens"
    options = entry.get("task_options") or {}
    changed = [key for key, usual in _VARIANTS.items() if options.get(key, usual) != usual]
    return ", ".join([name, *(key if options[key] is True else options[key] for key in changed)])


def costs_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Parameters, time and memory of every run, in Markdown."""
    head = ["task", "model", "score", "parameters", "steps", "hours", "s/step", "MB", "seed"]
    lines = [head, ["---"] * len(head)]
    for entry in sorted(results, key=lambda e: (name_task(e), name_model(e), e["seed"])):
        seconds, pace = entry.get("seconds"), entry.get("seconds_per_step")
        lines.append(
            [
                name_task(entry),
                name_model(entry),
                f"{100 * entry['score']:.2f}",
                f"{entry['parameters']:,}",
                f"{entry['steps']:,}",
                "" if seconds is None else f"{seconds / _SECONDS_OF_AN_HOUR:.2f}",
                "" if pace is None else f"{pace:.3f}",
                "" if entry.get("memory_mb") is None else f"{entry['memory_mb']:,.0f}",
                str(entry["seed"]),
            ]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _average(cells: Mapping[str, Cell]) -> str:
    if not all(task in cells for task in AVERAGED):
        return ""
    return f"{np.mean([cells[task].mean for task in AVERAGED]):.2f}"


def _published_score(row: PublishedRow, task: str) -> str:
    score = row.score(task)
    if score is None:
        return "FAIL" if task in row.failed else ""
    return f"{score:.2f}"


def _published_average(row: PublishedRow) -> str:
    if row.average is not None:
        return f"{row.average:.2f}"
    scores = [score for task in AVERAGED if (score := row.score(task)) is not None]
    return "" if len(scores) < len(AVERAGED) else f"{np.mean(scores):.2f}"


def _explain(results: Sequence[Mapping[str, Any]], has_failed: bool = False) -> str:
    text = (
        "Percent of the test part; ± is the standard deviation over seeds. Of several settings of"
    )
    text += " a model, those of its last run count."
    if any(entry.get("is_shortened", True) for entry in results):
        text += f" {SHORTENED} fewer steps than the publication has, or none to compare with."
    if has_failed:
        text += " FAIL: at chance."
    return text


def _short(steps: int) -> str:
    """A number of steps in few letters.

    >>> _short(900), _short(5000), _short(62400)
    ('900', '5k', '62.4k')
    """
    return str(steps) if steps < 1000 else f"{steps / 1000:g}k"
