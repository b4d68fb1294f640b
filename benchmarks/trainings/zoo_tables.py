"""Tables about the models of `model_cards/`, from their folders and recorded trainings."""

import json
from itertools import product
from pathlib import Path
from statistics import mean, stdev

from ..tables import make_table
from .tables import Record, read_records

CARDS = Path(__file__).parents[2] / "model_cards"
# models by what names of records end in
MODELS = {
    "microbes": "chordmixer-microbes",
    "microbes_encoders": "chordmixer-microbes-large",
    "microbes_combiner": "combiner-microbes",
}
# tasks by what names of records begin with, and k-mer regression as it was measured by those who
# made the data, where it is not fitted in the run
TASKS = {
    "genes": ("two genera", None),
    "genus12": ("twelve genera", "0.674"),
    "genus45": ("45 genera", "0.524"),
    "genus45_few": ("45 genera, 20 labelled genes of each", None),
}
# other data, by record: what its rows are, and what the model is called
OTHERS = {
    "contigs5_microbes": (
        "contigs of five species, test part",
        "chordmixer-microbes, k-mer part of both strands",
    ),
    "splice_chordmixer": ("human splice windows, test part", "ChordMixer, from scratch"),
}
# models that were fine-tuned on reads, by what names of records end in
READS = {
    "microbes_reads": "chordmixer-microbes-reads",
    "microbes": "chordmixer-microbes, with a new k-mer part",
}
_BASELINES = {
    "kmer": "k-mer regression",
    "codon": "codon regression",
    "cnn": "convolutional network",
    "average": "average of all",
    "kmer_best": "k-mer regression, words and strands chosen",
}


def make_zoo_section(folder: Path) -> str:
    """What the models are, what they reach on these and other data, and how good vectors are."""
    records = read_records(folder)
    others = [_other(records[name], *said) for name, said in OTHERS.items() if name in records]
    parts = [_models(), make_microbes_section(folder), make_reads_section(folder), *others]
    return "\n".join(parts)


def make_reads_section(folder: Path) -> str:
    """Which genus short reads are of, by models that count words of both strands."""
    records = read_records(folder)
    rows: dict[str, list[str]] = {}
    for start, model in READS.items():
        if record := records.get(f"reads12_{start}"):
            rows |= {_BASELINES.get(who, model): _cells(r) for who, r in record["test"].items()}
    header = ["reads of 150 bases, twelve genera, new species, test part"]
    header += ["balanced accuracy", "95% interval", "accuracy", "ROC-AUC"]
    table = make_table(header, [[name, *cells] for name, cells in rows.items()])
    return table if rows else "Not run yet.\n"


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
    for (task, (title, published)), (start, model) in product(TASKS.items(), MODELS.items()):
        if (record := records.get(f"{task}_{start}")) is None:
            continue
        runs = record.get("runs", [record])
        kmers = _spread(runs, "kmer") or (f"{published} (published)" if published else "")
        rows.append(
            [
                title,
                model,
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
    header = ["species that no training has seen, test part", "model", "seeds", "accuracy"]
    header += ["95% interval, first seed", "ROC-AUC", "k-mer regression", "codon regression"]
    header += ["average of model and regressions", "time of a run, one busy core"]
    return make_table(header, rows) if rows else None


def _other(record: Record, title: str, name: str) -> str:
    """Balanced accuracy, accuracy and ROC-AUC of a model and its baselines."""
    rows = [[_BASELINES.get(who, name), *_cells(one)] for who, one in record["test"].items()]
    return make_table([title, "balanced accuracy", "95% interval", "accuracy", "ROC-AUC"], rows)


def _cells(report: Record) -> list[str]:
    cells = [report["overall"][key] for key in ("balanced_accuracy", "accuracy", "roc_auc")]
    interval = f"[{cells[0]['low']:.3f}, {cells[0]['high']:.3f}]"
    values = [f"{cell['value']:.3f}" for cell in cells]
    return [values[0], interval, *values[1:]]


def _frozen(records: dict[str, Record]) -> str | None:
    found: dict[str, dict] = {}
    for start, model in MODELS.items():
        if record := records.get(f"genus45_frozen_{start}"):
            tests = record["test"].items()
            found |= {model if name == "model" else name: report for name, report in tests}
    rows = [[name, *(f"{report[key]:.3f}" for key in _VECTORS)] for name, report in found.items()]
    header = ["frozen vectors, 45 genera, test part", "five nearest neighbours", "linear probe"]
    return make_table([*header, "clusters, NMI"], rows) if rows else None


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
