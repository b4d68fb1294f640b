"""The figures that the README opens with, made from the results."""

import json
from pathlib import Path

from .speed.measures import make_measures
from .tables import make_table, read_tables
from .trainings.tables import read_records, spread_of

# of the two runs of the demo: what a row is called
DEMO_MODELS = {
    ("demo", "model"): "`chordmixer-microbes`, fine-tuned",
    ("demo_scratch", "model"): "the same model from scratch, 100 steps",
    ("demo", "kmer"): "logistic regression on 6-mers",
    ("demo", "codon"): "logistic regression on 3-mers by codon position",
}
# what is compared: record, metric, name of the baseline in the record, and as what it is shown
COMPARED = {
    "genes of two genera of bacteria, new species; `chordmixer-microbes`": (
        *("genes_microbes", "accuracy", "kmer", "k-mer regression"),
    ),
    "genes of twelve genera, new species; `chordmixer-microbes`": (
        *("genus12_microbes", "accuracy", "codon", "regression on k-mers by codon position"),
    ),
    "genes of 45 genera, new species; `chordmixer-microbes-large`": (
        *("genus45_microbes_encoders", "accuracy", "codon", "the same regression"),
    ),
    "45 genera, 20 labelled genes of each; `chordmixer-microbes`": (
        *("genus45_few_microbes", "accuracy", "kmer", "k-mer regression"),
    ),
    "reads of 150 bases, twelve genera, new species; `chordmixer-microbes-reads`": (
        *("reads12_microbes_reads", "accuracy", "kmer_best", "k-mer regression"),
    ),
    "contigs of five species, up to 518,565 bases (balanced accuracy); `chordmixer-microbes`": (
        *("contigs5_microbes", "balanced_accuracy", "kmer", "k-mer regression"),
    ),
    "donors, acceptors and decoys of human genes; ChordMixer, from scratch": (
        *("splice_chordmixer", "accuracy", "cnn", "small CNN"),
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
# tasks of the arena, all models from scratch with as many parameters and steps: our record,
# that of another, and what that is
ARENA = {
    "digits as 784 pixels, 1,000 steps; ChordMixer": (
        *("arena_mnist_chordmixer", "arena_mnist_bert", "BERT of the same size"),
    ),
    "ListOps, 500 to 2,000 tokens, 750 steps; Combiner": (
        *("arena_listops_full_combiner", "arena_listops_full_bert", "BERT of the same size"),
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
    """What `make demo` trains, and how good the result is."""
    paths = {path.stem: path for path in folder.glob("demo*.json")}
    if "demo" not in paths:
        return "Not run yet.\n"
    runs = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items()}
    rows = []
    for (run, who), title in DEMO_MODELS.items():
        if who not in runs.get(run, {"test": {}})["test"]:
            continue
        overall = runs[run]["test"][who]["overall"]
        cells = ["{value:.3f} [{low:.3f}, {high:.3f}]".format(**overall[m]) for m in _DEMO_METRICS]
        rows.append([title, *cells])
    text = (
        f"The demo takes a pre-trained ChordMixer ({runs['demo']['parameters']:,} parameters) and"
        f" teaches it to tell two genera of bacteria apart, on {_count(runs['demo']):,} genes of"
        " species that no training has seen (test part, 95% bootstrap intervals):\n"
    )
    return f"{text}\n{make_table(['', 'accuracy', 'ROC-AUC'], rows)}"


def _count(run: dict) -> int:
    return run["test"]["model"]["count"]


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
    for title, (own, other, shown) in ARENA.items():
        if own in records and other in records:
            scores = [f"{records[name]['arena']['score']:.3f}" for name in (own, other)]
            rows.append([title, scores[0], f"{scores[1]} ({shown})"])
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
