"""Tasks: synthetic ones and the Long Range Arena."""

from .listops_trees import listops
from .pathfinder_images import pathfinder
from .synthetic import adding_problem, fixed_adding_problem, temporal_order

__all__ = ["adding_problem", "fixed_adding_problem", "listops", "pathfinder", "temporal_order"]
