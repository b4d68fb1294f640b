"""Tables about recorded trainings, made from their JSON files."""

import json
from pathlib import Path
from statistics import mean, stdev

from hf_mixers.metrics import overall_values

from ..tables import make_picture, make_table

Record = dict

# experiments of one table: what a row is called
CLASSIFIERS = {
    "genes_random": "two genera, random split",
    "genes_paramixer": "two genera, random split; a Paramixer, learning rate 2e-3",
    "genes_paramixer_narrow_slow": "two genera, random split; a narrow Paramixer at 3e-4",
    "genes_species": "two genera, split by species",
    "genes_pretrained_random": "two genera, random split; pre-trained on genomes",
    "genes_pretrained_species": "two genera, split by species; pre-trained on genomes",
    "genus12_random": "twelve genera, random split",
    "genus12_species": "twelve genera, split by species",
    "genus12_pretrained_random": "twelve genera, random split; pre-trained on genomes",
    "genus12_pretrained_species": "twelve genera, split by species; pre-trained on genomes",
    "contigs5": "contigs of five species, 100 to 518,565 bases",
    "contigs5_rounds": "contigs of five species, three passes with new cuts, 10% masked",
}
# evaluated by balanced accuracy
UNBALANCED = ("contigs5", "contigs5_rounds")
# what a reader must know of a row
REMARKS = {
    "genus12_pretrained_species": "two of the twelve genera are in the pre-training data",
    "contigs5": "contigs are cut for training and evaluated whole, by balanced accuracy",
}
# plotted by percentile of length: metric
BY_LENGTH = {"genes_pretrained_species": "accuracy", "contigs5": "balanced_accuracy"}
# compared on the validation part of genes of new species
CHOICES = {
    "genes_species": "the model of the first table",
    "choice_token_dropout": "alternating rotation, 15% of the bases masked",
}
ROTATIONS = ("forward", "alternating")
ADDING = {
    "adding_200_large_steps": "200, 16,384 tokens per step",
    "adding_200": "200, 4,096 tokens per step",
    "adding_200_longer": "200, two more epochs with new sequences",
    "adding_1000": "1,000, starting from the model for 200",
}
# tasks of the Paramixer paper, with the metric that counts correct answers
FIXED_LENGTH = {"adding": "within_tolerance", "temporal_order": "accuracy"}
ORDERS = ("rotate_mix", "mix_rotate")
NORMS = ("none", "layer", "batch", "group")
FEW = {"few_pretrained": "pre-trained on genomes", "few_scratch": "from scratch"}
# attention types on the vowels, and their accuracy in table 8 of the supplement
VOWELS = {
    "plain_softmax": ("softmax, one scale", ""),
    "mrs_softmax": ("softmax", ""),
    "mrs_linear": ("linear", "99.46"),
    "mrs_linformer": ("Linformer", "98.56"),
    "mrs_linformer_dropout": ("Linformer, dropout 0.2 instead of 0.1", "98.56"),
    "mrs_performer": ("Performer", "99.01"),
    "mrs_fmm": ("FMM", "99.64"),
    "mrs_luna": ("Luna", "99.46"),
}
# tasks where heads of several scales are compared with heads of one scale: title and metric
TWINS = {
    "california": ("California housing, root mean squared error", "rmse"),
    "adult": ("Adult, accuracy", "accuracy"),
    "mnist": ("MNIST, 10,000 digits, accuracy", "accuracy"),
}

# trainings of new weights that start as published and near a uniform guess: title and metric
STARTS = {
    "california_mrs": ("california_mrs_start", "MrsFormer, California housing", "rmse"),
    "mnist_mrs": ("mnist_mrs_start", "MrsFormer, MNIST", "accuracy"),
    "vowels_mrs_softmax": ("vowels_mrs_softmax_start", "MrsFormer, JapaneseVowels", "accuracy"),
    "start_chordmixer_published": ("start_chordmixer_new", "ChordMixer, MNIST", "accuracy"),
    "start_bases_published": ("start_bases_new", "ChordMixer, masked bases", "perplexity"),
}


