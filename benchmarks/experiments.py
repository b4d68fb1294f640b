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
    """One call of an example.

    In its arguments `{data}` stands for the folder of data sets and `{runs}` for that of models.
    """

    script: str
    arguments: tuple[str, ...]

    @property
    def needs_data(self) -> bool:
        return any("{data}" in argument for argument in self.arguments)

    @property
    def needs(self) -> str | None:
        """The experiment whose model this one starts from."""
        starts = [a for a in self.arguments if a.startswith("{runs}/")]
        return starts[0].removeprefix("{runs}/") if starts else None


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

# what helps where species are new, judged on the validation part
EXPERIMENTS["choice_token_dropout"] = finetune(
    MEDIUM | {"rotation": "alternating"},
    *("--report_on", "validation", "--baselines", "none"),
    *("--split_column", "split_species", "--token_dropout", "0.15"),
    *("--num_train_epochs", "4", "--learning_rate", "4e-3", "--warmup_steps", "0.1"),
    *("--weight_decay", "0.01", "--train_token_budget", "8192"),
)

# the embedded genes: parts drawn at random, and parts that share no species
for split, column in (("random", "split"), ("species", "split_species")):
    EXPERIMENTS[f"genes_{split}"] = finetune(
        MEDIUM,
        *("--split_column", column),
        *("--num_train_epochs", "4", "--learning_rate", "4e-3", "--warmup_steps", "0.1"),
        *("--weight_decay", "0.01", "--train_token_budget", "8192"),
    )

# genes of twelve genera
for split, column in (("random", "split"), ("species", "split_species")):
    EXPERIMENTS[f"genus12_{split}"] = finetune(
        MEDIUM,
        *("--data", "{data}/dna_genus12/data.parquet"),
        *("--label_column", "genus", "--split_column", column),
        *("--num_train_epochs", "5", "--learning_rate", "4e-3", "--warmup_steps", "0.1"),
        *("--weight_decay", "0.01", "--train_token_budget", "8192"),
    )

# contigs of five species, 100 to 518,565 bases; those that lie on a training contig do not count
EXPERIMENTS["contigs5"] = finetune(
    {**SMALL, "pre_norm": "layer", "block_order": "mix_rotate"},
    *("--data", "{data}/dna_contigs5/data.parquet", "--label_column", "label"),
    *("--split_column", "split", "--score_column", "overlaps_train", "--class_weights", "true"),
    *("--num_train_epochs", "5", "--learning_rate", "4e-3", "--warmup_steps", "0.1"),
    *("--train_token_budget", "65536"),
)


def pretrain(settings: dict, *arguments: str) -> Experiment:
    """Masked language modelling on bacterial genomes, one of which is held out."""
    common = (
        *("--genomes", "{data}/dna_mlm_genomes/genomes.fa.gz", "--window", "100", "1500"),
        *("--learning_rate", "4e-3", "--train_token_budget", "8192"),
    )
    return Experiment("pretrain_mlm", ("--settings", json.dumps(settings), *common, *arguments))


# which rotation to choose, judged on a genome that is not the one held out below
for rotation in ("forward", "alternating"):
    EXPERIMENTS[f"rotation_{rotation}"] = pretrain(
        {**SMALL, "pre_norm": "layer", "block_order": "mix_rotate", "rotation": rotation},
        *("--held_out", "H_pylori_G27_1"),
        *("--num_windows", "13000", "--num_train_epochs", "1", "--num_eval_windows", "300"),
    )

# a genome of two chromosomes is held out
BOTH_WAYS = MEDIUM | {"rotation": "alternating", "max_position_embeddings": 16384}
EXPERIMENTS["mlm_genomes"] = pretrain(
    BOTH_WAYS,
    *("--held_out", "V_cholerae_N16961_1", "V_cholerae_N16961_2"),
    *("--num_windows", "26000", "--num_train_epochs", "4", "--num_eval_windows", "500"),
)

# all labels, from that model
for split, column in (("random", "split"), ("species", "split_species")):
    EXPERIMENTS[f"genes_pretrained_{split}"] = Experiment(
        "finetune_classification",
        (
            *("--checkpoint", "{runs}/mlm_genomes", "--split_column", column),
            *("--num_train_epochs", "4", "--learning_rate", "2e-3", "--warmup_steps", "0.1"),
            *("--weight_decay", "0.01", "--train_token_budget", "8192", "--baselines", "kmer"),
        ),
    )

# few labels: from that model, and from scratch with the same settings
for seed in ("1", "2", "3"):
    few = (
        *("--train_fraction", "0.05", "--seed", seed, "--baselines", "kmer"),
        *("--num_train_epochs", "15", "--train_token_budget", "8192", "--patience", "15"),
    )
    EXPERIMENTS[f"few_scratch_{seed}"] = finetune(BOTH_WAYS, *few)
    EXPERIMENTS[f"few_pretrained_{seed}"] = Experiment(
        "finetune_classification", ("--checkpoint", "{runs}/mlm_genomes", *few)
    )

# the adding problem; the longer one goes on from the shorter one, so both are built for its length
ADDING = {**SMALL, "max_position_embeddings": 31_800, "block_order": "rotate_mix"}
EXPERIMENTS["adding_200"] = Experiment(
    "adding_problem",
    (
        *("--base_length", "200", "--settings", json.dumps(ADDING)),
        *("--num_train_epochs", "4", "--train_token_budget", "16384"),
    ),
)
EXPERIMENTS["adding_1000"] = Experiment(
    "adding_problem",
    (
        *("--base_length", "1000", "--checkpoint", "{runs}/adding_200"),
        *("--num_train_epochs", "1", "--train_token_budget", "16384"),
    ),
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
    if experiment.needs and not (runs / experiment.needs / "model.safetensors").exists():
        raise SystemExit(f"{name} starts from the model of {experiment.needs}: run that first.")
    folder = runs / name
    arguments = [
        argument.replace("{data}", str(data)).replace("{runs}", str(runs))
        for argument in experiment.arguments
    ]
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
