"""Labelled time series of any lengths: `.ts` and `.npz` files, aeon; standardised by channel."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from datasets import Array2D, ClassLabel, Dataset, DatasetDict, Features, Value
from transformers.utils import logging

from .arrays import name_classes, read_npz, sort_names
from .ts_files import find_ts_pair, read_ts

logger = logging.get_logger(__name__)


def load_time_series(source: str | os.PathLike, name: str | None = None) -> DatasetDict:
    """Series with classes, in the official parts `train` and `test` where there are such.

    Columns are `input_values` `(L, F)` (`nan` where a value is missing), `label`, `length` and
    `id`.

    Args:
        source: `.ts` files of the UEA and UCR archives (a folder with `<name>_TRAIN.ts` and
            `<name>_TEST.ts`, or one of these; plain or gzipped), or an `.npz` file. That has arrays
            `x_train`, `y_train`, `x_test`, `y_test`, and `x_validation`, `y_validation` if there is
            such a part: `x` is `(N, L, F)`, `(N, L)`, or with `lengths_train` and so on all series
            end to end, `(T, F)`. Labels are text, or numbers that `class_names` may name. Several
            sets lie in one file with the prefix `<name>__`, see `_read_joined`.
        name: Which set, where the source has several.
    """
    path = os.fspath(source)
    if path.endswith(".npz"):
        return _read_npz(path, name)
    if not os.path.isdir(path) and not path.endswith((".ts", ".ts.gz")):
        raise ValueError(f"{path} is neither a folder nor a .ts or .npz file.")
    parts, announced = {}, None
    for part, file in find_ts_pair(path, name).items():
        series, labels, classes = read_ts(file)
        # the order is that of the training part
        if announced is not None and classes is not None and set(classes) != set(announced):
            raise ValueError(f"{file} has other classes than its training part.")
        announced = announced or classes
        parts[part] = (series, labels)
    return make_series_parts(parts, announced)


def load_aeon_series(name: str, folder: str | os.PathLike | None = None) -> DatasetDict:
    """A classification set of aeon by name, in its official parts; aeon may download it.

    Series keep their own lengths and missing values, as in the archive.
    """
    try:
        from aeon.datasets import load_classification
    except ImportError as error:
        raise ImportError("Sets by name need aeon: pip install aeon.") from error
    parts = {}
    for part in ("train", "test"):
        values, labels = load_classification(
            name,
            split=part,
            extract_path=None if folder is None else os.fspath(folder),
            load_equal_length=False,
            load_no_missing=False,
        )
        # channels come first there
        parts[part] = ([np.asarray(one).T for one in values], [str(label) for label in labels])
    return make_series_parts(parts)


def make_series_parts(
    parts: Mapping[str, tuple[Sequence[np.ndarray], Sequence[str]]],
    class_names: Sequence[str] | None = None,
) -> DatasetDict:
    """Series `(L, F)` and labels by part, as the data sets that `load_time_series` gives.

    >>> parts = make_series_parts({"train": ([np.zeros((3, 2)), np.ones((5, 2))], ["up", "down"])})
    >>> parts["train"]["length"][:], parts["train"].features["label"].names
    ([3, 5], ['down', 'up'])
    """
    if class_names is None:
        class_names = sort_names(label for _, labels in parts.values() for label in labels)
    first = next(iter(parts.values()))[0]
    if len(first) == 0:
        raise ValueError("A data set needs at least one series, got none.")
    num_channels = first[0].shape[-1]
    features = Features(
        input_values=Array2D((None, num_channels), "float32"),
        label=ClassLabel(names=[str(name) for name in class_names]),
        length=Value("int64"),
        id=Value("string"),
    )
    made = {}
    for part, (given, labels) in parts.items():
        # a value beyond what float32 holds becomes infinite
        with np.errstate(over="ignore"):
            series = [np.asarray(one, dtype=np.float32) for one in given]
        for number, one in enumerate(series):
            if one.ndim != 2 or one.shape[1] != num_channels or len(one) == 0:
                raise ValueError(
                    f"Series {number} of {part} has shape {one.shape}: (L, {num_channels}) with at"
                    " least one step is accepted."
                )
            if np.isinf(one).any():
                raise ValueError(
                    f"Series {number} of {part} holds an infinite value in step"
                    f" {int(np.isinf(one).any(1).argmax())}: numbers, and nan for missing ones, are"
                    " accepted."
                )
        rows = {
            "input_values": series,
            "label": [str(label) for label in labels],
            "length": [len(one) for one in series],
            "id": [f"{part}_{number}" for number in range(len(series))],
        }
        made[part] = Dataset.from_dict(rows, features=features)
    return DatasetDict(made)


@dataclass
class SeriesScaler:
    """Brings every channel to mean 0 and deviation 1 of the training part, and fills gaps.

    A missing value is drawn on a straight line between its neighbours in time, at the ends it is
    the nearest value, and in a channel without any value it is the mean. How many there are is
    reported.

    >>> parts = make_series_parts({"train": ([np.array([[1.0], [3.0]])], ["a"])})
    >>> scaler = SeriesScaler.fit(parts["train"])
    >>> scaler.apply(parts["train"])[0]["input_values"].tolist()
    [[-1.0], [1.0]]
    """

    mean: list[float]
    std: list[float]

    @classmethod
    def fit(cls, train: Dataset) -> "SeriesScaler":
        """Means and deviations of the channels over all steps that are not missing."""
        steps = np.concatenate(_arrays(train)).astype(np.float64)
        seen = ~np.isnan(steps)
        if not seen.any(0).all():
            empty = int((~seen.any(0)).argmax())
            raise ValueError(f"Channel {empty + 1} has no value in the training part.")
        mean, std = np.nanmean(steps, 0), np.nanstd(steps, 0)
        # a channel that never changes says nothing: it becomes 0, not infinite
        return cls(mean.tolist(), np.where(std > 0, std, 1.0).tolist())

    def apply(self, part: Dataset | DatasetDict) -> Dataset | DatasetDict:
        """Model inputs: `input_values`, `labels`, `length` and `id`."""
        if isinstance(part, DatasetDict):
            return DatasetDict({name: self.apply(one) for name, one in part.items()})
        series = _arrays(part)
        if series[0].shape[1] != len(self.mean):
            raise ValueError(
                f"The series have {series[0].shape[1]} channels: the scaler is for"
                f" {len(self.mean)}."
            )
        gaps = [int(np.isnan(one).sum()) for one in series]
        if any(gaps):
            logger.warning(
                f"{sum(gaps):,} missing values in {np.count_nonzero(gaps)} of {len(gaps)} series"
                " are filled."
            )
        rows = {
            "input_values": [self.scale(one) for one in series],
            "labels": part["label"][:],
            **{name: part[name][:] for name in ("length", "id")},
        }
        features = part.features.copy()
        features["labels"] = Value("int64")
        del features["label"]
        scaled = Dataset.from_dict(rows, features=features)
        return scaled.with_format("numpy", columns=["input_values"], output_all_columns=True)

    def scale(self, values: np.ndarray) -> np.ndarray:
        """One series `(L, F)`, scaled and without gaps, as float32."""
        scaled = (np.asarray(values, dtype=np.float64) - self.mean) / self.std
        for channel in scaled.T:
            gap = np.isnan(channel)
            if gap.all():
                channel[:] = 0
            elif gap.any():
                places = np.arange(len(channel))
                channel[gap] = np.interp(places[gap], places[~gap], channel[~gap])
        return scaled.astype(np.float32)

    def to_dict(self) -> dict:
        """For JSON; `SeriesScaler(**...)` takes it back."""
        return asdict(self)


def _arrays(part: Dataset) -> list[np.ndarray]:
    return [np.asarray(one) for one in part.with_format("numpy")["input_values"][:]]


def _read_npz(path: str, name: str | None) -> DatasetDict:
    arrays = read_npz(path)
    if any(key.endswith("__x") for key in arrays):
        arrays = _read_joined(path, arrays, name)
    elif name is not None:
        raise ValueError(f"{path} holds one set without a name, got name={name!r}.")
    names = arrays.get("class_names")
    parts = {}
    for part in ("train", "validation", "test"):
        if f"x_{part}" not in arrays:
            continue
        if f"y_{part}" not in arrays:
            raise ValueError(f"{path} has x_{part} without y_{part}.")
        series = _cut(path, part, arrays[f"x_{part}"], arrays.get(f"lengths_{part}"))
        labels = arrays[f"y_{part}"]
        if len(labels) != len(series):
            raise ValueError(f"{path} has {len(series)} series and {len(labels)} labels in {part}.")
        parts[part] = (series, name_classes(path, labels, names))
    if "train" not in parts:
        raise ValueError(f"{path} has no x_train and y_train: it has {', '.join(arrays)}.")
    try:
        return make_series_parts(parts, None if names is None else list(names))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _read_joined(path: str, arrays: dict, name: str | None) -> dict:
    """One of several sets: `<name>__x` `(T, F)`, `__lengths`, `__y`, `__n_train`, `__classes`.

    All series lie end to end; the first `n_train` are the training part.
    """
    names = [key.removesuffix("__x") for key in arrays if key.endswith("__x")]
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        raise ValueError(f"{path} has the sets {', '.join(names)}, got name={name!r}.")
    fields = ("x", "lengths", "y", "n_train", "classes")
    absent = [field for field in fields if f"{name}__{field}" not in arrays]
    if absent:
        raise ValueError(f"{path} has no {name}__{absent[0]}.")
    x, lengths, y, count, classes = (arrays[f"{name}__{field}"] for field in fields)
    count = int(count)
    steps = int(lengths[:count].sum())
    found = {"class_names": classes}
    for part, rows, places in (
        ("train", slice(None, count), slice(None, steps)),
        ("test", slice(count, None), slice(steps, None)),
    ):
        found |= {f"x_{part}": x[places], f"y_{part}": y[rows], f"lengths_{part}": lengths[rows]}
    return found


def _cut(path: str, part: str, x: np.ndarray, lengths: np.ndarray | None) -> list[np.ndarray]:
    """The series of an array: its rows, or the pieces that lengths name."""
    if x.dtype.kind not in "fiu":
        raise ValueError(f"{path} has {x.dtype} in x_{part}: numbers are accepted.")
    if lengths is not None:
        if x.ndim != 2 or lengths.min() < 1 or lengths.sum() != len(x):
            raise ValueError(
                f"{path} has lengths_{part} with sum {lengths.sum()} for x_{part} of shape"
                f" {x.shape}: x is (T, F) and T the sum of positive lengths."
            )
        return np.split(x, np.cumsum(lengths)[:-1])
    if x.ndim not in (2, 3):
        raise ValueError(
            f"{path} has x_{part} of shape {x.shape}: (N, L, F) or (N, L) is accepted."
        )
    return list(x if x.ndim == 3 else x[:, :, None])
