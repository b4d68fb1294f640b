"""Muon and AdamW as one optimizer: who steps what, schedules, resuming, arguments."""

import pytest
import torch
from torch import nn

from hf_mixers.training.optimizers import MuonWithAdamW, decay_by_depth, split_for_muon
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


@every_family
@pytest.mark.parametrize("muon", [None, 2e-2])
def test_learning_rates_fall_with_depth(row, muon, tmp_path):
    given = {"learning_rate": 1e-3, "muon_learning_rate": muon, "layer_learning_rate_decay": 0.5}
    trainer = build_trainer(row.name, arguments(tmp_path, **given))
    optimizer = trainer.create_optimizer()
    rates = {id(p): g["lr"] for g in optimizer.param_groups for p in g["params"]}
    names = dict(trainer.model.named_parameters())
    assert len(rates) == len(names)
    count = trainer.model.config.num_hidden_layers
    for name, parameter in names.items():
        depth = 0
        if ".layers." in name:
            depth = count - int(name.split(".layers.")[1].split(".")[0])
        elif "embed" in name:
            depth = count + 1
        by_muon = muon and ".layers." in name and parameter.ndim == 2
        assert rates[id(parameter)] == pytest.approx((muon if by_muon else 1e-3) * 0.5**depth)


def test_blocks_of_models_of_transformers_have_rates_of_their_own():
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    model = BertForSequenceClassification(BertConfig(num_hidden_layers=2, **sizes))
    groups = decay_by_depth([{"params": list(model.parameters()), "lr": 1.0}], model, 0.5)
    assert [group["lr"] for group in groups] == [1.0, 0.5, 0.25, 0.125]
    names = {id(p): name for name, p in model.named_parameters()}
    words = ("classifier", "encoder.layer.1.", "encoder.layer.0.", "embeddings.")
    for group, word in zip(groups, words, strict=True):
        found = {names[id(p)] for p in group["params"]}
        assert any(word in name for name in found)
        others = [one for one in words if one != word]
        assert not any(one in name for name in found for one in others)
    with pytest.raises(ValueError, match="Linear has no single stack of blocks"):
        decay_by_depth([], nn.Linear(1, 1), 0.5)


@pytest.mark.parametrize("muon", [None, 2e-2])
def test_rates_fall_once_and_an_optimizer_that_is_given_keeps_its_own(muon, tmp_path):
    given = {"muon_learning_rate": muon, "layer_learning_rate_decay": 0.5}
    trainer = build_trainer("chordmixer", arguments(tmp_path, **given))
    once = [group["lr"] for group in trainer.create_optimizer().param_groups]
    assert [group["lr"] for group in trainer.create_optimizer().param_groups] == once
    other = build_trainer("chordmixer", arguments(tmp_path, **given))
    other.optimizer = MuonWithAdamW(make_groups(other.model))
    assert len({group["lr"] for group in other.create_optimizer().param_groups}) == 2


def test_embeddings_have_the_lowest_rates_whatever_they_are_called():
    from transformers import T5Config, T5EncoderModel, T5ForConditionalGeneration

    sizes = {"vocab_size": 9, "d_model": 8, "d_kv": 4, "d_ff": 8, "num_heads": 2, "num_layers": 3}
    model = T5EncoderModel(T5Config(**sizes))
    groups = decay_by_depth([{"params": list(model.parameters()), "lr": 1.0}], model, 0.5)
    rates = {id(p): group["lr"] for group in groups for p in group["params"]}
    assert rates[id(model.shared.weight)] == 0.5**4
    for place, block in enumerate(model.encoder.block):
        # tables of positions inside a block are of that block
        assert {rates[id(p)] for p in block.parameters()} == {0.5 ** (3 - place)}
    model = T5ForConditionalGeneration(T5Config(**sizes))
    with pytest.raises(ValueError, match="T5ForConditionalGeneration has no single stack"):
        decay_by_depth([], model, 0.5)


@one_family
@pytest.mark.parametrize("decay", [None, 0.7])
def test_a_resumed_run_equals_one_without_a_break(row, decay, tmp_path):
    given = {"muon_learning_rate": 2e-2, "save_strategy": "steps", "save_steps": 3}
    given["layer_learning_rate_decay"] = decay
    whole = build_trainer(row.name, arguments(tmp_path / "whole", max_steps=6, **given))
    whole.train()
    rest = build_trainer(row.name, arguments(tmp_path / "whole", max_steps=6, **given))
    rest.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-3"))
    assert losses(rest)[-1] == pytest.approx(losses(whole)[-1], abs=1e-6)
    for own, other in zip(whole.model.parameters(), rest.model.parameters(), strict=True):
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize(
    "changed",
    [
        {"layer_learning_rate_decay": 0.5},
        {"layer_learning_rate_decay": None},
        {"muon_learning_rate": None},
        {"learning_rate": 5e-4},
    ],
)
def test_a_run_does_not_go_on_with_other_rates_than_it_was_asked_for(changed, tmp_path):
    given = {"muon_learning_rate": 2e-2, "save_strategy": "steps", "save_steps": 1}
    given["layer_learning_rate_decay"] = 0.7
    build_trainer("chordmixer", arguments(tmp_path, max_steps=1, **given)).train()
    other = build_trainer("chordmixer", arguments(tmp_path, max_steps=2, **given | changed))
    with pytest.raises(ValueError, match="was trained with other learning rates"):
        other.train(resume_from_checkpoint=True)


@pytest.mark.parametrize("kept", ["averages", "weights"])
def test_a_finished_run_that_is_resumed_takes_no_further_step(kept, tmp_path):
    given = {"lr_scheduler_type": "constant", "save_strategy": "steps", "save_steps": 4}
    given["weight_average_decay"] = 0.5 if kept == "averages" else None
    # in the middle of an epoch
    whole = build_trainer("chordmixer", arguments(tmp_path, max_steps=4, **given))
    whole.train()
    again = build_trainer("chordmixer", arguments(tmp_path, max_steps=4, **given))
    again.train(resume_from_checkpoint=True)
    assert again.state.global_step == 4
    for own, other in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=0)
