"""Muon and AdamW as one optimizer: who steps what, schedules, resuming, arguments."""

import pytest
import torch
from torch import nn

from hf_mixers.training.optimizers import MuonWithAdamW, split_for_muon
from tests.families import every_family, find_row, one_family
from tests.training.test_training import arguments, losses
from tests.training.training_run import build_trainer


def make_groups(model, **changes):
    names = [name for name, p in model.named_parameters() if p.ndim > 1]
    settings = {"learning_rate": 1e-3, "muon_learning_rate": 2e-2, "weight_decay": 0.1}
    return split_for_muon(model, names, **{**settings, **changes})


@every_family
def test_matrices_of_blocks_are_for_muon_and_nothing_is_left_out(row):
    model = row.build("masked_lm")
    muon, *others = make_groups(model)
    assert muon["use_muon"]
    assert not any(group["use_muon"] for group in others)
    names = {id(p): name for name, p in model.named_parameters()}
    chosen = [names[id(p)] for p in muon["params"]]
    assert chosen
    assert all(".layers." in name for name in chosen)
    assert not any("embed" in name or "head" in name for name in chosen)
    every = [p for group in (muon, *others) for p in group["params"]]
    assert sorted(map(id, every)) == sorted(names)


def test_each_group_is_stepped_by_its_own_optimizer():
    torch.manual_seed(0)
    start = [nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.randn(4))]
    twins = [nn.Parameter(p.detach().clone()) for p in start]
    both = MuonWithAdamW(
        [
            {"params": start[:1], "use_muon": True, "lr": 0.02, "weight_decay": 0.1},
            {"params": start[1:], "use_muon": False, "lr": 0.003, "weight_decay": 0.0},
        ]
    )
    alone = [
        torch.optim.Muon(twins[:1], lr=0.02, weight_decay=0.1),
        torch.optim.AdamW(twins[1:], lr=0.003, weight_decay=0.0),
    ]
    for _ in range(3):
        for own, twin in zip(start, twins, strict=True):
            own.grad = torch.randn_like(own)
            twin.grad = own.grad.clone()
        both.step()
        for optimizer in alone:
            optimizer.step()
    torch.testing.assert_close(start, twins)


def test_schedule_and_state_reach_both():
    model = find_row("chordmixer").build("masked_lm")
    optimizer = MuonWithAdamW(make_groups(model))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    schedule.step()
    assert [group["lr"] for group in optimizer.param_groups] == [1e-2, 5e-4, 5e-4]
    saved = optimizer.state_dict()
    other = MuonWithAdamW(make_groups(model))
    other.load_state_dict(saved)
    assert [group["lr"] for group in other.param_groups] == [1e-2, 5e-4, 5e-4]
    assert len(other.state) == len(optimizer.state) == len(list(model.parameters()))


def test_an_optimizer_without_parameters_is_refused():
    with pytest.raises(ValueError, match="needs parameters"):
        MuonWithAdamW([])


@one_family
@pytest.mark.parametrize("bf16", [False, True])
def test_the_trainer_learns_with_muon(row, bf16, tmp_path):
    given = {"num_train_epochs": 8, "muon_learning_rate": 2e-2, "bf16": bf16}
    trainer = build_trainer(row.name, arguments(tmp_path, **given))
    trainer.train()
    inner = getattr(trainer.optimizer, "optimizer", trainer.optimizer)
    assert isinstance(inner, MuonWithAdamW)
    assert trainer.evaluate()["eval_accuracy"] > 0.9


@one_family
def test_a_resumed_run_equals_one_without_a_break(row, tmp_path):
    given = {"muon_learning_rate": 2e-2, "save_strategy": "steps", "save_steps": 3}
    whole = build_trainer(row.name, arguments(tmp_path / "whole", max_steps=6, **given))
    whole.train()
    rest = build_trainer(row.name, arguments(tmp_path / "whole", max_steps=6, **given))
    rest.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-3"))
    assert losses(rest)[-1] == pytest.approx(losses(whole)[-1], abs=1e-6)
    for own, other in zip(whole.model.parameters(), rest.model.parameters(), strict=True):
        torch.testing.assert_close(own, other)
