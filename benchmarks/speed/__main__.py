"""Speed and memory of hf_mixers, measured.

Every measurement runs in a process of its own, with limits of time and memory; configurations that
are compared run in turns. Results are a CSV per sub-command, with the machine and the settings in
a JSON beside it.
"""

import argparse
import sys

from tqdm.auto import tqdm

from ..tables import read_rows, write_environment, write_rows
from .commands import COMMANDS
from .interleaved import measure_in_turns
from .measures import make_measures
from .options import Options, add_options


def main(arguments: list[str] | None = None) -> None:
    given = make_parser().parse_args(arguments)
    options = Options.parse(given)
    for command in COMMANDS if given.command == "all" else [given.command]:
        run(command, options)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.speed", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="sub-command")
    for name, module in COMMANDS.items():
        add_options(_add_command(commands, name, module.__doc__))
    add_options(_add_command(commands, "all", "All measurements, one after the other."))
    return parser


def _add_command(commands, name: str, text: str) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=text.strip().splitlines()[0],
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run(command: str, options: Options) -> None:
    """Measure all groups of a sub-command, and write the table anew after each."""
    path = options.output / f"{command}.csv"
    # before the measurements, which would show in the load of the machine
    write_environment(path.with_suffix(".json"), options.seed, options.threads, options.describe())
    groups = COMMANDS[command].make_groups(options)
    runs = sum(len(group.cases) * (1 + group.runs(options.repeats)) for group in groups)
    rows = []
    with tqdm(total=runs, desc=command, unit="run") as bar:
        for group in groups:
            rows += measure_in_turns(
                group, options.repeats, options.limits, options.threads, bar.update
            )
            write_rows(path, rows)
    for measure in make_measures({command: read_rows(path)}):
        goals = {"goal": measure.must, "better": measure.aim}
        text = ", ".join(f"{name} {value}" for name, value in goals.items() if value)
        print(f"{measure.name}: {measure.value}{f' ({text})' if text else ''}")
    print(f"{path}: {sum(row['status'] == 'ok' for row in rows)} of {len(rows)} rows measured")


if __name__ == "__main__":
    main(sys.argv[1:])
