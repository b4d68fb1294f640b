"""Classes of a data set: read from its column of labels, counted and described."""

from typing import Any

import numpy as np
from datasets import ClassLabel, Dataset


def describe_classes(
    dataset: Dataset, label_column: str | None = "label"
) -> dict[str, dict[str, int | float]]:
    """Count, share and shortest, median and longest length of every class, and of all.

    >>> dataset = Dataset.from_dict({"label": ["a", "a", "b"], "length": [2, 4, 9]})
    >>> describe_classes(dataset)["a"]
    {'count': 2, 'share': 0.6666666666666666, 'min': 2, 'median': 3.0, 'max': 4}
    """
    lengths = np.asarray(read_column(dataset, "length"))
    members = {}
    if label_column is not None and label_column in dataset.column_names:
        classes, names = read_classes(dataset, label_column)
        members = {str(name): classes == number for number, name in enumerate(names)}
    members["all"] = np.ones(len(dataset), dtype=bool)
    description = {}
    for name, rows in members.items():
        chosen = lengths[rows]
        description[name] = {"count": len(chosen), "share": len(chosen) / max(1, len(dataset))}
        if len(chosen):
            description[name] |= {
                "min": int(chosen.min()),
                "median": float(np.median(chosen)),
                "max": int(chosen.max()),
            }
    return description


def format_classes(description: dict[str, dict[str, int | float]]) -> str:
    """The table of `describe_classes` as text.

    >>> dataset = Dataset.from_dict({"label": ["a", "a", "b"], "length": [2, 4, 9]})
    >>> print(format_classes(describe_classes(dataset)))
    class  count   share  min  median  max
    a          2   66.7%    2       3    4
    b          1   33.3%    9       9    9
    all        3  100.0%    2       4    9
    """
    rows = [["class", "count", "share", "min", "median", "max"]]
    for name, values in description.items():
        lengths = [f"{values[key]:,.0f}" if key in values else "-" for key in rows[0][3:]]
        rows.append([name, f"{values['count']:,}", f"{values['share']:.1%}", *lengths])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(map(str.rjust, row[1:], widths[1:]))]) for row in rows
    ]
    return "\n".join(lines)


def balanced_class_weights(dataset: Dataset, label_column: str = "label") -> list[float]:
    """Weights n / (C n_c), which give every class the same part in the loss.

    >>> balanced_class_weights(Dataset.from_dict({"label": [0, 0, 0, 1]}))
    [0.6666666666666666, 2.0]
    """
    classes, names = read_classes(dataset, label_column)
    counts = np.bincount(classes, minlength=len(names))
    if (counts == 0).any():
        raise ValueError(f"Class {names[int(counts.argmin())]!r} has no examples to weigh.")
    return (len(classes) / (len(names) * counts)).tolist()


def read_column(dataset: Dataset, column: str) -> list[Any]:
    if column not in dataset.column_names:
        raise ValueError(
            f"The data set has no column {column!r}: it has {', '.join(dataset.column_names)}."
        )
    # the one column first, as the rows of a selection are gathered with all their columns
    return dataset.with_format(None).select_columns(column)[column][:]


def read_classes(dataset: Dataset, label_column: str | None) -> tuple[np.ndarray, list[Any]]:
    """Class of every example as a number, and the name of every class; one class for no column."""
    if label_column is None:
        return np.zeros(len(dataset), dtype=np.int64), ["all"]
    values = read_column(dataset, label_column)
    feature = dataset.features[label_column]
    if isinstance(feature, ClassLabel) and None not in values:
        return np.asarray(values, dtype=np.int64), feature.names
    for row, value in enumerate(values):
        if value is None or isinstance(value, (float, list)):
            raise ValueError(
                f"{name_row(dataset, row)} has {value!r} in {label_column!r}: one class, as text"
                " or whole number, is accepted."
            )
    names = sorted(set(values))
    # numbers that count from 0 stay what they are, even if some class is absent
    if names and all(isinstance(name, int) for name in names) and names[0] >= 0:
        names = list(range(names[-1] + 1))
    numbers = {name: number for number, name in enumerate(names)}
    return np.asarray([numbers[value] for value in values], dtype=np.int64), names


def name_row(dataset: Dataset, row: int) -> str:
    if "id" not in dataset.column_names:
        return f"Example {row}"
    name = f"record {dataset.with_format(None)[int(row)]['id']!r}"
    if "file" in dataset.column_names:
        name = f"{dataset.with_format(None)[int(row)]['file']}: {name}"
    return name
