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
) -> DatasetDict:
    """Parts `train`, `validation` and `test`; those that are missing are drawn from `train`.

    Identical sequences lie in one part: where parts are drawn they are drawn together, and where
    they are given, training rows whose sequence is in another part are left out and counted. A
    group lies in one part as well. Rows without a column `sequence` are compared by nothing.

    Args:
        data: All rows, or the parts that the data come in.
        label_column: Classes to keep in proportion; None looks at sizes only.

    >>> rows = {"sequence": ["ACGT" * n for n in range(1, 41)], "label": [0, 1] * 20}
    >>> {name: len(part) for name, part in make_parts(Dataset.from_dict(rows)).items()}
    {'train': 28, 'validation': 6, 'test': 6}
    """
    options = options or SplitOptions()
    parts = _find_parts(data, options)
    if "train" not in parts:
        raise ValueError(f"There are no rows to train on, only for {' and '.join(parts)}.")
    is_classes = label_column is not None and _has_classes(parts["train"], label_column)
    identity = _identify(parts, options, label_column if is_classes else None)
    rows, units, groups = parts["train"], None, None
    if identity is not None:
        units = identity.units[: len(rows)]
    if options.has_groups:
        names = read_groups(rows, *(getattr(options, name) for name in GROUP_SOURCES))
        groups = np.unique(np.asarray(names), return_inverse=True)[1]
    if identity is not None and len(parts) > 1:
        kept = _leave_out_copies(identity, len(rows))
        rows, units = rows.select(kept), identity.units[kept]
        groups = groups if groups is None else groups[kept]
    labels, pool = label_column if is_classes else None, len(rows)
    for name in ("test", "validation"):
        fraction = getattr(options, f"{name}_fraction")
        if name in parts or fraction == 0:
            continue
        share = fraction * pool / len(rows)
        is_drawn = _draw(rows, share, options.split_seed, labels, units, groups)
        logger.info(f"The data have no {name} part: {is_drawn.sum():,} rows are drawn for it.")
        parts[name] = rows.select(np.flatnonzero(is_drawn))
        kept = np.flatnonzero(~is_drawn)
        rows = rows.select(kept)
        units, groups = (one if one is None else one[kept] for one in (units, groups))
    parts["train"] = rows
    return DatasetDict({name: parts[name] for name in PARTS if name in parts})


def _find_parts(data: Dataset | DatasetDict, options: SplitOptions) -> dict[str, Dataset]:
    if isinstance(data, DatasetDict):
        if options.split_column is not None and set(data) != {"train"}:
            raise ValueError(
                f"split_column={options.split_column!r} was given for data that come in the parts"
                f" {', '.join(data)}."
            )
        if options.split_column is None:
            return dict(data)
        data = data["train"]
    if options.split_column is None:
        return {"train": data}
    return dict(split_by_column(data, options.split_column))


def _has_classes(dataset: Dataset, column: str) -> bool:
    kind = getattr(dataset.features.get(column), "dtype", None)
    return kind is not None and "float" not in kind


def _identify(
    parts: dict[str, Dataset], options: SplitOptions, label_column: str | None
) -> Identity | None:
    """The distinct sequences of all parts, the training part first; their copies are reported."""
    if "sequence" not in parts["train"].column_names:
        return None
    ordered = [parts["train"], *(parts[name] for name in PARTS[1:] if name in parts)]
    rows = concatenate_datasets(ordered) if len(ordered) > 1 else ordered[0]
    identity = find_identical(rows, match_strands=options.match_strands)
    strands = " or its reverse complement" if options.match_strands else ""
    logger.info(
        f"{identity.copies:,} of {len(rows):,} sequences are copies of another{strands};"
        " copies are kept in one part."
    )
    if label_column is not None:
        check_conflicts(rows, identity, label_column, options.allow_conflicts)
    return identity


def _leave_out_copies(identity: Identity, num_train: int) -> np.ndarray:
    """Training rows whose sequence is in no other part; the others are reported."""
    elsewhere = np.unique(identity.units[num_train:])
    is_copy = np.isin(identity.units[:num_train], elsewhere)
    if is_copy.any():
        logger.warning(
            f"{is_copy.sum():,} of {num_train:,} training rows are left out: their sequence is in"
            " another part too."
        )
    if is_copy.all():
        raise ValueError("Every training sequence is in another part too: nothing is left.")
    return np.flatnonzero(~is_copy)


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
        if units is not None:
            groups = merge_groups(groups, units)
        return draw_groups(rows, groups, fraction, seed, label_column)
    if units is None or len(np.unique(units)) == len(units):
        return draw_stratified(rows, fraction, seed, label_column)
    first, inverse = np.unique(units, return_index=True, return_inverse=True)[1:]
    return draw_stratified(rows.select(first), fraction, seed, label_column)[inverse]
