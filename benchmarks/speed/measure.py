"""A figure of a table of results, and the rows that it is made from."""

from collections.abc import Callable
from dataclasses import dataclass

from ..tables import Row, find_rows


@dataclass(frozen=True)
class Measure:
    """A figure with the goal that it must reach and the one that it should reach."""

    name: str
    must: str
    aim: str
    value: str


class Missing(Exception):
    """A row that a figure needs is not there, or says how its measurement failed."""


def make_measure(name: str, must: str, aim: str, value: Callable[[], str]) -> Measure:
    try:
        return Measure(name, must, aim, value())
    except Missing as missing:
        return Measure(name, must, aim, str(missing))


def find_row(rows: list[Row], **labels) -> Row:
    """The one row with these labels, measured without failure."""
    found = find_rows(rows, **labels)
    if not found:
        raise Missing("not measured")
    if found[0]["status"] != "ok":
        names = (found[0].get(label) for label in ("network", "tokenizer", "precision"))
        name = next(filter(None, names), "")
        raise Missing(f"{name}: {found[0]['status']}")
    return found[0]


def find_ratio(rows: list[Row], column: str, over: dict, under: dict) -> float:
    upper, lower = find_row(rows, **over)[column], find_row(rows, **under)[column]
    if upper is None or not lower:
        raise Missing("not measured")
    return upper / lower
