"""Tables with a column to predict: CSV and parquet; numbers by quantile, categories as codes."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from numbers import Real
from typing import Literal

import numpy as np
import pandas as pd
from datasets import ClassLabel, Dataset, DatasetDict, Features, LargeList, Value
from pandas.api import types
from scipy.special import ndtri
from transformers.utils import logging

from ..records import TABLE_KINDS, find_files
from ..splits import PART_NAMES
from .arrays import sort_names

logger = logging.get_logger(__name__)

TableTask = Literal["classification", "regression"]

# code of a category that the training part does not have
UNKNOWN = 0
# a missing text is a category of its own
MISSING = "(missing)"
# keeps the ends of a column, which have no rows beyond them, from becoming infinite
_EDGE = 1e-7


def load_table(
    source: str | os.PathLike | Sequence[str | os.PathLike],
    target: str,
    task: TableTask | None = None,
    ignore: Sequence[str] = (),
    keep: Sequence[str] = (),
) -> Dataset:
    """Rows of CSV or parquet files; the target is the column `label`.

    A column that only names parts, such as `train` and `test`, is left out unless it is in `keep`.

    Args:
        source: Files, folders or patterns, all with the same columns.
        target: Column to predict.
        task: Whether the target names classes or is a number; whole numbers could be either, text
            is always classes and numbers with a point are a regression.
        ignore: Columns to leave out, such as an id.
        keep: Columns to read even if they look like the names of parts.
    """
    files, kind = find_files(source)
    if kind not in TABLE_KINDS:
        raise ValueError(f"{files[0]} is {kind}: tables are CSV or parquet.")
    frames = [_read_file(file, kind) for file in files]
    for file, frame in zip(files, frames, strict=True):
        for name in (target, *ignore):
            if name not in frame:
                raise ValueError(f"{file} has no column {name!r}: it has {', '.join(frame)}.")
        if list(frame) != list(frames[0]):
            raise ValueError(f"{file} has other columns than {files[0]}.")
        if frame[target].isna().any():
            raise ValueError(
                f"{file}: {frame[target].isna().sum()} rows have no {target!r}, the first is row"
                f" {int(frame[target].isna().to_numpy().argmax()) + 1}."
            )
    table = pd.concat(frames, ignore_index=True).drop(columns=list(ignore))
    for name in [name for name in table if name not in (target, *keep)]:
        if set(table[name].dropna()) <= PART_NAMES.keys():
            logger.warning(
                f"{files[0]}: the column {name!r} names parts of the data and is not read; use it"
                " as split_column, or as a feature by naming it in categorical."
            )
            table = table.drop(columns=name)
    if len(table.columns) < 2:
        raise ValueError(f"{files[0]} has no column to predict {target!r} from.")
    if "label" in table and target != "label":
        raise ValueError(f"{files[0]} has a column 'label' besides its target {target!r}.")
    table = table.apply(_join_kinds)
    task = _check_task(table[target], target, task)
    label = table.pop(target)
    rows = Dataset.from_pandas(table, preserve_index=False)
    if task == "regression":
        return rows.add_column("label", label.to_numpy(np.float64))
    texts = _as_text(label)
    names = sort_names(texts)
    numbers = texts.map({name: number for number, name in enumerate(names)}).tolist()
    return rows.add_column("label", numbers).cast_column("label", ClassLabel(names=names))


@dataclass
class TableEncoder:
    """Turns rows into model inputs, by what the training part holds.

    Numeric columns are brought to a normal distribution by their quantiles; a missing number is 0,
    the middle, and a category "is missing" says so if that occurs in training. Categories are
    numbered from 1 on, 0 is for those that training does not have. The target of a regression is
    standardised.

    >>> columns = {"size": [1.0, 2.0, 3.0], "kind": ["a", "b", "a"], "label": [0, 1, 0]}
    >>> rows = Dataset.from_dict(columns)
    >>> encoder = TableEncoder.fit(rows)
    >>> encoder.config_fields()
    {'num_numeric_features': 1, 'category_sizes': [3]}
    >>> encoder.encode(rows)[1]["numeric_values"], encoder.encode(rows)[1]["category_ids"]
    ([0.0], [2])
    """

    quantiles: dict[str, list[float]] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    categories: dict[str, list[str]] = field(default_factory=dict)
    target_mean: float | None = None
    target_std: float | None = None

    @classmethod
    def fit(cls, train: Dataset, categorical: Sequence[str] = ()) -> "TableEncoder":
        """Learn quantiles and categories.

        Args:
            categorical: Columns of numbers that are names; text always is.
        """
        table = train.with_format(None).to_pandas().drop(columns="label")
        if unknown := sorted(set(categorical) - set(table)):
            raise ValueError(f"The table has no column {unknown[0]!r}: it has {', '.join(table)}.")
        encoder = cls()
        for name, column in table.items():
            if name in categorical or not _is_numeric(column, name):
                encoder.categories[name] = sort_names(_as_text(column))
                continue
            numbers = _as_numbers(column, name)
            seen = numbers[~np.isnan(numbers)]
            if len(seen) == 0:
                raise ValueError(f"Column {name!r} has no value in the training part.")
            # as many as FT-Transformer's preparation takes
            count = min(len(seen), max(min(len(seen) // 30, 1000), 10))
            encoder.quantiles[name] = np.quantile(seen, np.linspace(0, 1, count)).tolist()
            if len(seen) < len(numbers):
                encoder.flags.append(name)
        if not isinstance(train.features["label"], ClassLabel) and _is_float(train):
            target = np.asarray(train.with_format(None)["label"][:])
            encoder.target_mean = float(target.mean())
            encoder.target_std = float(target.std()) or 1.0
        return encoder

    def config_fields(self) -> dict:
        """What the config of a model for these rows must say."""
        sizes = [len(names) + 1 for names in self.categories.values()] + [2] * len(self.flags)
        return {"num_numeric_features": len(self.quantiles), "category_sizes": sizes}

    def encode(self, part: Dataset | DatasetDict) -> Dataset | DatasetDict:
        """Model inputs: `numeric_values` and `category_ids`, if there are such, and `labels`."""
        if isinstance(part, DatasetDict):
            return DatasetDict({name: self.encode(one) for name, one in part.items()})
        table = part.with_format(None).to_pandas()
        if absent := [n for n in (*self.quantiles, *self.categories) if n not in table]:
            raise ValueError(f"The table has no column {absent[0]!r}: it has {', '.join(table)}.")
        raw = {name: _as_numbers(table[name], name) for name in self.quantiles}
        codes = [self._codes(table[name], name) for name in self.categories]
        codes += [np.isnan(raw[name]).astype(np.int64) for name in self.flags]
        rows, features = {}, Features()
        if raw:
            scaled = [to_normal(raw[name], self.quantiles[name]) for name in raw]
            rows["numeric_values"] = np.stack(scaled, axis=1).astype(np.float32)
            features["numeric_values"] = LargeList(Value("float32"))
            gaps = sum(int(np.isnan(numbers).sum()) for numbers in raw.values())
            if gaps:
                logger.warning(f"{gaps:,} missing numbers in {len(table):,} rows are the middle.")
        if codes:
            rows["category_ids"] = np.stack(codes, axis=1)
            features["category_ids"] = LargeList(Value("int64"))
        if "label" in table:
            rows["labels"] = table["label"].to_numpy()
            if self.target_mean is not None:
                rows["labels"] = self.scale_target(rows["labels"])
            features["labels"] = Value("int64" if self.target_mean is None else "float32")
        return Dataset.from_dict(rows, features=features)

    def _codes(self, column: pd.Series, name: str) -> np.ndarray:
        numbers = {text: code for code, text in enumerate(self.categories[name], 1)}
        codes = _as_text(column).map(numbers).fillna(UNKNOWN).to_numpy(np.int64)
        if strange := int((codes == UNKNOWN).sum()):
            logger.warning(
                f"{strange:,} of {len(codes):,} rows have a {name!r} that training does not know."
            )
        return codes

    def scale_target(self, values: np.ndarray) -> np.ndarray:
        """Numbers of the target -> what a model is trained for."""
        mean, std = self._target_scale()
        return (np.asarray(values) - mean) / std

    def unscale_target(self, outputs: np.ndarray) -> np.ndarray:
        """Outputs of a model -> numbers of the target."""
        mean, std = self._target_scale()
        return np.asarray(outputs) * std + mean

    def _target_scale(self) -> tuple[float, float]:
        if self.target_mean is None or self.target_std is None:
            raise ValueError("This table has classes: there is no target to scale.")
        return self.target_mean, self.target_std

    def to_dict(self) -> dict:
        """For JSON; `TableEncoder(**...)` takes it back."""
        return asdict(self)


def to_normal(values: np.ndarray, quantiles: Sequence[float]) -> np.ndarray:
    """Numbers -> a normal distribution, by the quantiles of the training part; `nan` -> 0.

    As in scikit-learn's `QuantileTransformer`, a value that many rows share is in the middle of
    its ranks, and what lies beyond the ends is taken for the ends.

    >>> to_normal(np.array([1.0, 5.0, np.nan]), [0.0, 1.0, 2.0]).round(2).tolist()
    [0.0, 5.2, 0.0]
    """
    marks = np.asarray(quantiles)
    if marks[0] == marks[-1]:
        return np.zeros(len(values))
    ranks = np.linspace(0, 1, len(marks))
    low = np.interp(values, marks, ranks)
    high = 1 - np.interp(-values, -marks[::-1], ranks)
    return np.nan_to_num(ndtri(np.clip((low + high) / 2, _EDGE, 1 - _EDGE)))


def read_table_file(file: str, kind: str) -> pd.DataFrame:
    """The rows of one file as `load_table` reads them."""
    return _read_file(file, kind).apply(_join_kinds)


def _read_file(file: str, kind: str) -> pd.DataFrame:
    try:
        if kind == "parquet":
            table = pd.read_parquet(file)
        else:
            is_tabbed = file.lower().removesuffix(".gz").endswith(".tsv")
            # else a long column is read in pieces, each with a type of its own
            options = {"skipinitialspace": True, "low_memory": False}
            table = pd.read_csv(file, sep="\t" if is_tabbed else ",", **options)
    except Exception as error:
        # pandas, pyarrow and gzip have many words for the same thing
        text = " ".join(str(error).split())
        raise ValueError(f"{file} is no table that can be read: {text}") from error
    if table.empty:
        raise ValueError(f"{file} holds no rows.")
    return table


def _join_kinds(column: pd.Series) -> pd.Series:
    """A column that is numbers in one file and text in another as text; all others as they are."""
    if not types.is_object_dtype(column):
        return column
    seen = column.dropna()
    kinds = sorted(set(seen.map(_kind)))
    if len(kinds) < 2:
        return column
    if not set(kinds) <= {"bool", "number", "str"}:
        raise ValueError(
            f"Column {column.name!r} holds {' and '.join(kinds)}: numbers, text and truth values"
            " are accepted together."
        )
    return seen.map(_write).reindex(column.index)


def _kind(value) -> str:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return "number" if is_number else type(value).__name__


def _check_task(target: pd.Series, name: str, task: TableTask | None) -> TableTask:
    if task not in (None, "classification", "regression"):
        raise ValueError(f"task={task!r} was given: classification and regression are accepted.")
    is_number = _is_numeric(target, name)
    if task is None:
        if is_number and types.is_integer_dtype(target):
            raise ValueError(
                f"The target {name!r} holds whole numbers, which could be classes or amounts: say"
                " which with task='classification' or task='regression'."
            )
        task = "regression" if is_number else "classification"
    if task == "regression":
        if not is_number:
            raise ValueError(f"The target {name!r} holds text: a regression needs numbers.")
        _as_numbers(target, name)
    elif types.is_float_dtype(target) and (target % 1 != 0).any():
        raise ValueError(f"The target {name!r} holds numbers with a point: they are no classes.")
    return task


def _is_float(rows: Dataset) -> bool:
    return rows.features["label"].dtype.startswith("float")


def _is_numeric(column: pd.Series, name: str) -> bool:
    """Whether a column holds numbers; if not, it holds text or truth values."""
    if types.is_bool_dtype(column):
        return False
    if types.is_numeric_dtype(column):
        return True
    texts = column.dropna()
    if types.is_string_dtype(column) or texts.map(lambda v: isinstance(v, (str, bool))).all():
        return False
    if isinstance(column.dtype, pd.CategoricalDtype):
        return False
    raise ValueError(
        f"Column {name!r} holds {column.dtype}: numbers, text and truth values are accepted."
    )


def _as_numbers(column: pd.Series, name: str) -> np.ndarray:
    if not _is_numeric(column, name):
        wrong = column.dropna().iloc[0] if column.notna().any() else ""
        raise ValueError(f"Column {name!r} should hold numbers and has {wrong!r}.")
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    if np.isinf(numbers).any():
        raise ValueError(
            f"Column {name!r} is infinite in row {int(np.isinf(numbers).argmax()) + 1}."
        )
    return numbers


def _as_text(column: pd.Series) -> pd.Series:
    """Categories as text; missing ones have a name."""
    return column.astype(object).map(_write).where(column.notna(), MISSING)


def _write(value) -> str:
    """A value as text, whatever stands in other rows; 3.0 is 3, as a gap turns 3 into 3.0."""
    is_whole = isinstance(value, (float, np.floating)) and value.is_integer()
    return str(int(value) if is_whole else value)
