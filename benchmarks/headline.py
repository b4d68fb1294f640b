"""The figures that the README opens with, made from the results."""

import json
from pathlib import Path

from .speed.measures import make_measures
from .tables import make_table, read_tables
from .trainings.tables import read_records, spread_of

DEMO_MODELS = {"model": "ChordMixer", "kmer": "logistic regression on 6-mers"}
# what is compared: record, metric, name of the baseline in the record, and as what it is shown
COMPARED = {
    "two genera of bacteria, split by species; ChordMixer, pre-trained on genomes": (
        *("genes_pretrained_species", "accuracy", "kmer", "k-mer regression"),
    ),
    "two genera of bacteria, split by species; ChordMixer, from scratch": (
        *("genes_species", "accuracy", "kmer", "k-mer regression"),
    ),
    "two genera of bacteria, 5% of the labels; ChordMixer, pre-trained on genomes": (
        *("few_pretrained", "accuracy", "kmer", "k-mer regression"),
    ),
    "contigs of five species, up to 518,565 bases; ChordMixer (balanced accuracy)": (
        *("contigs5", "balanced_accuracy", "kmer", "k-mer regression"),
    ),
    "adding problem, base length 1,000; ChordMixer (share within 0.04)": (
        *("adding_1000", "within_tolerance", "always 0.5", "always 0.5"),
    ),
    "adding problem, 4,096 tokens; Paramixer (share within 0.04)": (
        "paramixer_adding_4096_no_positions",
        *("within_tolerance", "always 0.5", "always 0.5"),
    ),
    "JapaneseVowels (time series of nine speakers); MrsFormer": (
        *("vowels_mrs_softmax", "accuracy", "random kernels, ridge", "random kernels, ridge"),
    ),
}
# measures of speed and memory by their names
MEASURED = (
    "training step, 16,384 tokens: speed relative to Nyströmformer",
    "training step, 65,536 tokens: peak memory, reversible relative to all stored",
    "one sequence of 1,500,000 tokens, one optimiser step, reversible: peak memory",
    "one sequence of 8,000,000 tokens, inference: peak memory",
)


def make_demo_section(folder: Path) -> str:
    """What `make demo` trains, how long, and how good the result is."""
    path = folder / "demo.json"
    if not path.exists():
        return "Not run yet.\n"
    run = json.loads(path.read_text(encoding="utf-8"))
    seconds = next(entry["train_runtime"] for entry in run["history"] if "train_runtime" in entry)
    test = run["test"]
    rows = []
    for name, title in DEMO_MODELS.items():
        overall = test[name]["overall"]
        cells = ["{value:.3f} [{low:.3f}, {high:.3f}]".format(**overall[m]) for m in _DEMO_METRICS]
        rows.append([title, *cells])
    text = (
        f"The demo trains for {seconds / 60:.0f} minutes with"
        f" {run['environment']['machine']['threads']} CPU threads. Its small ChordMixer"
        f" ({run['parameters']:,} parameters) tells two genera of bacteria apart on"
        f" {test['model']['count']:,} genes of the test part (95% bootstrap intervals):\n"
    )
    return f"{text}\n{make_table(['', 'accuracy', 'ROC-AUC'], rows)}"


_DEMO_METRICS = ("accuracy", "roc_auc")


def make_headline_section(folder: Path) -> str:
    """One row per recorded training that is compared, then measures of speed and memory."""
    records = read_records(folder)
    rows = []
    for title, (name, metric, baseline, shown) in COMPARED.items():
        if name not in records:
            continue
        score, other = (_score(records[name], who, metric) for who in ("model", baseline))
        rows.append([title, score, f"{other} ({shown})"])
    parts = [make_table(["test part, accuracy", "model", "baseline"], rows)] if rows else []
    values = {one.name: one.value for one in make_measures(read_tables(folder))}
    rows = [[name, values[name]] for name in MEASURED if name in values]
    if rows:
        parts.append(make_table(["two CPU threads", "measured"], rows))
    return "\n".join(parts) if parts else "Not run yet.\n"


def _score(record: dict, who: str, metric: str) -> str:
    """A metric of one run, or its mean and standard deviation over seeds."""
    if "runs" in record:
        return spread_of(record["runs"], who, metric)
    return f"{record['test'][who]['overall'][metric]['value']:.3f}"
