"""Adding and temporal order as tasks, made from a seed."""

from ..batches import Padding
from ..rows import TaskRows
from ..stored import load_stored, split_rows
from ..synthetic import ADDING_CAPS, adding_problem, fixed_adding_problem, temporal_order
from ..task import Task, TaskKind

_WHERE = "it is made from a seed if no path is given, and read from a folder of write_task."
ORDERS = ("XX", "XY", "YX", "YY")
_ORDER_VOCABULARY = 6
# base lengths of which the published data have fewer examples
_LONG = 128_000


def make_adding(
    *,
    base_length: int = 200,
    length: int | None = None,
    longest: int | None = None,
    num_train: int | None = None,
    num_validation: int | None = None,
    num_test: int | None = None,
    data_seed: int = 0,
    padding: Padding = "none",
) -> Task:
    """The adding problem: of very different lengths around `base_length`, or all of `length`.

    Parts that are not given have the published sizes: 50,000, 5,000 and 5,000 examples, a fifth of
    these for `base_length=128000`, and 100,000, 1,000 and 1,000 of one length.
    """
    usual = (50_000, 5_000, 5_000) if base_length < _LONG else (10_000, 1_000, 1_000)
    if length is not None:
        usual = (100_000, 1_000, 1_000)
    given = (num_train, num_validation, num_test)
    sizes = tuple(u if g is None else g for u, g in zip(usual, given, strict=True))
    if length is not None:
        rows = fixed_adding_problem(sum(sizes), length, seed=data_seed)
    else:
        rows = adding_problem(sum(sizes), base_length, longest, seed=data_seed)
    return _describe_adding(split_rows(rows, *sizes), rows.longest, padding)


def load_adding(path, *, padding: Padding = "none") -> Task:
    """The adding problem from a folder of `write_task`."""
    parts = _load("adding", path)
    return _describe_adding(parts, _longest(parts), padding)


def _describe_adding(parts: dict[str, TaskRows], longest: int, padding: Padding) -> Task:
    return Task(
        "adding",
        parts,
        inputs="values",
        input_features=2,
        max_length=longest,
        metric="within_tolerance",
        padding=padding,
    )


def make_temporal_order(
    *,
    length: int = 1024,
    num_train: int = 100_000,
    num_validation: int = 1_000,
    num_test: int = 1_000,
    data_seed: int = 0,
    padding: Padding = "none",
) -> Task:
    """The temporal order problem at one length."""
    count = num_train + num_validation + num_test
    rows = temporal_order(count, length, seed=data_seed)
    parts = split_rows(rows, num_train, num_validation, num_test)
    return _describe_order(parts, length, padding)


def load_temporal_order(path, *, padding: Padding = "none") -> Task:
    """The temporal order problem from a folder of `write_task`."""
    parts = _load("temporal_order", path)
    return _describe_order(parts, _longest(parts), padding)


def _describe_order(parts: dict[str, TaskRows], longest: int, padding: Padding) -> Task:
    return Task(
        "temporal_order",
        parts,
        inputs="ids",
        vocab_size=_ORDER_VOCABULARY + 2,
        pad_token_id=_ORDER_VOCABULARY,
        mask_token_id=_ORDER_VOCABULARY + 1,
        maskable_ids=tuple(range(_ORDER_VOCABULARY)),
        max_length=longest,
        class_names=ORDERS,
        padding=padding,
    )


def _load(name: str, path) -> dict[str, TaskRows]:
    from ..sources import find_path

    parts = load_stored(find_path(path, f"{name}: {_WHERE}"), name)
    if parts is None:
        raise ValueError(f"{path} holds no stored task; {name}: {_WHERE}")
    return parts


def _longest(parts: dict[str, TaskRows]) -> int:
    return max(int(part.lengths.max()) for part in parts.values())


ADDING = TaskKind(
    "adding",
    f"sum of two marked numbers, base lengths {', '.join(map(str, ADDING_CAPS))}",
    _WHERE,
    load=load_adding,
    make=make_adding,
)
TEMPORAL_ORDER = TaskKind(
    "temporal_order",
    "order of two symbols among others, 4 classes",
    _WHERE,
    load=load_temporal_order,
    make=make_temporal_order,
)
