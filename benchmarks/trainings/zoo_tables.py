"""Tables about the models of `model_cards/`, from their folders and recorded trainings."""

import json
from pathlib import Path
from statistics import mean, stdev

from ..tables import make_table
from .arena_tables import NAMES
from .tables import Record, read_records
from .zoo_catalogue import SIZES

CARDS = Path(__file__).parents[2] / "model_cards"
# recorded fine-tunings of chordmixer-microbes: what a row is called, and k-mer regression as it was
# measured by those who made the data, where it is not fitted in the run
TASKS = {
    "genes_microbes": ("two genera", None),
    "genus12_microbes": ("twelve genera", "0.674"),
    "genus45_microbes": ("45 genera", "0.524"),
    "genus45_few_microbes": ("45 genera, 20 labelled genes of each", None),
    "genes_microbes_encoders": ("two genera", None),
    "genus12_microbes_encoders": ("twelve genera", "0.674"),
    "genus45_microbes_encoders": ("45 genera", "0.524"),
    "genus45_few_microbes_encoders": ("45 genera, 20 labelled genes of each", None),
    "genes_microbes_combiner": ("two genera", None),
    "genus12_microbes_combiner": ("twelve genera", "0.674"),
}
FROZEN = ("genus45_frozen_microbes", "genus45_frozen_microbes_encoders")
# other data, by record: what its rows are, and what the model is called
OTHERS = {
    "contigs5_microbes": (
        "contigs of five species, test part",
        "chordmixer-microbes, k-mer part of both strands",
    ),
    "splice_chordmixer": ("human splice windows, test part", "ChordMixer, from scratch"),
}
_BASELINES = {
    "kmer": "k-mer regression",
    "codon": "codon regression",
    "cnn": "convolutional network",
    "average": "average of all",
}


def make_zoo_section(folder: Path) -> str:
    """What the models are, what they reach on these and other data, and how good vectors are."""
    records = read_records(folder)
    others = [_other(records[name], *said) for name, said in OTHERS.items() if name in records]
    sizes = [part for part in [_sizes(records)] if part]
    return "\n".join([_models(), make_microbes_section(folder), *others, *sizes])


def make_microbes_section(folder: Path) -> str:
    """What chordmixer-microbes reaches when it is fine-tuned, and how good its vectors are."""
    records = read_records(folder)
    parts = [part for part in (_tasks(records), _frozen(records)) if part]
    return "\n".join(parts) if parts else "Not run yet.\n"


def _models() -> str:
    rows = []
    for card in sorted(CARDS.glob("*/config.json")):
        config = json.loads(card.read_text(encoding="utf-8"))
        size = (card.parent / "model.safetensors").stat().st_size
        rows.append(
            [
                f"`model_cards/{card.parent.name}`",
                config["architectures"][0],
                f"{size / 4e6:.2f} M",
                f"{size / 1e6:.1f} MB",
            ]
        )
    return make_table(["folder", "class", "parameters", "size"], rows)


def _tasks(records: dict[str, Record]) -> str | None:
    rows = []
    for name, (title, published) in TASKS.items():
        if name not in records:
            continue
        runs = records[name].get("runs", [records[name]])
        kmers = _spread(runs, "kmer") or (f"{published} (published)" if published else "")
        rows.append(
            [
                title,
                NAMES[records[name]["config"]["model_type"]],
                str(_encoders(records[name])),
                str(len(runs)),
                _spread(runs, "model"),
                _interval(runs),
                _spread(runs, "model", "roc_auc"),
                kmers,
                _spread(runs, "codon") or "",
                _spread(runs, "average") or "",
                f"{mean(run['seconds'] for run in runs) / 60:.0f} min",
            ]
        )
    header = ["species that no training has seen, test part", "family", "k-mer encoders", "seeds"]
    header += [
        "accuracy",
        "95% interval, first seed",
        "ROC-AUC",
        "k-mer regression",
        "codon regression",
    ]
    header += ["average of model and regressions"]
    return make_table([*header, "time of a run, one busy core"], rows) if rows else None


def _other(record: Record, title: str, name: str) -> str:
    """Balanced accuracy, accuracy and ROC-AUC of a model and its baselines."""
    rows = []
    for who, report in record["test"].items():
        cells = [report["overall"][key] for key in ("balanced_accuracy", "accuracy", "roc_auc")]
        interval = f"[{cells[0]['low']:.3f}, {cells[0]['high']:.3f}]"
        values = [f"{cell['value']:.3f}" for cell in cells]
        rows.append([_BASELINES.get(who, name), values[0], interval, *values[1:]])
    return make_table([title, "balanced accuracy", "95% interval", "accuracy", "ROC-AUC"], rows)


def _sizes(records: dict[str, Record]) -> str | None:
    """Loss at masked bases and time of a step by size, all after the same tokens."""
    rows = []
    for name in SIZES:
        if (record := records.get(f"size_{name}")) is None:
            continue
        config, history = record["config"], record["history"]
        steps = max(entry["step"] for entry in history)
        seconds = next(entry["train_runtime"] for entry in history if "train_runtime" in entry)
        sizes = (config[key] for key in ("num_hidden_layers", "track_size", "intermediate_size"))
        rows.append(
            [
                name,
                f"{record['parameters'] / 1e6:.2f} M",
                *map(str, sizes),
                f"{config['max_position_embeddings']:,}",
                f"{record['validation']['loss']:.4f}",
                f"{seconds / steps:.2f} s",
            ]
        )
    header = ["size", "parameters", "blocks", "track size", "width of the MLPs", "longest sequence"]
    header += ["loss at masked bases, held-out genes", "time of a step, one busy core"]
    return make_table(header, rows) if rows else None


def _frozen(records: dict[str, Record]) -> str | None:
    found: dict[str, dict] = {}
    for record in (records[name] for name in FROZEN if name in records):
        for name, report in record["test"].items():
            found[_name_frozen(record) if name == "model" else name] = report
    rows = [[name, *(f"{report[key]:.3f}" for key in _VECTORS)] for name, report in found.items()]
    header = ["frozen vectors, 45 genera, test part", "five nearest neighbours", "linear probe"]
    return make_table([*header, "clusters, NMI"], rows) if rows else None


def _encoders(record: Record) -> int:
    """How many k-mer networks the model of a record has: those of earlier ones had one."""
    return record.get("config", {}).get("kmer_encoders", 1)


def _name_frozen(record: Record) -> str:
    return f"chordmixer-microbes, k-mer encoders: {_encoders(record)}"


_VECTORS = ("neighbours_accuracy", "probe_accuracy", "clusters_nmi")


def _spread(runs: list[Record], who: str, metric: str = "accuracy") -> str | None:
    """A metric, with its standard deviation over several seeds; None if it was not measured."""
    if who not in runs[0]["test"]:
        return None
    values = [run["test"][who]["overall"][metric]["value"] for run in runs]
    return f"{mean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")


def _interval(runs: list[Record]) -> str:
    cell = runs[0]["test"]["model"]["overall"]["accuracy"]
    return f"[{cell['low']:.3f}, {cell['high']:.3f}]"
