"""Splits and subsets that keep classes in proportion."""

from collections.abc import Sequence

import numpy as np
from datasets import Dataset, DatasetDict
from transformers.utils import logging

from .classes import name_row, read_classes, read_column

logger = logging.get_logger(__name__)

PARTS = ("train", "validation", "test")
PART_NAMES = {
    **{"train": "train", "training": "train", "test": "test"},
    **{"val": "validation", "valid": "validation", "validation": "validation"},
    "dev": "validation",
}
_PASSES = 20
# more groups than these are placed once and not moved, as each weighs little
_MANY_GROUPS = 20_000
# cost of a class that is absent from train, above all that sizes can cost
_ABSENT = 1e3


def split_stratified(
    dataset: Dataset,
    fractions: Sequence[float] = (0.7, 0.15, 0.15),
    seed: int = 0,
    label_column: str | None = "label",
) -> DatasetDict:
    """Random parts `train`, `validation` and `test` in which every class has its share.

    Args:
        fractions: Shares of the three parts, or of `train` and `test` if there are two.
        label_column: Column of the classes; None looks at sizes only.

    Every class is in every part, so a class needs as many examples as there are parts.

    >>> dataset = Dataset.from_dict({"label": ["a"] * 20 + ["b"] * 40})
    >>> {name: len(part) for name, part in split_stratified(dataset).items()}
    {'train': 42, 'validation': 9, 'test': 9}
    """
    shares, parts = _check_fractions(fractions)
    return _select_parts(dataset, parts, _place_rows(dataset, shares, seed, label_column))


def draw_stratified(
    dataset: Dataset, fraction: float, seed: int = 0, label_column: str | None = "label"
) -> np.ndarray:
    """Which rows belong to a random share of every class, as booleans.

    >>> int(draw_stratified(Dataset.from_dict({"label": [0, 1] * 10}), 0.2).sum())
    4
    """
    shares = np.array([1 - fraction, fraction])
    return _place_rows(dataset, shares, seed, label_column) == 1


def _place_rows(
    dataset: Dataset, shares: np.ndarray, seed: int, label_column: str | None
) -> np.ndarray:
    """Number of the part of every row, given the shares of the parts."""
    classes, names = read_classes(dataset, label_column)
    generator = np.random.default_rng(seed)
    place = np.zeros(len(dataset), dtype=np.int64)
    # what the parts were denied by rounding, to be given with the next classes
    debt = np.zeros(len(shares))
    for number, name in enumerate(names):
        members = generator.permutation(np.flatnonzero(classes == number))
        if 0 < len(members) < len(shares):
            raise ValueError(
                f"Class {name!r} has {len(members)} examples, {name_row(dataset, members[0])}: a"
                f" stratified split in {len(shares)} parts needs at least {len(shares)}. Leave the"
                " class out, or name the parts in a column."
            )
        if len(members) == 0:
            continue
        sizes = _round_shares(shares * len(members), debt)
        debt += shares * len(members) - sizes
        place[members] = np.repeat(np.arange(len(shares)), sizes)
    return place


def split_by_group(
    dataset: Dataset,
    group_column: str,
    fractions: Sequence[float] = (0.7, 0.15, 0.15),
    seed: int = 0,
    label_column: str | None = "label",
) -> DatasetDict:
    """Parts of which no two share a group, such as a species, with classes near their shares.

    Large groups are placed first, each where it is needed most; then groups are moved as long as
    that brings the parts nearer to their shares. Classes with too few groups to be in every part
    are reported.

    Args:
        group_column: Column with the name of the group.
        label_column: Column of the classes; None looks at sizes only.

    >>> rows = {"species": list("aabbccddeeff"), "label": [0, 0, 1, 1] * 3}
    >>> parts = split_by_group(Dataset.from_dict(rows), "species", (0.34, 0.33, 0.33))
    >>> [len(set(part["species"])) for part in parts.values()]
    [2, 2, 2]
    """
    shares, parts = _check_fractions(fractions)
    values = read_column(dataset, group_column)
    for row, value in enumerate(values):
        if value is None or value == "":
            raise ValueError(f"{name_row(dataset, row)} has no group in {group_column!r}.")
    group_names, groups = np.unique(np.asarray(values), return_inverse=True)
    if len(group_names) < len(parts):
        raise ValueError(
            f"{group_column!r} has {len(group_names)} groups: a split in {len(parts)} parts needs"
            f" at least {len(parts)}."
        )
    place = _place_grouped_rows(dataset, groups, shares, parts, seed, label_column)
    return _select_parts(dataset, parts, place)


def draw_groups(
    dataset: Dataset,
    groups: np.ndarray,
    fraction: float,
    seed: int = 0,
    label_column: str | None = "label",
) -> np.ndarray:
    """Which rows belong to a share of the data that divides no group, as booleans.

    Args:
        groups: Group of every row, as numbers from 0.
    """
    if groups.max() == 0:
        raise ValueError("All rows are of one group: a part that shares no group needs another.")
    shares, parts = np.array([1 - fraction, fraction]), ["what remains", "the part drawn"]
    return _place_grouped_rows(dataset, groups, shares, parts, seed, label_column) == 1


