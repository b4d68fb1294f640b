"""How fast examples of the arena's generated tasks are made, in one process.

ListOps of the arena's lengths (500 to 2,000) and of 100 to 500 symbols, Pathfinder at 32 x 32
pixels in three difficulties; `examples` of each, the seed changes with every repeat.
"""

from collections.abc import Callable

from hf_mixers.tasks.listops_trees import listops
from hf_mixers.tasks.pathfinder_images import pathfinder

from ..interleaved import Case, Group
from ..isolated import Built
from ..options import Options

GENERATORS: dict[str, Callable] = {
    "listops": lambda count, seed: listops(count, seed=seed),
    "listops, 100 to 500": lambda count, seed: listops(count, 100, 500, seed=seed),
    **{
        f"pathfinder, {difficulty}": lambda count, seed, difficulty=difficulty: pathfinder(
            count, 32, difficulty, seed=seed
        )
        for difficulty in ("easy", "intermediate", "hard")
    },
}


def make_groups(options: Options) -> list[Group]:
    count = 5 if options.smoke else 500
    arguments = {"count": count, "seed": options.seed}
    return [
        Group([Case({"network": name, "examples": count}, build, {"name": name, **arguments})])
        for name in GENERATORS
    ]


def build(name: str, count: int, seed: int) -> Built:
    """Drawing of examples that were not drawn before."""
    drawn = 0

    def step() -> None:
        nonlocal drawn
        rows = GENERATORS[name](count, seed + drawn)
        drawn += 1
        for number in range(count):
            rows[number]

    return Built(step, {})
