"""A figure that matters, and the rows of one table, so of one run, that it is made of."""

from collections.abc import Callable
from dataclasses import dataclass

from ...tables import Row, find_rows


@dataclass(frozen=True)
class Measure:
    """A figure with the goal that it must reach and the one that it should reach."""

    name: str
    must: str
    aim: str
    value: str


class Missing(Exception):
    """A row that a figure needs is not there, or says how its measurement failed."""


def measure(name: str, must: str, aim: str, value: Callable[[], str]) -> Measure:
    try:
        return Measure(name, must, aim, value())
    except Missing as missing:
        return Measure(name, must, aim, str(missing))


def find(rows: list[Row], **labels) -> Row:
    """The one row with these labels, measured without failure."""
    found = find_rows(rows, **labels)
    if not found:
        raise Missing("not measured")
    if found[0]["status"] != "ok":
        name = found[0].get("network") or found[0].get("tokenizer")
        raise Missing(f"{name}: {found[0]['status']}")
    return found[0]


def ratio_of(rows: list[Row], column: str, over: dict, under: dict) -> float:
    upper, lower = find(rows, **over)[column], find(rows, **under)[column]
    if upper is None or not lower:
        raise Missing("not measured")
    return upper / lower


def longest(rows: list[Row]) -> int:
    return max(row["length"] for row in rows)


def short(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def tokens_per_second(row: Row) -> float:
    """Real tokens of all timed runs over their time."""
    return row["tokens"] / sum(float(seconds) for seconds in row["all_s"].split())
