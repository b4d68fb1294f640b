"""The tasks by name: adding one is a file and a line here."""

import inspect
import os
from collections.abc import Callable

from . import variants
from .arena import documents, image, listops, pathfinder, retrieval, series, synthetic, text
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
    return function(**options) if path is None else function(path, **options)


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


def _accepted(function: Callable[..., Task]) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    keywords = {one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}
    return keywords - {"name"}
