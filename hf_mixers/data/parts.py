"""The one way in which data are divided into parts for training, validation and test."""

from dataclasses import dataclass, field

import numpy as np
from datasets import Dataset, DatasetDict, concatenate_datasets
from transformers.utils import logging

from .groups import merge_groups, read_groups
from .identity import Identity, check_conflicts, find_identical
from .splits import PARTS, draw_groups, draw_stratified, split_by_column

logger = logging.get_logger(__name__)


@dataclass
class SplitOptions:
    """How data are divided into parts: the same rows whatever the seed of a run."""

    split_column: str | None = field(
        default=None, metadata={"help": "Column that names the part: train, val or test."}
    )
    group_column: str | None = field(
        default=None,
        metadata={"help": "Column of groups, such as species, that are never divided."},
    )
    group_pattern: str | None = field(
        default=None,
        metadata={"help": "Regular expression with one group that finds it in the description."},
    )
    group_table: str | None = field(default=None, metadata={"help": "TSV of id and group."})
    test_fraction: float = field(
        default=0.15, metadata={"help": "Share of the rows to draw if there is no test part."}
    )
    validation_fraction: float = field(
        default=0.15,
        metadata={
            "help": "Share of the rows to draw if there is no validation part; 0: none is drawn."
        },
    )
    split_seed: int = field(default=0, metadata={"help": "Seed of the parts that are drawn."})
    match_strands: bool = field(
        default=False,
        metadata={"help": "A sequence and its reverse complement count as identical."},
    )
    allow_conflicts: bool = field(
        default=False, metadata={"help": "Accept the same sequence under different labels."}
    )

    def __post_init__(self) -> None:
        sources = [name for name in GROUP_SOURCES if getattr(self, name) is not None]
        if len(sources) > 1:
            raise ValueError(f"Groups come from one source, got {' and '.join(sources)}.")
        if self.split_column is not None and sources:
            raise ValueError(f"split_column and {sources[0]} were given: one of them is accepted.")
        if not 0 < self.test_fraction < 1 or not 0 <= self.validation_fraction < 1:
            raise ValueError(
                f"test_fraction={self.test_fraction} and validation_fraction="
                f"{self.validation_fraction} were given: shares below 1 are accepted."
            )
        if self.test_fraction + self.validation_fraction >= 1:
            raise ValueError("test_fraction and validation_fraction leave nothing to train on.")

    @property
    def has_groups(self) -> bool:
        return any(getattr(self, name) is not None for name in GROUP_SOURCES)


GROUP_SOURCES = ("group_column", "group_pattern", "group_table")


def make_parts(
    data: Dataset | DatasetDict,
    options: SplitOptions | None = None,
    label_column: str | None = "label",
    *,
    required: str = "train",
) -> DatasetDict:
    """Parts `train`, `validation` and `test`; those that are missing are drawn from `train`.

    Identical sequences lie in one part, and so does a group: where parts are drawn they are drawn
    together, and where parts are given, rows of `train` whose sequence or group is in `validation`
    or `test`, and rows of `validation` that share them with `test`, are left out and counted. Rows
    without a column `sequence` are compared by their groups alone.

    Args:
        data: All rows, or the parts that the data come in.
        label_column: Classes to keep in proportion; None looks at sizes only.
        required: A part that must be there, such as the one that results are reported on.

    >>> rows = {"sequence": ["ACGT" * n for n in range(1, 41)], "label": [0, 1] * 20}
    >>> {name: len(part) for name, part in make_parts(Dataset.from_dict(rows)).items()}
    {'train': 28, 'validation': 6, 'test': 6}
    """
    options = options or SplitOptions()
    parts = _find_parts(data, options)
    divisions = _divide(parts, options, label_column)
    if label_column is not None and not _has_classes(parts["train"], label_column):
        label_column = None
    for name in ("validation", "train"):
        if name in parts:
            _leave_out_shared(parts, divisions, name)
    pool = len(parts["train"])
    for name in ("test", "validation"):
        fraction = getattr(options, f"{name}_fraction")
        if name not in parts and fraction > 0:
            _draw_part(parts, divisions, name, fraction * pool, options.split_seed, label_column)
    if required not in parts:
        raise ValueError(f"There is no {required} part: there are {' and '.join(parts)}.")
    return DatasetDict({name: parts[name] for name in PARTS if name in parts})


def _find_parts(data: Dataset | DatasetDict, options: SplitOptions) -> dict[str, Dataset]:
    if isinstance(data, DatasetDict):
        unknown = [name for name in data if name not in PARTS]
        if unknown:
            raise ValueError(f"Parts are {', '.join(PARTS)}, got {unknown[0]!r}.")
        if options.split_column is not None and set(data) != {"train"}:
            raise ValueError(
                f"split_column={options.split_column!r} was given for data that come in the parts"
                f" {', '.join(data)}."
            )
    elif options.split_column is None:
        data = DatasetDict(train=data)
    if options.split_column is not None:
        rows = data["train"] if isinstance(data, DatasetDict) else data
        data = split_by_column(rows, options.split_column)
    if "train" not in data:
        raise ValueError(f"There are no rows to train on, only for {' and '.join(data)}.")
    return {name: data[name] for name in PARTS if name in data}


