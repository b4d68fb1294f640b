"""Figures of devices, of processes that share sequences, and of lower precision."""

from ...tables import Row, find_rows
from .base import Measure, find, measure, ratio_of


def measure_devices(rows: list[Row]) -> list[Measure]:
    """Operations and waits of each family."""
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


def measure_parallel(rows: list[Row]) -> list[Measure]:
    """Memory, equality and bytes of processes that share a sequence."""
    long = find_rows(rows, task="long training step")
    name = f"one sequence of {long[0]['length'] if long else 0:,} tokens, training step"

    def excess() -> str:
        case = {"task": "long training step", "processes": 2}
        return f"{2 * ratio_of(rows, 'process_peak_mib', case, {**case, 'processes': 1}):.2f}"

    made = [
        measure(
            f"{name} on two processes: peak memory of each relative to half of one process",
            "≤ 1.2",
            "",
            excess,
        )
    ]
    for row in find_rows(rows, task="training step", status="ok"):
        if row["processes"] > 1:
            place = f"{row['network']}, one sequence on {row['processes']} processes"
            error = max(row["loss_error"], row["gradient_error"])
            share = row["sent_share"] / row["expected_share"]
            made += [
                measure(
                    f"{place}: largest error of loss and gradients",
                    "≤ 1e-6",
                    "",
                    lambda error=error: f"{error:.1g}",
                ),
                measure(
                    f"{place}: bytes sent relative to (1 + log2 P) / tracks of the activations",
                    "≤ 1.01",
                    "",
                    lambda share=share: f"{share:.3f}",
                ),
            ]
    return made


def measure_precision(rows: list[Row]) -> list[Measure]:
    """Speed of lower precision relative to float32, with what it does to accuracy."""
    made = []
    for row in rows:
        if row["precision"] == "float32":
            continue
        case = {"task": row["task"], "precision": row["precision"]}

        def describe(case=case) -> str:
            whole = {**case, "precision": "float32"}
            speed = ratio_of(rows, "median_s", whole, case)
            if case["task"] == "training":
                change = find(rows, **case)["loss"] - find(rows, **whole)["loss"]
                return f"{speed:.2f}, loss {change:+.4f}"
            found = [find(rows, **one)["genus_accuracy"] for one in (case, whole)]
            return f"{speed:.2f}, accuracy {found[0] - found[1]:+.4f}"

        name = f"{row['task']} on a CPU in {row['precision']}: speed relative to float32"
        made.append(measure(name, "", "", describe))
    return made
