"""The steps from rows to results: what is trained, evaluated and left behind."""

import csv
import json
from copy import deepcopy

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from hf_mixers.data import PaddedCollator
from hf_mixers.recipes.options import (
    EvaluationOptions,
    RowArguments,
    RunArguments,
    change_arguments,
    find_checkpoint,
)
from hf_mixers.recipes.path import (
    Report,
    begin_run,
    longest_sequence,
    report_outputs,
    save_model,
    shrink,
    train_model,
)
from hf_mixers.recipes.targets import Classes
from tests.families import ROWS


def make_rows(**sizes):
    """Parts of sequences of a's (class 0) and of b's (class 1)."""
    return {
        name: [
            {"input_ids": [5 + n % 2] * (4 + n % 5), "labels": n % 2, "length": 4 + n % 5}
            for n in range(size)
        ]
        for name, size in sizes.items()
    }


def train(folder, patience=None, **sizes):
    target = Classes(["a", "b"])
    model = ROWS[0].build("sequence_classification", **target.config_fields())
    arguments = RowArguments(str(folder), num_train_epochs=3, learning_rate=0.0, disable_tqdm=True)
    rows = make_rows(**sizes)
    before = deepcopy(arguments.to_dict())
    trainer = train_model(
        model, arguments, rows, target, patience=patience, data_collator=PaddedCollator()
    )
    assert arguments.to_dict() == before, "the arguments given stay as they are"
    return trainer, rows, target


def test_without_a_validation_part_the_last_epoch_is_kept_and_every_epoch_logged(tmp_path):
    trainer, _, _ = train(tmp_path, train=8)
    losses = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 3
    assert not any("eval_loss" in entry for entry in trainer.state.log_history)
    assert trainer.state.best_model_checkpoint is None


def test_training_stops_when_evaluations_no_longer_improve(tmp_path):
    # nothing is learned with a learning rate of 0
    for patience, epochs in ((1, 2), (None, 3)):
        trainer, _, _ = train(tmp_path, patience, train=8, validation=4)
        losses = [entry for entry in trainer.state.log_history if "eval_loss" in entry]
        assert len(losses) == epochs
        assert "eval_accuracy" in losses[0]


def test_a_report_holds_what_the_folder_holds(tmp_path, caplog):
    caplog.set_level("INFO", "hf_mixers")
    trainer, rows, target = train(tmp_path, train=8, test=10)
    predicted = trainer.predict(rows["test"])
    assert save_model(trainer)
    outputs = {"model": predicted.predictions, "always a": np.tile([1.0, 0.0], (10, 1))}
    report = Report(
        part="test",
        dataset_name="letters",
        task="text-classification",
        options={"evaluation": EvaluationOptions()},
        columns={"length": [row["length"] for row in rows["test"]]},
        notes=["A note."],
    )
    results = report_outputs(trainer, outputs, predicted.label_ids, target, report)
    assert json.loads((tmp_path / "metrics.json").read_text())["test"].keys() == set(outputs)
    assert results["options"] == {
        "evaluation": {"report_on": "test", "patience": 3, "smoke": False}
    }
    assert results["test"]["always a"]["overall"]["accuracy"]["value"] == 0.5
    with open(tmp_path / "predictions.csv") as file:
        table = list(csv.DictReader(file))
    assert [row["label"] for row in table] == ["a", "b"] * 5
    assert [int(row["length"]) for row in table] == report.columns["length"]
    card = (tmp_path / "README.md").read_text()
    assert "A note." in card
    assert "letters" in card
    for name in ("history.png", "confusion.png", "by_length.png"):
        assert (tmp_path / name).stat().st_size > 1000
    assert f"Everything is in {tmp_path}/" in caplog.messages
    assert any(message.startswith("always a: accuracy 0.5000") for message in caplog.messages)


def test_smoke_runs_have_few_rows_of_every_class():
    rows = {"label": np.arange(1000) % 2, "row": np.arange(1000)}
    parts = {"train": Dataset.from_dict(rows), "test": Dataset.from_dict(rows).select(range(10))}
    small = shrink(DatasetDict(parts))
    assert {name: len(part) for name, part in small.items()} == {"train": 60, "test": 10}
    assert sum(small["train"]["label"]) == 30
    unlabelled = shrink(DatasetDict(parts).remove_columns("label"), None)
    assert len(unlabelled["train"]) == 60


def test_the_longest_sequence_may_be_in_any_part():
    parts = {"train": Dataset.from_dict({"length": [3, 9]}), "test": [{"length": 11}]}
    parts["test"] = Dataset.from_list(parts["test"])
    assert longest_sequence(parts) == 11


def test_a_run_without_matplotlib_ends_before_it_begins(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"require matplotlib: pip install 'hf-mixers\[plots\]'"):
        begin_run(RunArguments(str(tmp_path)))


def test_the_seed_of_a_run_sets_its_random_numbers(tmp_path):
    draws = []
    for seed in (1, 1, 2):
        begin_run(RunArguments(str(tmp_path), seed=seed))
        draws.append(np.random.random())
    assert draws[0] == draws[1] != draws[2]


def test_changed_arguments_are_a_copy(tmp_path):
    arguments = RunArguments(str(tmp_path), num_train_epochs=7)
    changed = change_arguments(arguments, num_train_epochs=1)
    assert (arguments.num_train_epochs, changed.num_train_epochs) == (7, 1)
    same = {k: v for k, v in changed.to_dict().items() if k != "num_train_epochs"}
    assert same == {k: v for k, v in arguments.to_dict().items() if k != "num_train_epochs"}
    with pytest.raises(ValueError, match="'epochs' is not an argument of RunArguments"):
        change_arguments(arguments, epochs=1)


@pytest.mark.parametrize(
    ("given", "found"),
    [("true", True), ("False", False), ("runs/checkpoint-3", "runs/checkpoint-3"), (None, None)],
)
def test_the_last_checkpoint_is_asked_for_by_true(given, found, tmp_path):
    arguments = RunArguments(str(tmp_path), resume_from_checkpoint=given)
    assert find_checkpoint(arguments) == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"report_on": "train"}, "report_on must be test or validation, got 'train'."),
        ({"patience": 0}, "patience must be at least 1, or none for no early stopping, got 0."),
    ],
)
def test_evaluations_that_cannot_be_are_refused(given, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        EvaluationOptions(**given)
