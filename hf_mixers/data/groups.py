"""Groups of records that a split must not divide, such as species."""

import re

import numpy as np
from datasets import Dataset

from .classes import name_row, read_column
from .labels import read_label_table


def read_groups(
    dataset: Dataset,
    column: str | None = None,
    pattern: str | None = None,
    table: str | None = None,
) -> list[str]:
    """The group of every record, from exactly one source.

    Args:
        column: A column of the data set.
        pattern: A regular expression with one group, searched in the description of a record, or in
            its id where there is none.
        table: A TSV file of id and group.

    >>> rows = {"id": ["a", "b"], "description": ["a [E. coli] 1", "b [B. subtilis] 7"]}
    >>> read_groups(Dataset.from_dict(rows), pattern=r"\\[(.*?)\\]")
    ['E. coli', 'B. subtilis']
    """
    given = [name for name in (column, pattern, table) if name is not None]
    if len(given) != 1:
        raise ValueError(
            f"Groups come from a column, a pattern or a table, got {len(given)} of them."
        )
    if column is not None:
        groups = read_column(dataset, column)
        source = f"the column {column!r}"
    elif pattern is not None:
        groups = _match_groups(dataset, pattern)
        source = f"the pattern {pattern!r}"
    else:
        known = read_label_table(str(table))
        groups = [known.get(name) for name in read_column(dataset, "id")]
        source = str(table)
    for row, group in enumerate(groups):
        if group is None or group == "":
            raise ValueError(f"{name_row(dataset, row)} has no group in {source}.")
    return [str(group) for group in groups]


def merge_groups(groups: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Numbers of groups such that rows of one unit, too, are in one group.

    Args:
        groups: Group of every row as a number.
        units: Another division of the rows, such as by identical sequences.

    >>> merge_groups(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])).tolist()
    [0, 0, 0, 1]
    """
    parent = np.arange(int(groups.max()) + 1)

    def find(group: int) -> int:
        while parent[group] != group:
            parent[group] = parent[parent[group]]
            group = parent[group]
        return group

    first: dict[int, int] = {}
    copies = np.bincount(units) > 1
    for row in np.flatnonzero(copies[units]):
        group = find(int(groups[row]))
        other = find(first.setdefault(int(units[row]), group))
        parent[max(group, other)] = min(group, other)
    roots = np.array([find(group) for group in range(len(parent))])
    return np.unique(roots[groups], return_inverse=True)[1]


def _match_groups(dataset: Dataset, pattern: str) -> list[str | None]:
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}.") from error
    if expression.groups != 1:
        raise ValueError(
            f"A group pattern has one group in parentheses, got {expression.groups} in {pattern!r}."
        )
    column = "description" if "description" in dataset.column_names else "id"
    found = (expression.search(text or "") for text in read_column(dataset, column))
    return [None if match is None else match.group(1) for match in found]
