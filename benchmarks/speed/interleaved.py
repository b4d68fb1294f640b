"""Several configurations measured in turns, so that what disturbs the machine hits all alike."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .isolated import Built, Failure, Isolated, Limits


@dataclass(frozen=True)
class Case:
    """A configuration to measure: its columns in the table, and how its step is built."""

    labels: dict[str, Any]
    build: Callable[..., Built]
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Group:
    """Cases that are compared and so are measured in turns.

    A group may have repeats and a time limit of its own, instead of those of the command line.
    With no repeats at all (0), the first run is the only one, and its time counts.
    """

    cases: Sequence[Case]
    repeats: int | None = None
    time_limit: float | None = None

    def runs(self, default: int) -> int:
        """Repeats of this group where the command line says `default`."""
        return default if self.repeats is None else self.repeats


def compare_networks(
    names: Sequence[str], build: Callable[..., Built], seed: int, **labels: Any
) -> Group:
    """One case per network; the labels are arguments of `build` too."""
    return Group(
        [
            Case({"network": name, **labels}, build, {"name": name, "seed": seed, **labels})
            for name in names
        ]
    )


def measure_in_turns(
    group: Group,
    repeats: int,
    limits: Limits,
    threads: int | None = None,
    advance: Callable[[int], None] = lambda runs: None,
) -> list[dict[str, Any]]:
    """A row of results for each case of a group.

    Every case has a process, which first runs its step once to warm up; then all run once, in
    order, as often as there are repeats.

    Args:
        repeats, limits: For a group that has none of its own.
        advance: Is told of runs that are done, for a progress bar.
    """
    if group.time_limit is not None:
        limits = replace(limits, seconds=group.time_limit)
    runners = []
    try:
        for case in group.cases:
            runners.append(_Runner(case, limits, threads))
            runners[-1].warm_up()
            advance(1)
        for _ in range(group.runs(repeats)):
            for runner in runners:
                runner.repeat()
                advance(1)
        return [runner.row() for runner in runners]
    finally:
        for runner in runners:
            runner.close()


class _Runner:
    """One case, its process and its results."""

    def __init__(self, case: Case, limits: Limits, threads: int | None):
        self.case = case
        self.process = Isolated(case.build, case.arguments, limits, threads)
        self.facts: dict[str, Any] = {}
        self.runs: list[dict[str, Any]] = []
        self.failure: str | None = None

    def warm_up(self) -> None:
        self._guard(lambda: self.facts.update(self.process.facts()))
        self.repeat()

    def repeat(self) -> None:
        # a slow case is rather run less often than killed
        slow = self.runs and self.runs[-1]["seconds"] > self.process.seconds_left
        if self.failure is None and not slow:
            self._guard(lambda: self.runs.append(self.process.run()))

    def _guard(self, call: Callable[[], Any]) -> None:
        try:
            call()
        except Failure as failure:
            self.failure = str(failure)
            self.close()

    def close(self) -> None:
        self.process.close()

    def row(self) -> dict[str, Any]:
        """Labels, facts and results, in this order."""
        row: dict[str, Any] = {**self.case.labels, **self.facts}
        # the first run warms up, and counts only if there is no other
        counted = self.runs[1:] or self.runs
        seconds = [run["seconds"] for run in counted]
        peaks = [run["peak"] for run in self.runs if run["peak"] is not None]
        for name in counted[0].keys() - {"seconds", "peak"} if counted else ():
            row[name] = sum(run[name] for run in counted)
        row["repeats"] = max(0, len(self.runs) - 1)
        row["minimum_s"] = _round(min(seconds)) if seconds else None
        row["median_s"] = _round(statistics.median(seconds)) if seconds else None
        row["peak_mib"] = round(max(peaks) / 2**20, 1) if peaks else None
        row["status"] = self.failure or "ok"
        row["all_s"] = " ".join(str(_round(value)) for value in seconds)
        return row


def _round(seconds: float) -> float:
    return float(f"{seconds:.5g}")
