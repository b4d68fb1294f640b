"""Folders of trained models for `model_cards/`, made from recorded trainings.

    python -m benchmarks.trainings.zoo chordmixer-microbes microbes --runs runs --data FOLDER

Of a training with several seeds, the model with the highest balanced accuracy on validation rows is
taken. A folder has what `from_pretrained` takes, `training.json` (commands, data hashes, metrics)
and `predictions.json`: outputs for ten sequences, which a test compares with those of the weights.
The card is the folder's `README.md`: that of the run, unless there is one.
"""

import argparse
import hashlib
import json
import shutil
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from hf_mixers.data import load_sequences

from ..tables import RESULTS
from .catalogue import EXPERIMENTS

ROOT = Path(__file__).parents[2]
CARDS = ROOT / "model_cards"
FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
SEQUENCES = 10


def predict(folder: Path, texts: list[str]) -> dict:
    """Pooled vectors, or logits of a classifier, of sequences read one by one."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    kind = AutoConfig.from_pretrained(folder).architectures[0]
    is_classifier = kind.endswith("ForSequenceClassification")
    auto = AutoModelForSequenceClassification if is_classifier else AutoModel
    model = auto.from_pretrained(folder).eval()
    rows = []
    with torch.no_grad():
        for text in texts:
            output = model(**tokenizer(text, return_tensors="pt"))
            # some of a long vector, from all of its parts
            values = output.logits if is_classifier else output.pooler_output[:, ::27]
            rows.append([round(value, 6) for value in values[0].tolist()])
    return {"output": "logits" if is_classifier else "pooler_output", "values": rows}


def describe_training(name: str, data: Path | None) -> dict:
    """Commands, hashes of the data and metrics of a training and of those it starts from."""
    steps = []
    step: str | None = name
    while step is not None:
        experiment = EXPERIMENTS[step]
        record = read_record(step)
        files = [a.removeprefix("{data}/") for a in experiment.arguments if a.startswith("{data}")]
        steps.insert(
            0,
            {
                "name": step,
                "command": f"python -m benchmarks.trainings {step} --data FOLDER",
                "script": record["script"],
                "arguments": record["arguments"],
                "seconds": record["seconds"],
                "seed": record.get("seed", record["environment"].get("seed")),
                "data": {f: hash_file(data / f) for f in files} if data else dict.fromkeys(files),
                "metrics": {k: _headline(record[k]) for k in ("test", "validation") if k in record},
            },
        )
        step = experiment.needs
    return {"steps": steps}


def read_record(name: str) -> dict:
    """The record of a training; of one with several seeds, that of the best on validation rows."""
    record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    if "runs" not in record:
        return record
    return {**record, **max(record.pop("runs"), key=validation_score)}


def validation_score(run: dict) -> float:
    """The highest balanced accuracy on validation rows that a run has logged."""
    found = [entry.get("eval_balanced_accuracy", 0.0) for entry in run["history"]]
    return max(found, default=0.0)


def hash_file(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _headline(reports: dict) -> dict:
    """Overall values of the reports of a part, or the part as it is."""
    return {
        name: {key: cell["value"] for key, cell in report["overall"].items() if "value" in cell}
        if isinstance(report, dict) and "overall" in report
        else report
        for name, report in reports.items()
    }


def make_folder(name: str, training: str, runs: Path, data: Path | None) -> Path:
    """Copy a trained model to `model_cards/`, with its training and its predictions."""
    folder = CARDS / name
    folder.mkdir(parents=True, exist_ok=True)
    record = read_record(training)
    source = runs / training
    if EXPERIMENTS[training].seeds:
        source = source / f"seed_{record['seed']}"
    for file in FILES:
        shutil.copy(source / file, folder / file)
    if not (folder / "README.md").exists():
        shutil.copy(source / "README.md", folder / "README.md")
    genes = load_sequences(ROOT / "examples" / "genes.fa").select(range(SEQUENCES))
    texts = genes["sequence"][:]
    found = {"sequences": texts, **predict(folder, texts)}
    (folder / "predictions.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    told = json.dumps(describe_training(training, data), indent=1)
    (folder / "training.json").write_text(told + "\n", encoding="utf-8")
    return folder


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="of the folder in model_cards")
    parser.add_argument("training", help="recorded training that made the model")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where models were written")
    parser.add_argument("--data", type=Path, help="folder of the data sets, to hash them")
    options = parser.parse_args(arguments)
    print(make_folder(options.name, options.training, options.runs, options.data))


if __name__ == "__main__":
    main()