def _place_grouped_rows(
    dataset: Dataset,
    groups: np.ndarray,
    shares: np.ndarray,
    parts: list[str],
    seed: int,
    label_column: str | None,
) -> np.ndarray:
    """Number of the part of every row; rows of one group have one part."""
    classes, names = read_classes(dataset, label_column)
    counts = np.zeros((int(groups.max()) + 1, len(names)))
    np.add.at(counts, (groups, classes), 1)
    place = _place_groups(counts, shares, np.random.default_rng(seed))
    _report_absent(counts, place, parts, names)
    return place[groups]


def split_by_column(dataset: Dataset, column: str) -> DatasetDict:
    """The parts that a column names: `train`, `val` or `validation`, `test`.

    >>> dataset = Dataset.from_dict({"split": ["train", "val", "train", "test"]})
    >>> {name: len(part) for name, part in split_by_column(dataset, "split").items()}
    {'train': 2, 'validation': 1, 'test': 1}
    """
    values = read_column(dataset, column)
    rows: dict[str, list[int]] = {part: [] for part in PARTS}
    for row, value in enumerate(values):
        part = PART_NAMES.get(str(value).lower())
        if part is None:
            raise ValueError(
                f"{name_row(dataset, row)} has {value!r} in {column!r}: train, val, validation and"
                " test are accepted."
            )
        rows[part].append(row)
    # in the order of the data set, which is quickest to read
    return DatasetDict({part: dataset.select(rows[part]) for part in PARTS if rows[part]})


def subset_stratified(
    dataset: Dataset, fraction: float, seed: int = 0, label_column: str | None = "label"
) -> Dataset:
    """A random share of every class, at least one example of each.

    With the same seed, a smaller subset is within a larger one.

    >>> len(subset_stratified(Dataset.from_dict({"label": [0] * 100 + [1] * 10}), 0.05))
    6
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction={fraction} was given: it is above 0 and at most 1.")
    classes, names = read_classes(dataset, label_column)
    generator, rows = np.random.default_rng(seed), []
    for number in range(len(names)):
        members = generator.permutation(np.flatnonzero(classes == number))
        if len(members):
            rows.append(members[: max(1, round(fraction * len(members)))])
    return dataset.select(np.sort(np.concatenate(rows)))


def _check_fractions(fractions: Sequence[float]) -> tuple[np.ndarray, list[str]]:
    shares = np.asarray(fractions, dtype=float)
    if len(shares) not in (2, 3) or (shares <= 0).any() or abs(shares.sum() - 1) > 1e-6:
        raise ValueError(
            f"fractions={tuple(fractions)} was given: three shares of train, validation and test,"
            " or two of train and test, above 0 and with sum 1, are accepted."
        )
    return shares, list(PARTS) if len(shares) == 3 else ["train", "test"]


def _round_shares(quotas: np.ndarray, debt: np.ndarray) -> np.ndarray:
    """Whole numbers with the sum of the quotas, at least 1 each, near quotas plus debt."""
    sizes = np.maximum(np.floor(quotas + 1e-9).astype(int), 1)
    missing = round(quotas.sum()) - sizes.sum()
    for _ in range(abs(missing)):
        lack = quotas + debt - sizes
        if missing < 0:
            lack[sizes == 1] = np.inf
        sizes[lack.argmax() if missing > 0 else lack.argmin()] += np.sign(missing)
    return sizes


def _place_groups(
    counts: np.ndarray, shares: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Part of every group, given counts `(groups, classes)`."""
    # a class weighs as much as all together, however small it is
    counts = np.concatenate([counts, counts.sum(1, keepdims=True)], axis=1)
    counts = counts / np.maximum(counts.sum(0), 1)
    target = shares[:, None] * (counts.sum(0) > 0)

    def costs(held: np.ndarray) -> np.ndarray:
        # relative to the share, so that a small part is not left without a class
        off = ((held - target) ** 2 / shares[:, None]).sum(-1)
        # what is not in train cannot be learnt
        off[0] += _ABSENT * ((held[0] < 1e-12) & (target[0] > 0)).sum()
        return off

    order = generator.permutation(len(counts))
    order = order[np.argsort(-counts[order].sum(1), kind="stable")]
    held = np.zeros_like(target)
    place = np.full(len(counts), -1)
    for _ in range(_PASSES if len(counts) <= _MANY_GROUPS else 1):
        moved = False
        for group in order:
            if place[group] >= 0:
                held[place[group]] -= counts[group]
            gain = costs(held) - costs(held + counts[group])
            best = int(gain.argmax())
            # a move must pay, or rounding would let groups walk for ever
            if place[group] < 0 or gain[best] > gain[place[group]] + 1e-12:
                place[group], moved = best, True
            held[place[group]] += counts[group]
        if not moved:
            break
    # every part has a group, even if one group is nearly all
    for part in range(len(shares)):
        if not (place == part).any():
            sizes = np.bincount(place, minlength=len(shares))
            donors = [group for group in order[::-1] if sizes[place[group]] > 1]
            place[donors[0]] = part
    return place


def _report_absent(counts: np.ndarray, place: np.ndarray, parts: list[str], names: list) -> None:
    for number, name in enumerate(names):
        absent = [
            part for index, part in enumerate(parts) if not counts[place == index, number].any()
        ]
        if absent and counts[:, number].any():
            groups = int((counts[:, number] > 0).sum())
            logger.warning(
                f"Class {name!r} is absent from {' and '.join(absent)}: it has {groups} groups."
            )


def _select_parts(dataset: Dataset, parts: list[str], place: np.ndarray) -> DatasetDict:
    return DatasetDict(
        {part: dataset.select(np.flatnonzero(place == number)) for number, part in enumerate(parts)}
    )