def read_records(folder: Path) -> dict[str, Record]:
    """The trainings that are recorded in a folder, by name."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    return {name: record for name, record in found.items() if "script" in record}


def make_trainings_section(folder: Path) -> str:
    """All tables about the trainings that are recorded in a folder."""
    records = read_records(folder)
    makers = (
        *(_classifiers, _few_labels, _language_models, _adding, _fixed_length, _vowels, _twins),
        *(_blocks, _rotations, _choices, _starts),
    )
    parts = [part for make in makers if (part := make(records))]
    return "\n".join(parts) if parts else "Not run yet.\n"


def _classifiers(records: dict[str, Record]) -> str | None:
    rows = []
    for name, title in CLASSIFIERS.items():
        if name not in records:
            continue
        record = records[name]
        metric = "balanced_accuracy" if name in UNBALANCED else "accuracy"
        scores = [_score(record["test"].get(who), metric) for who in ("model", "kmer", "cnn")]
        rows.append([title, _effort(record), *scores])
    header = ["classification, test part: accuracy, ROC-AUC", "training", "model"]
    header += ["k-mer regression", "small CNN"]
    note = "95% bootstrap intervals are in the files"
    note += "".join(f"; {text}" for name, text in REMARKS.items() if name in records) + ".\n"
    plots = (make_picture(name, CLASSIFIERS[name]) for name in BY_LENGTH if name in records)
    note += "".join(plots)
    return f"{make_table(header, rows)}\n{note}" if rows else None


def _few_labels(records: dict[str, Record]) -> str | None:
    rows = []
    for name, title in FEW.items():
        if record := records.get(name):
            runs = record["runs"]
            rows.append([title, str(len(runs)), *(spread_of(runs, "model", m) for m in _SCORES)])
    if not rows:
        return None
    rows.append(
        ["k-mer regression", str(len(runs)), *(spread_of(runs, "kmer", m) for m in _SCORES)]
    )
    header = ["two genera with 5% of the labels, test part", "seeds", "accuracy", "ROC-AUC"]
    return make_table(header, rows)


# masked language models that go on from one of genes
FURTHER = {
    "mlm_microbes": "`chordmixer-microbes`, on from there",
    "mlm_microbes_bases": "the same after more masked bases of genes",
}


def _language_models(records: dict[str, Record]) -> str | None:
    if (record := records.get("mlm_genomes")) is None:
        return None
    header = ["masked bases of a held-out genome", "accuracy", "perplexity"]
    rows = [
        _guesses(name.replace("model", "ChordMixer"), one) for name, one in record["test"].items()
    ]
    efforts = [_effort(record)]
    place = 1
    for name, title in FURTHER.items():
        if (further := records.get(name)) is None:
            continue
        efforts.append(f"{title}: {_effort(further)}")
        for who, report in further["test"].items():
            if who.startswith("model"):
                rows.insert(place, _guesses(who.replace("model", title, 1), report))
                place += 1
    return f"{make_table(header, rows)}\nTraining: {'; '.join(efforts)}.\n"


def _adding(records: dict[str, Record]) -> str | None:
    rows = []
    for name, base in ADDING.items():
        if name in records:
            model, guess = records[name]["test"].values()
            rows.append([base, _effort(records[name]), _percent(model), _percent(guess)])
    header = ["adding problem: base length", "training", "within 0.04", "always 0.5"]
    return make_table(header, rows) + make_picture("adding", "adding problem") if rows else None


def _fixed_length(records: dict[str, Record]) -> str | None:
    found = [record for name, record in records.items() if name.startswith("paramixer_")]
    found.sort(key=lambda one: (_task(one), one["config"]["max_position_embeddings"]))
    rows = []
    for record in found:
        scores = [_percent(one, FIXED_LENGTH[_task(record)]) for one in record["test"].values()]
        length = f"{record['config']['max_position_embeddings']:,}"
        positions = {"absolute": "learned", "none": "none"}
        told = positions[record["config"]["position_embedding_type"]]
        rows.append([_task(record).replace("_", " "), length, told, _effort(record), *scores])
    header = ["Paramixer, sequences of one length", "length", "positions", "training"]
    return make_table([*header, "correct", "constant guess"], rows) if rows else None


def _task(record: Record) -> str:
    """The task of a run of `fixed_length_tasks.py`."""
    return record["arguments"][record["arguments"].index("--task") + 1]


def _vowels(records: dict[str, Record]) -> str | None:
    found = {name: records.get(f"vowels_{name}") for name in VOWELS}
    found = {name: record["runs"] for name, record in found.items() if record}
    rows = []
    for name, runs in found.items():
        title, published = VOWELS[name]
        rows.append([title, str(len(runs)), _percents(runs, "model"), published])
    for runs in found.values():
        rows += [[name, str(len(runs)), _percents(runs, name), ""] for name in _baselines(runs)]
    header = ["JapaneseVowels, attention of a MrsFormer", "seeds", "accuracy in %"]
    header += ["supplement, table 8"]
    return make_table(header, rows) if rows else None


def _twins(records: dict[str, Record]) -> str | None:
    rows = []
    for task, (title, metric) in TWINS.items():
        mrs, plain = (records.get(f"{task}_{kind}") for kind in ("mrs", "plain"))
        if mrs and plain:
            both = [spread_of(record["runs"], "model", metric) for record in (mrs, plain)]
            others = [
                f"{spread_of(mrs['runs'], one, metric)} ({one})" for one in _baselines(mrs["runs"])
            ]
            rows.append([title, str(len(mrs["runs"])), *both, ", ".join(others)])
    header = ["MrsFormer, test part", "seeds", "several scales", "one scale", "baseline"]
    return make_table(header, rows) if rows else None


def _baselines(runs: list[Record]) -> list[str]:
    """Names of the baselines of a run."""
    return [name for name in runs[0]["test"] if name != "model"]


def _blocks(records: dict[str, Record]) -> str | None:
    rows = []
    for order in ORDERS:
        cells = [records.get(f"blocks_{order}_{norm}") for norm in NORMS]
        if any(cells):
            scores = [one and _score(one["validation"]["model"], "accuracy") for one in cells]
            rows.append([f"`{order}`", *(score or "" for score in scores)])
    header = ["blocks, one epoch, validation part: accuracy, ROC-AUC", *NORMS]
    return make_table(header, rows) if rows else None


def _rotations(records: dict[str, Record]) -> str | None:
    found = {kind: records.get(f"rotation_{kind}") for kind in ROTATIONS}
    rows = [
        _guesses(f"`{kind}`", record["test"]["model"]) for kind, record in found.items() if record
    ]
    header = ["rotation, masked bases of a held-out genome, one epoch", "accuracy", "perplexity"]
    return make_table(header, rows) if rows else None


def _choices(records: dict[str, Record]) -> str | None:
    rows = []
    for name, title in CHOICES.items():
        if name in records:
            seen = [entry for entry in records[name]["history"] if "eval_roc_auc" in entry]
            best = max(seen, key=lambda entry: entry["eval_balanced_accuracy"])
            rows.append([title, *(f"{best[f'eval_{score}']:.3f}" for score in _SCORES)])
    header = ["two genera, split by species, validation part", "accuracy", "ROC-AUC"]
    return make_table(header, rows) if len(rows) > 1 else None


def _starts(records: dict[str, Record]) -> str | None:
    rows = []
    for published, (new, title, metric) in STARTS.items():
        if published in records and new in records:
            both = [records[name]["runs"] for name in (published, new)]
            seeds = {run["seed"] for run in both[0]} & {run["seed"] for run in both[1]}
            kept = [[run for run in runs if run["seed"] in seeds] for runs in both]
            cells = [spread_of(runs, "model", metric) for runs in kept]
            rows.append([f"{title}, {metric.replace('rmse', 'RMSE')}", str(len(seeds)), *cells])
    header = ["start of new weights, test part", "seeds", "as published", "near a uniform guess"]
    note = "ChordMixers are trained briefly: 500 steps on digits, 325 on genomes.\n"
    return f"{make_table(header, rows)}\n{note}" if rows else None


def _guesses(name: str, report: Record) -> list[str]:
    values = overall_values(report)
    return [name, *(f"{values[metric]:.3f}" for metric in ("accuracy", "perplexity"))]


_SCORES = ("accuracy", "roc_auc")


def _score(report: Record | None, metric: str) -> str:
    if report is None:
        return ""
    overall = report["overall"]
    return ", ".join(f"{overall[name]['value']:.3f}" for name in (metric, "roc_auc"))


def _percent(report: Record, metric: str = "within_tolerance") -> str:
    return f"{100 * report['overall'][metric]['value']:.2f}%"


def spread_of(runs: list[Record], who: str, metric: str) -> str:
    """Mean and standard deviation over seeds."""
    values = [overall_values(run["test"][who])[metric] for run in runs]
    return f"{mean(values):.3f} ± {stdev(values):.3f}"


def _percents(runs: list[Record], who: str) -> str:
    values = [100 * run["test"][who]["overall"]["accuracy"]["value"] for run in runs]
    return f"{mean(values):.2f} ± {stdev(values):.2f}"


def _effort(record: Record) -> str:
    """Parameters, epochs and minutes."""
    epochs = max(entry.get("epoch", 0) for entry in record["history"])
    threads = record["environment"]["machine"]["threads"]
    cores = "one core" if threads == 1 else f"{threads} cores"
    size = f"{record['parameters'] / 1e6:.2f} M parameters"
    minutes = f"{record['seconds'] / 60:.0f} minutes on {cores}"
    since = " since a restart" if record.get("resumed") else ""
    times = "one epoch" if epochs == 1 else f"{epochs:.3g} epochs"
    return f"{size}, {times}, {minutes}{since}"
