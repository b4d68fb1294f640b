"""Trainings stop at bad numbers, say so before they start, and leave a history."""

import numpy as np
import pytest
import torch
from datasets import Dataset

from hf_mixers import DnaTokenizer
from hf_mixers.data import FlatCollator, PaddedCollator
from hf_mixers.models.losses import sequence_loss
from hf_mixers.training import MixerTrainer, MixerTrainingArguments
from tests.families import every_family, find_row, one_family


def make_arguments(folder, **changes):
    defaults = {
        "output_dir": str(folder),
        "train_token_budget": 128,
        "max_steps": 4,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
    }
    return MixerTrainingArguments(**{**defaults, **changes})


def make_examples(count=24, label=lambda number: number % 2):
    generator = np.random.default_rng(0)
    return [
        {"input_ids": generator.integers(5, 9, 5 + number), "labels": label(number)}
        for number in range(count)
    ]


def build(folder, row=None, examples=None, head="sequence_classification", **changes):
    fields = changes.pop("fields", {})
    collator = changes.pop("collator", FlatCollator())
    evaluation = changes.pop("eval_dataset", None)
    return MixerTrainer(
        (row or find_row("chordmixer")).build(head, max_position_embeddings=64, **fields),
        make_arguments(folder, **changes),
        train_dataset=make_examples() if examples is None else examples,
        eval_dataset=evaluation,
        data_collator=collator,
    )


# --- numbers that are not finite ---


@one_family
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_labels_that_are_not_finite_stop_the_first_step(row, bad, tmp_path):
    examples = make_examples(label=lambda number: bad if number == 7 else 0.5)
    fields = {"num_labels": 1}
    # one batch, so that the bad label is in the first
    trainer = build(tmp_path, row, examples, fields=fields, train_token_budget=10**6)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    with pytest.raises(ValueError, match=f"^labels hold {bad} at step 1: finite numbers"):
        trainer.train()
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(value, before[name])


@one_family
def test_inputs_that_are_not_finite_stop_the_step_they_are_in(row, tmp_path):
    examples = [{"input_values": torch.randn(9, 2), "labels": i % 2} for i in range(8)]
    examples[3]["input_values"][4, 1] = torch.inf
    fields = {"input_features": 2}
    trainer = build(tmp_path, row, examples, fields=fields, train_token_budget=10**6)
    with pytest.raises(ValueError, match=r"^input_values hold inf at step 1"):
        trainer.train()


@every_family
def test_weights_that_are_not_finite_are_named_before_training(row, tmp_path):
    trainer = build(tmp_path, row)
    with torch.no_grad():
        trainer.model.classifier.bias[0] = torch.nan
    with pytest.raises(ValueError, match=r"The weight classifier\.bias is not finite before"):
        trainer.train()


@pytest.mark.parametrize("weights", [[1.0, float("nan")], [float("inf"), 1.0]])
def test_class_weights_that_are_not_finite_are_named_before_training(weights, tmp_path):
    trainer = build(tmp_path)
    trainer.model.config.class_weights = weights
    with pytest.raises(ValueError, match=r"config\.class_weights hold (nan|inf)"):
        trainer.train()


def test_a_training_that_diverges_names_the_weight_that_did(tmp_path):
    trainer = build(tmp_path, learning_rate=1e38, max_grad_norm=0, optim="sgd", max_steps=20)
    message = r"(The weight \S+ is not finite|The loss is (nan|inf)) (at step \d+|after the last)"
    with pytest.raises(ValueError, match=message):
        trainer.train()


def test_the_last_step_is_looked_at_too(tmp_path):
    trainer = build(tmp_path, max_steps=1, learning_rate=float("inf"), optim="sgd")
    with pytest.raises(ValueError, match=r"The weight \S+ is not finite after the last step"):
        trainer.train()


