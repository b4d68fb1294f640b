"""The table of `examples/README.md`: what a run of each script costs and gives."""

import json
from pathlib import Path

from ..tables import make_table
from .tables import Record, read_records

# script -> record of a run of it, what was run, and the metric that is shown
SHOWN = {
    "finetune_classification.py": (
        *("genes_random", "embedded genes, parts drawn at random", "accuracy"),
    ),
    "pretrain_mlm.py": ("mlm_genomes", "bacterial genomes, one species held out", "accuracy"),
    "time_series.py": ("vowels_mrs_softmax", "embedded vowels", "accuracy"),
    "tabular.py": ("california_mrs", "California housing", "rmse"),
    "image_sequence.py": ("mnist_mrs", "10,000 digits of MNIST", "accuracy"),
    "adding_problem.py": ("adding_200", "base length 200", "within_tolerance"),
    "fixed_length_tasks.py": (
        *("paramixer_temporal_order_512", "temporal order, 512 tokens", "accuracy"),
    ),
}


def make_examples_section(folder: Path) -> str:
    """A row per script that has a recorded run."""
    records = read_records(folder)
    rows = [
        [f"`{script}`", what, *_figures(records[name], metric), f"`{name}`"]
        for script, (name, what, metric) in SHOWN.items()
        if name in records
    ]
    demo = folder / "demo.json"
    if demo.is_file():
        rows.insert(
            0,
            [
                "`make demo`",
                "embedded genes, split by species",
                *_demo(json.loads(demo.read_text())),
                "",
            ],
        )
    header = ["script", "data", "parameters", "time", "result on the test part", "recorded as"]
    return make_table(header, rows)


def _figures(record: Record, metric: str) -> list[str]:
    """Parameters, time and result; the first of several seeds."""
    run = record["runs"][0] if "runs" in record else record
    threads = record["environment"]["machine"]["threads"]
    report = run["test"]["model"]
    score = report["overall"][metric]["value"] if "overall" in report else report[metric]
    return [
        f"{record['parameters'] / 1e6:.2f} M",
        f"{_duration(run['seconds'])}, {_cores(threads)}",
        f"{metric.replace('_', ' ')} {score:.3f}",
    ]


def _demo(record: Record) -> list[str]:
    accuracy = record["test"]["model"]["overall"]["accuracy"]["value"]
    # how long it took is not recorded
    return [f"{record['parameters'] / 1e6:.2f} M", "minutes", f"accuracy {accuracy:.3f}"]


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _cores(threads: int) -> str:
    return "one core" if threads == 1 else f"{threads} cores"
