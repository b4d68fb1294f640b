"""ChordMixer's network against its slow twin, forward and gradient, and its own settings."""

import pytest
import torch

from hf_mixers.models import packing
from tests.families import ROWS, flatten, random_ids
from tests.reference import chord as reference

ROW = ROWS[0]
LENGTHS = [1, 2, 3, 8, 9, 33]


@pytest.mark.parametrize("changes", [{}, *ROW.variants.values()], ids=["plain", *ROW.variants])
def test_the_network_equals_its_slow_twin_forward_and_gradient(changes):
    model = ROW.build(**changes).double()
    for name, buffer in model.named_buffers():
        if "running" in name:
            buffer.copy_(torch.rand_like(buffer) + 0.5)
    sequences = [random_ids(n) for n in LENGTHS]
    output = model(**flatten(sequences)).last_hidden_state[0]
    state = dict(model.named_parameters()) | dict(model.named_buffers())
    slow = torch.cat(
        [
            reference.run_blocks(state["embed_tokens.weight"][ids], state, model.config)
            for ids in sequences
        ]
    )
    slow = reference.finish(slow, model.config, state)
    torch.testing.assert_close(output, slow)
    weights = torch.randn_like(output)
    parameters = list(model.parameters())
    fast_gradients = torch.autograd.grad((output * weights).sum(), parameters)
    slow_gradients = torch.autograd.grad((slow * weights).sum(), parameters, allow_unused=True)
    for fast, slow_gradient in zip(fast_gradients, slow_gradients, strict=True):
        # blocks that no sequence needs have a zero gradient here and none in the twin
        expected = torch.zeros_like(fast) if slow_gradient is None else slow_gradient
        torch.testing.assert_close(fast, expected)


def test_rotation_without_dropout_differs_from_rotation_with():
    ids = random_ids(1, 9)
    model = ROW.build(rotate_dropout_prob=0.5).train()
    assert not torch.equal(model(ids).pooler_output, model(ids).pooler_output)


@pytest.mark.parametrize("kind", ["layer", "batch", "group"])
def test_norms_take_their_epsilon_from_the_config(kind):
    ids = random_ids(1, 9)
    near, far = (ROW.build(pre_norm=kind, norm_eps=eps)(ids).pooler_output for eps in (1e-5, 10.0))
    assert not torch.allclose(near, far, atol=1e-2)


def test_norm_groups_override_the_authors_choice():
    model = ROW.build(pre_norm="group", norm_groups=4)
    assert model.layers[0].norm_before.num_groups == 4
    assert ROW.build(pre_norm="group").layers[0].norm_before.num_groups == 3
    with pytest.raises(Exception, match="norm_groups must divide the width 36, got 5"):
        ROW.config(pre_norm="group", norm_groups=5)


def test_the_decoder_too_answers_alike_alone_and_in_company(monkeypatch):
    model = ROW.build("masked_lm", decoder_type="chordmixer")
    sequences = [random_ids(n) for n in LENGTHS]
    flat = model(**flatten(sequences)).logits[0]
    alone = torch.cat([model(ids[None]).logits[0] for ids in sequences])
    torch.testing.assert_close(flat, alone, atol=1e-5, rtol=1e-5)
    monkeypatch.setattr(packing, "use_static_layout", lambda: True)
    torch.testing.assert_close(model(**flatten(sequences)).logits[0], alone, atol=1e-5, rtol=1e-5)


def test_widths_of_the_decoder_are_its_own():
    model = ROW.build("masked_lm", decoder_type="chordmixer", decoder_intermediate_size=7)
    assert model.decoder.project.out_features == 12 * 8 == model.lm_head.in_features
    assert model.decoder.layers[0].mix.fc1.out_features == 7
    with pytest.raises(Exception, match="tie_word_embeddings needs decoder_type='linear'"):
        ROW.config(decoder_type="chordmixer", tie_word_embeddings=True)


def test_defaults_follow_the_longest_length():
    config = ROW.family.config(max_position_embeddings=1000)
    assert (config.num_hidden_layers, config.num_tracks) == (10, 11)
    assert ROW.family.config(max_position_embeddings=1024).num_hidden_layers == 10
    assert ROW.family.config(max_position_embeddings=1025).num_hidden_layers == 11
    assert ROW.family.config(max_position_embeddings=1).num_hidden_layers == 1
    with pytest.raises(Exception, match="num_tracks must be at least 1"):
        ROW.config(num_tracks=0)
    with pytest.raises(Exception, match="num_hidden_layers must be at least 1"):
        ROW.config(num_hidden_layers=0)


def test_linear_layers_start_xavier_uniform_and_without_bias():
    model = ROW.build(
        "masked_lm", decoder_type="chordmixer", intermediate_size=64, weight_init="published"
    )
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            bound = (6 / sum(module.weight.shape)) ** 0.5
            assert 0.8 * bound < module.weight.abs().max() <= bound
            assert not module.bias.any()
