"""Accelerators and several processes."""

from ...tables import Row
from .base import Measure, find, measure


def measure_devices(rows: list[Row]) -> list[Measure]:
    goals = {"chordmixer": ("block", "≤ 30"), "paramixer": ("factor", "≤ 40")}
    made = []
    for network in dict.fromkeys(row["network"] for row in rows):
        part, goal = goals.get(network, ("block", ""))
        case = (rows, network)

        def count(column: str, case=case) -> str:
            return f"{find(case[0], network=case[1])[column]:g}"

        name = f"{network}, training step on an accelerator"
        made += [
            measure(
                f"{name}: operations per {part}",
                goal,
                "",
                lambda count=count: count("operations_per_part"),
            ),
            measure(f"{name}: waits of the host", "≤ 1", "", lambda count=count: count("waits")),
            measure(
                f"{name}: waits without checks, boundaries on the host",
                "0",
                "",
                lambda count=count: count("waits_without_checks"),
            ),
        ]
    return made
