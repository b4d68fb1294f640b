"""Tasks: synthetic ones and the Long Range Arena; generators, loaders, one registry."""

from .listops_trees import listops
from .pathfinder_images import pathfinder
from .registry import TASKS, load_arena_task, task_options
from .stored import write_task
from .synthetic import adding_problem, fixed_adding_problem, temporal_order
from .task import Task, TaskKind

__all__ = [
    "TASKS",
    "Task",
    "TaskKind",
    "adding_problem",
    "fixed_adding_problem",
    "listops",
    "load_arena_task",
    "pathfinder",
    "task_options",
    "temporal_order",
    "write_task",
]
