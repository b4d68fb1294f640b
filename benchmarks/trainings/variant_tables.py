"""The table of classifiers of variants: planted motifs, next to the ratio alone and to k-mers."""

from pathlib import Path

from ..tables import make_table
from .tables import Record, read_records

MODELS = {
    "variants_pretrained": "ChordMixer, from `chordmixer-microbes`",
    "variants_scratch": "ChordMixer, from scratch",
}
# of the first record that is there
OTHERS = {
    "k-mer difference": "regression on differences of k-mers",
    "likelihood ratio": "likelihood ratio alone",
    "ceiling": "ceiling: the labels before 5% were flipped",
}
_METRICS = ("accuracy", "balanced_accuracy", "roc_auc")


def make_planted_section(folder: Path) -> str:
    """Accuracy, balanced accuracy and ROC-AUC of models and of what they are compared with."""
    records = read_records(folder)
    found = [name for name in MODELS if name in records]
    if not found:
        return "Not run yet.\n"
    rows = [_row(MODELS[name], records[name], "model") for name in found]
    rows += [_row(title, records[found[0]], who) for who, title in OTHERS.items()]
    header = ["test part", "accuracy", "95% interval", "balanced accuracy", "ROC-AUC"]
    return make_table(header, rows)


def _row(title: str, record: Record, who: str) -> list[str]:
    cells = [record["test"][who]["overall"][name] for name in _METRICS]
    values = [f"{cell['value']:.3f}" for cell in cells]
    return [title, values[0], f"[{cells[0]['low']:.3f}, {cells[0]['high']:.3f}]", *values[1:]]
