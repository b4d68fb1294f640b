"""Options that every measuring sub-command has."""

import argparse
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ..tables import RESULTS
from .isolated import Limits


@dataclass(frozen=True)
class Options:
    """The command line of a measurement."""

    smoke: bool = False
    repeats: int = 5
    seed: int = 0
    threads: int | None = None
    time_limit: float = 600.0
    memory_limit: float = 20.0
    output: Path = RESULTS

    @property
    def limits(self) -> Limits:
        return Limits(self.time_limit, self.memory_limit)

    def describe(self) -> dict:
        """The settings that results depend on."""
        return {name: value for name, value in asdict(self).items() if name != "output"}

    @classmethod
    def parse(cls, given: argparse.Namespace) -> "Options":
        """Options as given; those of a smoke run never touch the results that are published."""
        defaults = {"repeats": 1, "output": Path("runs/benchmarks")} if given.smoke else {}
        values = {
            field.name: value
            for field in fields(cls)
            if (value := getattr(given, field.name)) is not None
        }
        return cls(**{**defaults, **values})


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of `Options`, without defaults, which `Options.parse` knows."""
    parser.add_argument(
        "--smoke", action="store_true", help="tiny sizes, to see that it works; into runs/"
    )
    parser.add_argument("--repeats", type=int, help="runs after the first, which warms up [5]")
    parser.add_argument("--seed", type=int, help="of weights and inputs [0]")
    parser.add_argument("--threads", type=int, help="of torch [as the environment says]")
    parser.add_argument(
        "--time-limit", type=float, help="seconds for all runs of one configuration [600]"
    )
    parser.add_argument("--memory-limit", type=float, help="GiB for one configuration [20]")
    parser.add_argument("--output", type=Path, help="folder of the CSV [benchmarks/results]")
