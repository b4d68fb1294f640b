"""Averages of weights: evaluated and saved in place of the last ones, and resumed exactly."""

import pytest
import torch
from safetensors.torch import load_file

from hf_mixers.training.averages import WeightAverage, has_averages
from tests.families import one_family
from tests.training.test_safe import build, make_arguments, make_examples

AVERAGED = {"weight_average_decay": 0.9, "learning_rate": 3e-2}
STEPS = {"save_strategy": "steps", "save_steps": 2}


def weights_of(trainer):
    return {name: value.detach().clone() for name, value in trainer.model.named_parameters()}


def record_weights(trainer):
    """The weights that training goes on with, after every step."""
    seen = []
    trainer.create_optimizer()
    trainer.optimizer.register_step_post_hook(lambda *_: seen.append(weights_of(trainer)))
    return seen


def average_of(seen, decay):
    """The same by the definition, over all steps."""
    made = {name: value.double() for name, value in seen[0].items()}
    for step, weights in enumerate(seen[1:], 2):
        share = min(decay, step / (step + 9))
        made = {name: share * made[name] + (1 - share) * weights[name].double() for name in made}
    return made


def assert_equal(own, other):
    for name, value in own.items():
        torch.testing.assert_close(value.float(), other[name].float(), msg=name)


@one_family
@pytest.mark.parametrize("muon", [None, 2e-2])
def test_the_model_ends_with_the_averages_of_its_steps(row, muon, tmp_path):
    trainer = build(tmp_path, row, muon_learning_rate=muon, **AVERAGED)
    seen = record_weights(trainer)
    trainer.train()
    assert len(seen) == 4
    assert_equal(average_of(seen, 0.9), weights_of(trainer))
    changed = (weights_of(trainer)[name] - value for name, value in seen[-1].items())
    assert max(float(change.abs().max()) for change in changed) > 1e-4
    assert not has_averages(trainer.optimizer)


@one_family
def test_evaluation_and_checkpoints_have_the_averages_and_training_does_not_notice(row, tmp_path):
    evaluated = {"eval_strategy": "steps", "eval_steps": 2, "eval_dataset": make_examples(5)}
    trainer = build(tmp_path, row, **AVERAGED, **STEPS, **evaluated)
    seen = record_weights(trainer)
    trainer.train()
    plain = build(tmp_path / "plain", row, learning_rate=3e-2)
    others = record_weights(plain)
    plain.train()
    for own, other in zip(seen, others, strict=True):
        assert_equal(own, other)
    saved = load_file(tmp_path / "checkpoint-2" / "model.safetensors")
    assert_equal(average_of(seen[:2], 0.9), saved)
    losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
    assert trainer.evaluate()["eval_loss"] == pytest.approx(losses[-1], abs=1e-6)


@one_family
def test_a_resumed_run_equals_one_without_a_break(row, tmp_path):
    whole = build(tmp_path, row, **AVERAGED, **STEPS)
    whole.train()
    rest = build(tmp_path, row, **AVERAGED, **STEPS)
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert_equal(weights_of(whole), weights_of(rest))
    without = build(tmp_path, row, **AVERAGED | {"weight_average_decay": None}, **STEPS)
    with pytest.raises(ValueError, match="has averages of the weights: set weight_average_decay"):
        without.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


@one_family
def test_the_best_checkpoint_is_kept_with_its_averages(row, tmp_path):
    evaluated = {"eval_strategy": "steps", "eval_steps": 2, "eval_dataset": make_examples(5)}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "loss"}
    trainer = build(tmp_path, row, **AVERAGED, **STEPS, **evaluated, **best)
    trainer.train()
    saved = load_file(f"{trainer.state.best_model_checkpoint}/model.safetensors")
    assert_equal(weights_of(trainer), saved)


def test_weights_that_were_never_stepped_stay():
    used, unused = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = torch.optim.AdamW([used, unused], lr=0.1)
    average = WeightAverage(optimizer, 0.5)
    average.swap()
    assert used.tolist() == [1, 1]
    used.sum().backward()
    optimizer.step()
    average.finish()
    assert unused.tolist() == [1, 1]


@pytest.mark.parametrize("decay", [0, 1, -0.5, 2])
def test_a_decay_that_is_no_share_is_refused(decay, tmp_path):
    with pytest.raises(ValueError, match="weight_average_decay must lie between 0 and 1, got"):
        make_arguments(tmp_path, weight_average_decay=decay)
