"""What labels of records stand for: one class each, a number, or any number of classes."""

import math

import numpy as np
import pyarrow as pa
from datasets import ClassLabel, Dataset, List, Value

from .classes import name_row, read_column

CLASSES, REGRESSION, MULTI_LABEL = PROBLEMS = ("classes", "regression", "multi_label")


def find_problem(dataset: Dataset, label_column: str = "label") -> str:
    """What the labels of a data set stand for, by their type.

    >>> find_problem(Dataset.from_dict({"label": [0.5, 1.5]}))
    'regression'
    """
    feature = dataset.features[label_column]
    if isinstance(feature, List):
        return MULTI_LABEL
    return REGRESSION if "float" in feature.dtype else CLASSES


def read_as(dataset: Dataset, problem: str, separator: str = ";") -> Dataset:
    """The data set with its column `label` in the type of a problem.

    Args:
        problem: `classes` gives a `ClassLabel`; `regression` decimal numbers; `multi_label` lists
            of a `ClassLabel`.
        separator: What stands between the labels of a record. A separator alone is no label.

    >>> rows = Dataset.from_dict({"label": ["heart;liver", "liver", ";"]})
    >>> rows = read_as(rows, "multi_label")
    >>> rows["label"][:], rows.features["label"].feature.names
    ([[0, 1], [1], []], ['heart', 'liver'])
    """
    if problem == CLASSES:
        return _as_classes(dataset)
    if problem == REGRESSION:
        return _as_numbers(dataset)
    if problem == MULTI_LABEL:
        return _as_lists(dataset, separator)
    raise ValueError(f"problem={problem!r} was given: {', '.join(PROBLEMS)} are accepted.")


def _as_classes(dataset: Dataset) -> Dataset:
    if "float" in dataset.features["label"].dtype:
        raise ValueError(
            "Labels must be classes, as text or whole numbers, got decimal numbers;"
            " problem=regression learns to predict them."
        )
    if isinstance(dataset.features["label"], ClassLabel):
        return dataset
    return dataset.class_encode_column("label")


def _as_numbers(dataset: Dataset) -> Dataset:
    numbers = np.empty(len(dataset))
    for row, value in enumerate(_read_labels(dataset)):
        try:
            numbers[row] = float(value)
        except ValueError:
            numbers[row] = math.nan
        if not math.isfinite(numbers[row]):
            raise ValueError(
                f"{name_row(dataset, row)} has the label {value!r}: a number is accepted."
            )
    return _replace_labels(dataset, pa.array(numbers), Value("float64"))


def _as_lists(dataset: Dataset, separator: str) -> Dataset:
    if not separator:
        raise ValueError("label_separator must be at least one character, got ''.")
    lists = [
        [part.strip() for part in str(value).split(separator) if part.strip()]
        for value in _read_labels(dataset)
    ]
    names = sorted({name for found in lists for name in found})
    if not names:
        raise ValueError("No record has a label.")
    numbers = {name: number for number, name in enumerate(names)}
    column = pa.array(
        [sorted({numbers[name] for name in found}) for found in lists], pa.list_(pa.int64())
    )
    return _replace_labels(dataset, column, List(ClassLabel(names=names)))


def _read_labels(dataset: Dataset) -> list:
    """Labels as they were written."""
    values = read_column(dataset, "label")
    names = getattr(dataset.features["label"], "names", None)
    return values if names is None else [names[value] for value in values]


def _replace_labels(dataset: Dataset, column: pa.Array, feature) -> Dataset:
    order = dataset.column_names
    replaced = dataset.add_column("_new", column, feature=feature).remove_columns("label")
    return replaced.rename_column("_new", "label").select_columns(order)