def _has_classes(dataset: Dataset, column: str) -> bool:
    kind = getattr(dataset.features.get(column), "dtype", None)
    return kind is not None and "float" not in kind


# what rows may share, and by part the number of it for every row
Divisions = dict[str, dict[str, np.ndarray]]


def _divide(
    parts: dict[str, Dataset], options: SplitOptions, label_column: str | None
) -> Divisions:
    """Which rows of all parts have the same sequence, and which are of one group."""
    found: dict[str, np.ndarray] = {}
    if all("sequence" in part.column_names for part in parts.values()):
        found["sequence"] = _identify(parts, options, label_column).units
    if options.has_groups:
        source = [getattr(options, name) for name in GROUP_SOURCES]
        names = [group for part in parts.values() for group in read_groups(part, *source)]
        found["group"] = np.unique(np.asarray(names), return_inverse=True)[1]
    ends = np.cumsum([len(part) for part in parts.values()])[:-1]
    return {
        what: dict(zip(parts, np.split(numbers, ends), strict=True))
        for what, numbers in found.items()
    }


def _identify(
    parts: dict[str, Dataset], options: SplitOptions, label_column: str | None
) -> Identity:
    """The distinct sequences of all parts; their copies are reported."""
    rows = concatenate_datasets(list(parts.values())) if len(parts) > 1 else parts["train"]
    identity = find_identical(rows, match_strands=options.match_strands)
    strands = " or its reverse complement" if options.match_strands else ""
    logger.info(
        f"{identity.copies:,} of {len(rows):,} sequences are copies of another{strands};"
        " copies are kept in one part."
    )
    # the same sequence may have been measured twice, but is of one class
    feature = rows.features.get(label_column) if label_column is not None else None
    if feature is not None and "float" not in getattr(feature, "dtype", ""):
        check_conflicts(rows, identity, label_column, options.allow_conflicts)
    return identity


def _leave_out_shared(parts: dict[str, Dataset], divisions: Divisions, name: str) -> None:
    """Leave out rows of a part whose sequence or group is in a part that comes after it."""
    later = [other for other in PARTS[PARTS.index(name) + 1 :] if other in parts]
    for what, numbers in divisions.items():
        if not later or not len(parts[name]):
            continue
        elsewhere = np.concatenate([numbers[other] for other in later])
        is_shared = np.isin(numbers[name], elsewhere)
        if is_shared.all():
            raise ValueError(
                f"Every {what} of the {name} part is in {' or '.join(later)} too: nothing is left."
            )
        if is_shared.any():
            logger.warning(
                f"{is_shared.sum():,} of {len(is_shared):,} rows of the {name} part are left out:"
                f" their {what} is in {' or '.join(later)} too."
            )
            _keep_rows(parts, divisions, name, np.flatnonzero(~is_shared))


def _keep_rows(
    parts: dict[str, Dataset], divisions: Divisions, name: str, rows: np.ndarray
) -> None:
    parts[name] = parts[name].select(rows)
    for numbers in divisions.values():
        numbers[name] = numbers[name][rows]


def _draw_part(
    parts: dict[str, Dataset],
    divisions: Divisions,
    name: str,
    count: float,
    seed: int,
    label_column: str | None,
) -> None:
    """Move about `count` rows of the training part to a new part."""
    rows = parts["train"]
    units, groups = (
        divisions[what]["train"] if what in divisions else None for what in ("sequence", "group")
    )
    is_drawn = _draw(rows, count / len(rows), seed, label_column, units, groups)
    logger.info(f"The data have no {name} part: {is_drawn.sum():,} rows are drawn for it.")
    parts[name] = rows.select(np.flatnonzero(is_drawn))
    _keep_rows(parts, divisions, "train", np.flatnonzero(~is_drawn))


def _draw(
    rows: Dataset,
    fraction: float,
    seed: int,
    label_column: str | None,
    units: np.ndarray | None,
    groups: np.ndarray | None,
) -> np.ndarray:
    """Which rows are drawn; rows of one group or with one sequence go together."""
    if groups is not None:
        groups = np.unique(groups, return_inverse=True)[1]
        if units is not None:
            groups = merge_groups(groups, units)
        return draw_groups(rows, groups, fraction, seed, label_column)
    if units is None or len(np.unique(units)) == len(units):
        return draw_stratified(rows, fraction, seed, label_column)
    first, inverse = np.unique(units, return_index=True, return_inverse=True)[1:]
    return draw_stratified(rows.select(first), fraction, seed, label_column)[inverse]
