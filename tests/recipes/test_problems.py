"""Fine-tuning on numbers and on any number of labels: from a file to answers in a user's terms."""

import csv
import json

import numpy as np
import pytest
import torch

from hf_mixers import ChordMixerForSequenceClassification, DnaTokenizer
from hf_mixers.inference import predict
from hf_mixers.recipes import FinetuneArguments, FinetuneOptions, finetune
from hf_mixers.recipes.configuration import Configuration
from hf_mixers.recipes.targets import Amount

SMALL = {"track_size": 4, "intermediate_size": 8, "max_position_embeddings": 64}


def write_rows(path, label_of, count=160):
    """A table of sequences whose label follows from their letters."""
    chance = np.random.default_rng(0)
    with open(path, "w") as file:
        file.write("id,sequence,value\n")
        for number in range(count):
            share = chance.uniform(0.1, 0.9)
            weights = [(1 - share) / 2, share / 2, share / 2, (1 - share) / 2]
            sequence = "".join(chance.choice(list("ACGT"), 30 + number % 9, p=weights))
            file.write(f"r{number},{sequence},{label_of(sequence)}\n")
    return path


def run(table, folder, problem, *pairs):
    configuration = Configuration(FinetuneOptions, FinetuneArguments)
    settings = {
        "data.data": [str(table)],
        "data.label_column": "value",
        "data.problem": problem,
        "training.output_dir": str(folder),
        "training.num_train_epochs": 12,
        "training.learning_rate": 1e-2,
        "training.train_token_budget": 1024,
        "model.settings": json.dumps(SMALL),
    }
    for name, value in settings.items():
        configuration.put(name, value)
    configuration.put_all(pairs)
    return finetune(*configuration.build())


def read_predictions(folder):
    with open(folder / "predictions.csv") as file:
        return list(csv.DictReader(file))


def test_a_regression_answers_in_the_units_of_the_file(tmp_path):
    """Degrees around 300, as far from standard units as can be."""
    share = lambda text: sum(letter in "GC" for letter in text) / len(text)  # noqa: E731
    table = write_rows(tmp_path / "melting.csv", lambda text: f"{300 + 40 * share(text):.3f}")
    results = run(table, tmp_path / "run", "regression", "baselines=[kmer, cnn]")
    scores = {name: report["overall"] for name, report in results["test"].items()}
    assert set(scores) == {"model", "kmer"}
    assert scores["model"]["r2"]["value"] > 0.8
    assert scores["kmer"]["r2"]["value"] > 0.2
    rows = read_predictions(tmp_path / "run")
    assert all(280 < float(row["prediction"]) < 360 for row in rows)

    # anybody who loads the model gets the same answers, in the same units
    model = ChordMixerForSequenceClassification.from_pretrained(tmp_path / "run").eval()
    assert (model.config.problem_type, model.config.num_labels) == ("regression", 1)
    with open(table) as file:
        sequences = {row["id"]: row["sequence"] for row in csv.DictReader(file)}
    texts = [sequences[row["id"]] for row in rows]
    inputs = DnaTokenizer()(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        answers = model(**inputs).logits.squeeze(1).numpy()
    expected = np.array([float(row["prediction"]) for row in rows])
    np.testing.assert_allclose(answers, expected, rtol=1e-5)
    assert "standard deviations" not in (tmp_path / "run" / "README.md").read_text()


def test_rows_may_have_any_number_of_labels(tmp_path):
    def labels_of(text):
        found = [letter for letter in "AC" if text.count(letter) > 7]
        return ";".join(found) or ";"

    table = write_rows(tmp_path / "letters.csv", labels_of)
    results = run(table, tmp_path / "run", "multi_label", "baselines=[kmer]")
    scores = results["test"]["model"]["overall"]
    assert scores["roc_auc"]["value"] > 0.8
    assert results["test"]["kmer"]["overall"]["roc_auc"]["value"] > 0.7
    assert results["config"]["problem_type"] == "multi_label_classification"
    rows = read_predictions(tmp_path / "run")
    for row in rows:
        expected = [name for name in "AC" if float(row[f"score_{name}"]) > 0.5]
        assert row["prediction"] == ";".join(expected)
        assert set(row["label"].split(";")) <= {"A", "C", ""}
    card = (tmp_path / "run" / "README.md").read_text()
    assert "Every label has a probability of its own" in card
    answers = predict(str(tmp_path / "run"), [("one", "CCCCCCCCCCAAAAAAAAAAGTGTGT")])
    assert len(list(answers)) == 1


def test_what_is_no_choice_for_such_labels_is_refused(tmp_path):
    table = write_rows(tmp_path / "rows.csv", len)
    with pytest.raises(ValueError, match="class_weights are for problem=classes"):
        run(table, tmp_path / "run", "regression", "class_weights=true")
    with pytest.raises(ValueError, match="classes, regression, multi_label are accepted"):
        run(table, tmp_path / "run", "ranking")
    same = write_rows(tmp_path / "same.csv", lambda text: 5)
    with pytest.raises(ValueError, match=r"All training records have the label 5\.0"):
        run(same, tmp_path / "again", "regression")


def test_the_scale_is_put_into_every_last_layer():
    torch.manual_seed(0)
    model = ChordMixerForSequenceClassification.config_class(**SMALL, num_labels=1, kmer_size=2)
    model = ChordMixerForSequenceClassification(model).eval()
    torch.nn.init.normal_(model.kmer_classifier.weight)
    inputs = DnaTokenizer()(["ACGTACGGT", "CC"], padding=True, return_tensors="pt")
    before = model(**inputs).logits.detach()
    target = Amount(mean=300.0, std=20.0)
    target.put_into(model)
    torch.testing.assert_close(model(**inputs).logits.detach(), before * 20 + 300)
