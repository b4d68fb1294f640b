"""Trainings whose results are recorded: what each runs, and its metrics as one JSON file.

    python -m benchmarks.experiments --list
    python -m benchmarks.experiments genes_random genes_species
    python -m benchmarks.experiments genus12_random --data folder/with/data

A run that was stopped goes on from its last checkpoint; one that is recorded is not run again
unless `--again` is given.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
# memory that the C library keeps need not be faulted in again, which costs much of a training step
FAST_MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
}


@dataclass(frozen=True)
class Experiment:
    """One call of an example; `{data}` in its arguments stands for the folder given."""

    script: str
    arguments: tuple[str, ...]

    @property
    def needs_data(self) -> bool:
        return any("{data}" in argument for argument in self.arguments)


def finetune(settings: dict, *arguments: str) -> Experiment:
    return Experiment("finetune_classification", ("--settings", json.dumps(settings), *arguments))


# of the models: chosen on validation parts
SMALL = {"track_size": 8, "intermediate_size": 64}
MEDIUM = {"track_size": 12, "intermediate_size": 96, "pre_norm": "layer"}
MEDIUM |= {"block_order": "mix_rotate"}

EXPERIMENTS: dict[str, Experiment] = {}

# which order and norm to choose: everything else equal, judged on the validation part
for order in ("rotate_mix", "mix_rotate"):
    for norm in ("none", "layer", "batch", "group"):
        EXPERIMENTS[f"blocks_{order}_{norm}"] = finetune(
            SMALL | {"block_order": order, "pre_norm": norm},
            *("--report_on", "validation", "--baselines", "none"),
            *("--num_train_epochs", "1", "--train_token_budget", "8192"),
        )

# the embedded genes: parts drawn at random, and parts that share no species
for split, column in (("random", "split"), ("species", "split_species")):
    EXPERIMENTS[f"genes_{split}"] = finetune(
        MEDIUM,
        *("--split_column", column),
        *("--num_train_epochs", "4", "--learning_rate", "4e-3", "--warmup_steps", "0.1"),
        *("--weight_decay", "0.01", "--train_token_budget", "8192"),
    )


def run(name: str, data: Path | None, runs: Path, again: bool) -> None:
    """Run one experiment and record it."""
    experiment = EXPERIMENTS[name]
    target = RESULTS / f"{name}.json"
    if target.exists() and not again:
        print(f"{name} is recorded in {target.relative_to(ROOT)}: nothing to do", flush=True)
        return
    if experiment.needs_data and data is None:
        raise SystemExit(f"{name} reads data from a folder: give it with --data.")
    folder = runs / name
    arguments = [argument.replace("{data}", str(data)) for argument in experiment.arguments]
    if any(folder.glob("checkpoint-*")):
        arguments += ["--resume_from_checkpoint", "true"]
    command = [sys.executable, str(ROOT / "examples" / f"{experiment.script}.py")]
    begin = time.time()
    subprocess.run(
        [*command, *arguments, "--output_dir", str(folder)],
        env={**os.environ, **FAST_MALLOC},
        check=True,
    )
    metrics = json.loads((folder / "metrics.json").read_text())
    kept = ("test", "validation", "history", "config", "parameters", "environment")
    record = {
        "script": f"examples/{experiment.script}.py",
        "arguments": experiment.arguments,
        "seconds": round(time.time() - begin),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        **{key: metrics[key] for key in kept if key in metrics},
    }
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"recorded in {target.relative_to(ROOT)}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments, see --list")
    parser.add_argument("--list", action="store_true", help="show all experiments")
    parser.add_argument("--data", type=Path, help="folder of the data sets that are not embedded")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where models are written")
    parser.add_argument("--again", action="store_true", help="run even what is recorded")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in EXPERIMENTS]
    if unknown:
        raise SystemExit(f"There is no experiment {unknown[0]!r}: see --list.")
    if options.list or not options.names:
        for name, experiment in EXPERIMENTS.items():
            print(f"{name}: {experiment.script} {' '.join(experiment.arguments)}")
        return
    for name in options.names:
        run(name, options.data, options.runs, options.again)


if __name__ == "__main__":
    main()