def test_a_loss_without_a_bad_input_is_named_itself(tmp_path, monkeypatch):
    trainer = build(tmp_path)
    spoilt = staticmethod(lambda *args, **kwargs: sequence_loss(*args, **kwargs) * torch.inf)
    monkeypatch.setattr(type(trainer.model), "loss_function", spoilt)
    with pytest.raises(ValueError, match="The loss is inf at step 1, with finite weights and"):
        trainer.train()


def test_the_stop_can_be_switched_off(tmp_path):
    examples = make_examples(label=lambda number: float("nan"))
    trainer = build(tmp_path, examples=examples, fields={"num_labels": 1}, stop_on_nonfinite=False)
    assert trainer.train().global_step == 4


def test_evaluation_and_finite_trainings_are_left_alone(tmp_path):
    trainer = build(tmp_path, eval_dataset=make_examples(), eval_strategy="epoch")
    trainer.train()
    assert np.isfinite(trainer.evaluate()["eval_loss"])


# --- before the start ---


@pytest.mark.parametrize("empty", [[], {"easy": make_examples(2), "hard": []}])
def test_an_empty_evaluation_set_is_refused_before_training(empty, tmp_path):
    name = r"eval_dataset\['hard'\]" if isinstance(empty, dict) else "eval_dataset"
    trainer = build(tmp_path, eval_dataset=empty, eval_strategy="epoch")
    with pytest.raises(ValueError, match=f"^{name} is empty: at least one example is needed"):
        trainer.train()
    assert trainer.state.global_step == 0


def test_empty_sets_are_refused_by_evaluation_and_training(tmp_path):
    trainer = build(tmp_path, examples=[])
    with pytest.raises(ValueError, match=r"^train_dataset is empty"):
        trainer.train()
    with pytest.raises(ValueError, match=r"^The data set of evaluation is empty"):
        trainer.evaluate(Dataset.from_dict({"input_ids": [], "labels": []}))


@one_family
@pytest.mark.parametrize("collator", [FlatCollator, PaddedCollator])
def test_labels_of_tokens_need_a_collator_that_knows_them(row, collator, tmp_path):
    examples = make_examples()
    for example in examples:
        example["labels"] = example["input_ids"] % 2
    trainer = build(tmp_path, row, examples, "token_classification", collator=collator())
    with pytest.raises(ValueError, match=rf"use {collator.__name__}\(token_labels=True\)"):
        trainer.train()
    assert trainer.state.global_step == 0
    right = collator(token_labels=True)
    assert build(tmp_path, row, examples, "token_classification", collator=right).train()
    with pytest.raises(ValueError, match=r"labels of a batch must have one shape.*token_labels"):
        collator()(examples[:2])


def test_a_missing_collator_is_named_before_training(tmp_path):
    trainer = build(tmp_path, collator=None)
    with pytest.raises(ValueError, match=r"needs a data_collator, such as FlatCollator\(\)"):
        trainer.train()
    with pytest.raises(ValueError, match=r"needs a data_collator, such as FlatCollator\(\)"):
        trainer.evaluate(make_examples())
    # a tokenizer brings one that pads
    model = trainer.model
    arguments = make_arguments(tmp_path)
    data = [{**example, "input_ids": example["input_ids"].tolist()} for example in make_examples()]
    trainer = MixerTrainer(model, arguments, train_dataset=data, processing_class=DnaTokenizer())
    assert trainer.train().global_step == 4


# --- the history ---


@pytest.mark.parametrize("steps", [1, 7, 60])
def test_short_trainings_have_a_loss_in_their_history(steps, tmp_path):
    trainer = build(tmp_path, max_steps=steps, logging_steps=50)
    trainer.train()
    logged = [entry["step"] for entry in trainer.state.log_history if "loss" in entry]
    assert logged == ([50, 60] if steps == 60 else [steps])


def test_trainings_without_a_log_have_none(tmp_path):
    trainer = build(tmp_path, logging_strategy="no")
    trainer.train()
    assert not [entry for entry in trainer.state.log_history if "loss" in entry]
