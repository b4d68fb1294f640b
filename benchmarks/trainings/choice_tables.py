"""Tables of what was compared before defaults were chosen: sizes, masks, schedules, heads, pieces.

No test part is in them: losses are of genes that training has not seen, and scores of validation
rows.
"""

from pathlib import Path

from ..tables import make_table
from .tables import Record, read_records
from .zoo_catalogue import SIZES

# one change each of the medium size
CHANGES = {
    "size_medium": "none",
    "schedule_small_batches": "twice the steps of half the tokens",
    "schedule_large_batches": "half the steps of twice the tokens",
    "schedule_averaged": "moving averages of the weights",
    "schedule_constant": "a learning rate that stays",
    "schedule_constant_averaged": "a learning rate that stays, and moving averages",
    "masks_runs": "bases hidden in runs of 1 to 6",
    "masks_triplets": "bases hidden in runs of 3",
    "masks_codons": "whole codons hidden",
}
HEADS = {
    "choice_genus12_head": "the head alone (the default)",
    "choice_genus12_epoch": "then all for an epoch",
    "choice_genus12_layers": "then all for an epoch, each block at 0.7 of the rates above it",
}
PIECES = {
    "choice_contigs_5": "at most 5 (the default)",
    "choice_contigs_20": "at most 20",
    "choice_contigs_all": "all",
    "choice_contigs_reads": "at most 5; from chordmixer-microbes-reads",
}


def make_sizes_section(folder: Path) -> str:
    """Loss at masked bases and time of a step by size, all after the same tokens."""
    records = read_records(folder)
    rows = []
    for name in SIZES:
        if (record := records.get(f"size_{name}")) is None:
            continue
        config = record["config"]
        sizes = (config[key] for key in ("num_hidden_layers", "track_size", "intermediate_size"))
        rows.append(
            [
                name,
                f"{record['parameters'] / 1e6:.2f} M",
                *map(str, sizes),
                f"{config['max_position_embeddings']:,}",
                f"{record['validation']['loss']:.4f}",
                f"{_pace(record):.2f} s",
            ]
        )
    header = ["size", "parameters", "blocks", "track size", "width of the MLPs", "longest sequence"]
    header += ["loss at masked bases, held-out genes", "time of a step, one busy core"]
    return make_table(header, rows) if rows else "Not run yet.\n"


def make_choices_section(folder: Path) -> str:
    """What changes of pre-training and of fine-tuning did."""
    records = read_records(folder)
    changes = [
        [title, f"{records[name]['validation']['loss']:.4f}"]
        for name, title in CHANGES.items()
        if name in records
    ]
    heads = [
        [title, *_scores(records[name], "model", "accuracy", "roc_auc")]
        for name, title in HEADS.items()
        if name in records
    ]
    pieces = [
        [
            title,
            *(_scores(records[name], who, "balanced_accuracy")[0] for who in _GUESSERS),
        ]
        for name, title in PIECES.items()
        if name in records
    ]
    tables = [
        (["pre-training, change of the medium size", "loss at masked bases"], changes),
        (["twelve genera, validation part: what is trained", "accuracy", "ROC-AUC"], heads),
        (
            [
                "contigs, validation part, balanced accuracy: pieces of each",
                *("model", "k-mer regression", "average of both"),
            ],
            pieces,
        ),
    ]
    made = [make_table(header, rows) for header, rows in tables if rows]
    return "\n".join(made) if made else "Not run yet.\n"


_GUESSERS = ("model", "kmer", "average")


def _scores(record: Record, who: str, *metrics: str) -> list[str]:
    report = record["validation"][who]["overall"]
    return [f"{report[metric]['value']:.3f}" for metric in metrics]


def _pace(record: Record) -> float:
    """Seconds of a step."""
    history = record["history"]
    seconds = next(entry["train_runtime"] for entry in history if "train_runtime" in entry)
    return seconds / max(entry["step"] for entry in history)
