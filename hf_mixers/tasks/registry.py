"""The tasks by name: adding one is a file and a line here."""

import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from . import variants
from .arena import documents, image, listops, pathfinder, retrieval, series, synthetic, text
from .stored import DESCRIPTION, read_description
from .task import Task, TaskKind

TASKS: dict[str, TaskKind] = {
    kind.name: kind
    for kind in (
        listops.TASK,
        text.TASK,
        retrieval.TASK,
        image.TASK,
        pathfinder.TASK,
        pathfinder.PATHX,
        documents.TASK,
        series.TASK,
        variants.TASK,
        synthetic.ADDING,
        synthetic.TEMPORAL_ORDER,
    )
}


def load_arena_task(name: str, path: str | os.PathLike | None = None, **options) -> Task:
    """A task by name, from files on disk; nothing is ever downloaded.

    Args:
        name: One of `TASKS`, such as `listops`.
        path: Official files or a copy of them; `TASKS[name].where` says where to get them. Without
            a path, tasks that can be made from a seed are.
        options: Those of the task, see `task_options`.

    >>> task = load_arena_task("pathfinder", num_train=8, num_validation=2, num_test=2)
    >>> {part: len(rows) for part, rows in task.parts.items()}, task.max_length
    ({'train': 8, 'validation': 2, 'test': 2}, 1024)
    """
    kind = find_task(name)
    function = kind.make if path is None else kind.load
    if function is None:
        raise ValueError(f"The task {name} cannot be made without files; {kind.where}")
    accepted = _accepted(function)
    unknown = sorted(options.keys() - accepted)
    if unknown:
        how = "made from a seed" if path is None else "read from files"
        raise ValueError(
            f"{', '.join(unknown)} was given for the task {name}, {how}: it accepts"
            f" {', '.join(sorted(accepted))}."
        )
    for option, value in options.items():
        options[option] = _fit_type(option, value, _hints(function)[option])
    task = function(**options) if path is None else function(path, **options)
    # a task that was made before is described by what it was made with, too
    stored = Path(path) / DESCRIPTION if path is not None else None
    made_with = read_description(stored.parent)["options"] if stored and stored.is_file() else {}
    return replace(task, options={**made_with, **options})


def find_task(name: str) -> TaskKind:
    """A task of the registry."""
    if name not in TASKS:
        raise ValueError(f"The task {name!r} was asked for: {', '.join(TASKS)} are known.")
    return TASKS[name]


def task_options(name: str, *, from_files: bool) -> dict[str, object]:
    """Options of a task and their defaults, as read from files or made from a seed."""
    kind = find_task(name)
    function = kind.load if from_files else kind.make
    if function is None:
        raise ValueError(f"The task {name} has no such options; {kind.where}")
    parameters = inspect.signature(function).parameters
    return {option: parameters[option].default for option in _accepted(function)}


def _hints(function: Callable[..., Task]) -> dict[str, Any]:
    """Types of the options of a function, which may have some of them set."""
    return get_type_hints(function.func if isinstance(function, partial) else function)


def _fit_type(name: str, value: Any, kind: Any) -> Any:
    """A value of an option as its type; an error if it has another one."""
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    kinds = tuple(type(None) if one is None else one for one in kinds)
    if get_origin(kinds[0]) is Literal or any(not isinstance(one, type) for one in kinds):
        # words, which the task checks
        return value
    if isinstance(value, float) and int in kinds and value.is_integer():
        value = int(value)
    accepted = (*kinds, int) if float in kinds else kinds
    if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in kinds):
        words = " or ".join("none" if one is type(None) else one.__name__ for one in kinds)
        raise ValueError(f"{name}={value!r} was given: {words} is accepted.")
    if name == "data_seed" and value < 0:
        raise ValueError(f"data_seed={value} was given: at least 0 is accepted.")
    return value


def _accepted(function: Callable[..., Task]) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    keywords = {one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}
    return keywords - {"name"}
