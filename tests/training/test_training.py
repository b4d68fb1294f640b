"""MixerTrainer: token budgets, exact evaluation, resuming, processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import TrainingArguments

from hf_mixers import DnaTokenizer
from hf_mixers.data.collators import FlatCollator, MaskedLMCollator, PaddedCollator
from hf_mixers.training import MixerTrainingArguments, sequence_lengths
from tests.families import every_family, one_family
from tests.training import sharded_run
from tests.training.training_run import SequenceData, build_trainer


def arguments(folder, **changes):
    defaults = {
        "output_dir": str(folder),
        "train_token_budget": 256,
        "eval_token_budget": 512,
        "num_train_epochs": 2,
        "learning_rate": 3e-3,
        "report_to": "none",
        "save_strategy": "no",
        "logging_steps": 1,
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 5,
    }
    return MixerTrainingArguments(**{**defaults, **changes})


def losses(trainer):
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@every_family
@pytest.mark.parametrize("collator", [FlatCollator(), PaddedCollator()])
def test_it_learns_with_either_layout(row, collator, tmp_path):
    trainer = build_trainer(row.name, arguments(tmp_path, num_train_epochs=12), collator)
    trainer.train()
    assert trainer.evaluate()["eval_accuracy"] > 0.95


@every_family
def test_batches_keep_to_the_budget_and_epochs_differ(row, tmp_path):
    trainer = build_trainer(row.name, arguments(tmp_path))
    loader = trainer.get_train_dataloader()
    epochs = []
    for epoch in range(2):
        loader.set_epoch(epoch)
        batches = [batch["input_ids"] for batch in loader]
        assert len(batches) == len(loader)
        assert all(batch.shape[1] <= 256 for batch in batches)
        epochs.append(torch.cat(batches, dim=1))
    assert epochs[0].shape == epochs[1].shape
    assert not torch.equal(*epochs)


@every_family
def test_evaluation_is_exact_and_in_the_order_of_the_data(row, tmp_path):
    trainer = build_trainer(row.name, arguments(tmp_path))
    data = trainer.eval_dataset
    output = trainer.predict(data)
    model = trainer.model.eval()
    with torch.no_grad():
        alone = [
            model(torch.tensor(data[i]["input_ids"])[None].long()).logits for i in range(len(data))
        ]
    expected = torch.cat(alone)
    labels = torch.tensor([data[i]["labels"] for i in range(len(data))])
    np.testing.assert_allclose(output.predictions, expected.numpy(), atol=1e-4)
    assert output.label_ids.tolist() == labels.tolist()
    mean = torch.nn.functional.cross_entropy(expected, labels).item()
    assert output.metrics["test_loss"] == pytest.approx(mean, rel=1e-4)
    # the budget must not matter
    for budget in (64, 100_000):
        trainer.args.eval_token_budget = budget
        assert trainer.evaluate()["eval_loss"] == pytest.approx(mean, rel=1e-4)


@one_family
def test_without_budgets_it_is_the_stock_trainer(row, tmp_path):
    plain = TrainingArguments(
        str(tmp_path), report_to="none", disable_tqdm=True, use_cpu=True, max_steps=2
    )
    trainer = build_trainer(row.name, plain, PaddedCollator())
    trainer.train()
    assert trainer.get_train_dataloader().batch_sampler.batch_size == 8
    assert "eval_accuracy" in trainer.evaluate()


@one_family
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(row, tmp_path):
    def run(folder, resume=None, **changes):
        trainer = build_trainer(
            row.name,
            arguments(folder, save_strategy="steps", save_steps=3, **changes),
            MaskedLMCollator(FlatCollator(), DnaTokenizer()),
            head="masked_lm",
        )
        trainer.train(resume_from_checkpoint=resume)
        return losses(trainer), trainer.model.state_dict()

    straight, weights = run(tmp_path / "straight")
    steps_in_epoch = len(straight) // 2
    assert len(straight) > 6
    for stop in (3, steps_in_epoch // 3 * 3 + 3):  # in the first and in the second epoch
        checkpoint = tmp_path / "straight" / f"checkpoint-{stop}"
        assert checkpoint.exists()
        resumed, resumed_weights = run(tmp_path / f"resumed-{stop}", resume=str(checkpoint))
        assert resumed == pytest.approx(straight, rel=1e-4)
        for name, value in weights.items():
            torch.testing.assert_close(resumed_weights[name], value)


@one_family
@pytest.mark.parametrize(
    "changes",
    [
        {"bf16": True},
        {"gradient_accumulation_steps": 3},
        {"gradient_checkpointing": True},
        {"dataloader_num_workers": 2},
        {"torch_compile": True, "torch_compile_backend": "aot_eager", "max_steps": 2},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_the_usual_options_run(row, changes, tmp_path):
    trainer = build_trainer(row.name, arguments(tmp_path, **{"max_steps": 4, **changes}))
    trainer.train()
    assert np.isfinite(losses(trainer)).all()


@every_family
def test_masked_lm_evaluation_gives_one_row_per_labelled_token(row, tmp_path):
    collator = MaskedLMCollator(FlatCollator(), DnaTokenizer())
    trainer = build_trainer(row.name, arguments(tmp_path), collator, head="masked_lm")
    output = trainer.predict(trainer.eval_dataset)
    assert output.predictions.shape == (len(output.label_ids), 20)
    assert (output.label_ids != -100).all()
    again = trainer.predict(trainer.eval_dataset)
    assert again.metrics["test_loss"] == output.metrics["test_loss"]
    only_loss = trainer.evaluation_loop(
        trainer.get_eval_dataloader(), "Evaluation", prediction_loss_only=True
    )
    assert only_loss.predictions is None
    assert only_loss.metrics["eval_loss"] == pytest.approx(output.metrics["test_loss"], rel=1e-5)


class TokenData(SequenceData):
    """Tokens to tell apart, with their labels or without."""

    with_labels = False

    def __getitem__(self, index):
        ids = super().__getitem__(index)["input_ids"]
        return {"input_ids": ids} | ({"labels": ids % 2} if self.with_labels else {})


@pytest.mark.parametrize("with_labels", [False, True])
@pytest.mark.parametrize("collator", [FlatCollator, PaddedCollator])
def test_predictions_of_tokens_come_in_the_order_of_the_data(collator, with_labels, tmp_path):
    settings = arguments(tmp_path, eval_token_budget=64)
    collator = collator(token_labels=with_labels)
    trainer = build_trainer("chordmixer", settings, collator, head="token_classification")
    data = TokenData([3, 40, 1, 30, 12, 25], seed=2)
    data.with_labels = with_labels
    output = trainer.predict(data)
    ids = [torch.tensor(data[i]["input_ids"]).long() for i in range(len(data))]
    with torch.no_grad():
        alone = [trainer.model.eval()(one[None]).logits[0] for one in ids]
    np.testing.assert_allclose(output.predictions, torch.cat(alone).numpy(), atol=1e-4)
    if with_labels:
        assert output.label_ids.tolist() == (torch.cat(ids) % 2).tolist()
    else:
        assert output.label_ids is None


def test_hidden_states_are_no_predictions(tmp_path):
    trainer = build_trainer("chordmixer", arguments(tmp_path))
    expected = trainer.predict(trainer.eval_dataset).predictions
    trainer.model.config.output_hidden_states = True
    np.testing.assert_array_equal(trainer.predict(trainer.eval_dataset).predictions, expected)


def test_full_evaluation_is_in_its_precision(tmp_path):
    trainer = build_trainer("chordmixer", arguments(tmp_path, bf16_full_eval=True))
    trainer.evaluate()
    assert trainer.model.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("budget", "changes"),
    [
        ("eval", {"include_for_metrics": ["inputs"]}),
        ("eval", {"batch_eval_metrics": True}),
        ("eval", {"eval_do_concat_batches": False}),
        ("train", {"train_sampling_strategy": "group_by_length"}),
        ("train", {"auto_find_batch_size": True}),
        ("train", {"dataloader_drop_last": True}),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_arguments_that_work_with_batch_sizes_only_are_refused(budget, changes, tmp_path):
    budget = f"{budget}_token_budget"
    with pytest.raises(ValueError, match=f"{next(iter(changes))}.*set {budget} to None"):
        build_trainer("chordmixer", arguments(tmp_path, **changes), head="masked_lm")
    stock = arguments(tmp_path, **{budget: None}, **changes)
    build_trainer("chordmixer", stock, head="masked_lm")


def test_workers_that_live_on_are_refused_where_epochs_differ(tmp_path):
    settings = arguments(
        tmp_path, dataloader_num_workers=1, dataloader_persistent_workers=True, max_steps=1
    )
    collator = MaskedLMCollator(FlatCollator(), DnaTokenizer())
    trainer = build_trainer("chordmixer", settings, collator, head="masked_lm")
    with pytest.raises(ValueError, match="MaskedLMCollator changes with the epoch"):
        trainer.train()
    assert build_trainer("chordmixer", settings).get_train_dataloader().persistent_workers


@pytest.mark.parametrize("lengths", [[60, 50, 40], [20]], ids=["long", "few"])
def test_processes_without_a_batch_of_their_own_count_nothing_twice(lengths, tmp_path, monkeypatch):
    trainer = build_trainer("chordmixer", arguments(tmp_path, eval_token_budget=64))
    data = SequenceData(lengths, seed=3)
    alone = trainer.predict(data)
    parts, steps = [], []
    monkeypatch.setattr(
        "hf_mixers.training.trainer.gather_object", lambda own: parts.extend(own) or parts
    )
    monkeypatch.setattr(TrainingArguments, "world_size", 2)
    for rank in range(2):
        monkeypatch.setattr(TrainingArguments, "process_index", rank)
        loader = trainer.get_test_dataloader(data)
        together = trainer.evaluation_loop(loader, "Prediction", metric_key_prefix="test")
        steps.append(len(loader))
    assert steps[0] == steps[1]
    assert len(parts) == sum(steps) > len(lengths)
    np.testing.assert_allclose(together.predictions, alone.predictions, atol=1e-5)
    assert together.label_ids.tolist() == alone.label_ids.tolist()
    assert together.metrics["test_loss"] == pytest.approx(alone.metrics["test_loss"], rel=1e-5)


def test_lengths_come_from_wherever_they_are():
    import datasets

    rows = [{"input_ids": [5] * n} for n in (3, 1, 2)]
    assert sequence_lengths(rows).tolist() == [3, 1, 2]
    table = datasets.Dataset.from_list([{**r, "length": len(r["input_ids"])} for r in rows])
    assert sequence_lengths(table).tolist() == [3, 1, 2]
    assert sequence_lengths(SequenceData([3, 1, 2])).tolist() == [3, 1, 2]
    with pytest.raises(ValueError, match="give the data set a column 'length'"):
        sequence_lengths([{"labels": 1}])
    for stream in (table.to_iterable_dataset(), torch.utils.data.ChainDataset([])):
        with pytest.raises(ValueError, match="which a stream does not have: set train_token"):
            sequence_lengths(stream)


def launch(module: str, processes: int, output: Path, *arguments: str):
    """What a module writes when it runs in several processes that talk over gloo."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={processes}", "-m", module, str(output), *arguments]
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[2],
        timeout=200,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(output.read_text())


@pytest.mark.processes
@one_family
def test_two_processes_train_like_one_on_the_same_batches(row, tmp_path):
    # two processes see in one step what one process sees in two accumulated ones
    settings = {"family": row.name}
    two = launch("tests.training.training_run", 2, tmp_path / "two.json", json.dumps(settings))
    settings |= {"accumulate": 2, "count_like": 2}
    one = launch("tests.training.training_run", 1, tmp_path / "one.json", json.dumps(settings))
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-3)
    assert two["eval"] == pytest.approx(one["eval"], rel=1e-3)
    assert two["labels"] == one["labels"]
    assert len(two["labels"]) == two["num_examples"]
    np.testing.assert_allclose(two["predictions"], one["predictions"], atol=1e-3)


@pytest.mark.processes
@one_family
def test_fully_sharded_training_has_the_losses_of_one_process(row, tmp_path):
    sharded = launch("tests.training.sharded_run", 2, tmp_path / "sharded.json", row.name)
    assert sharded == pytest.approx(sharded_run.train(row.name, rank=None), rel=1e-4)
