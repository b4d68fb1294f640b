"""Trainings whose results are recorded: runs them, and keeps the metrics of each as a JSON file.

    python -m benchmarks.trainings --list
    python -m benchmarks.trainings genes_random genes_species
    python -m benchmarks.trainings genus12_random --data folder/with/data

A run that was stopped goes on from its last checkpoint; one that is recorded is not run again
unless `--again` is given.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from ..tables import RESULTS
from .catalogue import EXPERIMENTS
from .experiment import Experiment

ROOT = Path(__file__).parents[2]
# memory that the C library keeps need not be faulted in again, which costs much of a training step
FAST_MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
}
# of the metrics that an example writes
OF_A_RUN = ("test", "validation", "history", "arena")
OF_ALL_RUNS = ("config", "parameters", "environment")


def run(name: str, data: Path | None, runs: Path, again: bool) -> None:
    """Run one experiment and record it."""
    experiment = EXPERIMENTS[name]
    target = RESULTS / f"{name}.json"
    if target.exists() and not again:
        print(f"{name} is recorded in {target.relative_to(ROOT)}: nothing to do", flush=True)
        return
    if experiment.needs_data and data is None:
        raise SystemExit(f"{name} reads data from a folder: give it with --data.")
    if experiment.needs and not (runs / experiment.needs / "model.safetensors").exists():
        raise SystemExit(f"{name} starts from the model of {experiment.needs}: run that first.")
    folder = runs / name
    if again:
        shutil.rmtree(folder, ignore_errors=True)
    arguments = [
        argument.replace("{data}", str(data)).replace("{runs}", str(runs))
        for argument in experiment.arguments
    ]
    record = {
        "script": f"examples/{experiment.script}.py",
        "arguments": experiment.arguments,
        "threads": os.environ.get("OMP_NUM_THREADS"),
        **run_seeds(experiment, arguments, folder),
    }
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"recorded in {target.relative_to(ROOT)}", flush=True)


def run_seeds(experiment: Experiment, arguments: list[str], folder: Path) -> dict:
    """The results of an experiment; those of several seeds are a list, with what they share."""
    if not experiment.seeds:
        return run_script(experiment.script, arguments, folder)
    made = [
        {
            "seed": seed,
            **run_script(
                experiment.script, [*arguments, "--seed", str(seed)], folder / f"seed_{seed}"
            ),
        }
        for seed in experiment.seeds
    ]
    shared = {key: made[0][key] for key in OF_ALL_RUNS}
    kept = ("seed", "seconds", "resumed", *OF_A_RUN)
    return shared | {"runs": [{key: one[key] for key in kept if key in one} for one in made]}


def run_script(script: str, arguments: list[str], folder: Path) -> dict:
    """Call an example, unless it has come to its end with these arguments; metrics and seconds."""
    done = folder / "recorded.json"
    if done.exists():
        earlier = json.loads(done.read_text(encoding="utf-8"))
        if earlier["arguments"] == arguments:
            return earlier["found"]
        raise SystemExit(f"{folder} holds a run with other arguments: --again runs it anew.")
    asked = arguments
    resumed = any(folder.glob("checkpoint-*"))
    if resumed:
        arguments = [*arguments, "--resume_from_checkpoint", "true"]
    command = [sys.executable, str(ROOT / "examples" / f"{script}.py"), *arguments]
    begin = time.time()
    subprocess.run(
        [*command, "--output_dir", str(folder)], env={**os.environ, **FAST_MALLOC}, check=True
    )
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    found = {key: metrics[key] for key in (*OF_A_RUN, *OF_ALL_RUNS) if key in metrics}
    # the seconds of what was done before a restart are not known
    found = {"seconds": round(time.time() - begin), "resumed": resumed, **found}
    done.write_text(json.dumps({"arguments": asked, "found": found}), encoding="utf-8")
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments, see --list")
    parser.add_argument("--list", action="store_true", help="show all experiments")
    parser.add_argument("--data", type=Path, help="folder of the data sets that are not embedded")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where models are written")
    parser.add_argument("--again", action="store_true", help="run even what is recorded, anew")
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
