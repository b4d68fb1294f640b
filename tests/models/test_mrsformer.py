"""MrsFormer against its slow twin, forward and gradient; what its kinds of heads learn."""

import pytest
import torch

from hf_mixers import (
    MrsFormerConfig,
    MrsFormerForSequenceClassification,
    MrsFormerModel,
)
from hf_mixers.models import packing
from tests.families import SHARED_VARIANTS, find_row, flatten, random_ids
from tests.reference import multiresolution as reference

ROW = find_row("mrsformer")
LENGTHS = [1, 2, 3, 8, 9, 33]
VARIANTS = {
    **SHARED_VARIANTS,
    **ROW.variants,
    "linformer, shared": {"attention_type": "linformer", "linformer_shared": True},
    "luna, other scales of keys": {
        "attention_type": "luna",
        "head_scales": [1, 2, 2, 4],
        "key_scales": [4, 1, 2, 2],
    },
    # the plain mechanisms
    **{
        f"{kind}, scale 1": {"attention_type": kind, "head_scales": [1, 1]}
        for kind in ("linear", "linformer", "performer", "fmm", "luna")
    },
}


def slow_output(model, ids):
    """Output of one sequence by the slow twin, memory and CLS token included."""
    state = {**dict(model.named_buffers()), **dict(model.named_parameters())}
    rows = reference.embed(ids, state, model.config)
    return reference.run_blocks(rows, state, model.config)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_the_network_equals_its_slow_twin_forward_and_gradient(changes, static, monkeypatch):
    monkeypatch.setattr(packing, "use_static_layout", lambda: static)
    model = ROW.build(**changes).double()
    sequences = [random_ids(n) for n in LENGTHS]
    output = model(**flatten(sequences)).last_hidden_state[0]
    slow = torch.cat([slow_output(model, ids)[-len(ids) :] for ids in sequences])
    # exponents of keys are counted from the largest one, which leaves a small constant
    tolerance = {"atol": 1e-4, "rtol": 1e-3} if "performer" in changes.values() else {}
    torch.testing.assert_close(output, slow, **tolerance)
    probe = torch.randn_like(output)
    parameters = list(model.parameters())
    fast_gradients = torch.autograd.grad(
        (output * probe).sum(), parameters, allow_unused=True, materialize_grads=True
    )
    slow_gradients = torch.autograd.grad(
        (slow * probe).sum(), parameters, allow_unused=True, materialize_grads=True
    )
    if tolerance:
        for fast, exact in zip(fast_gradients, slow_gradients, strict=True):
            assert (fast - exact).norm() <= 1e-3 * exact.norm() + 1e-6
    else:
        torch.testing.assert_close(fast_gradients, slow_gradients)


@pytest.mark.parametrize("kind", ["softmax", "linear", "linformer", "performer", "fmm", "luna"])
def test_adapters_and_hooks_see_projections_of_all_tokens_with_equal_results(kind):
    """Pooling before projecting changes nothing, and is left out where somebody watches."""
    model = ROW.build(attention_type=kind, head_scales=[1, 4, 2, 4])
    inputs = flatten([random_ids(n) for n in LENGTHS])
    expected = model(**inputs).last_hidden_state
    seen = []
    for layer in model.layers:
        layer.attention.q_proj.register_forward_hook(lambda _, i, out: seen.append(out.shape))
    torch.testing.assert_close(model(**inputs).last_hidden_state, expected, atol=1e-5, rtol=1e-5)
    rows = sum(LENGTHS) + len(LENGTHS) * model.config.memory_size
    assert seen == [(rows, 16)] * 2


def test_order_is_known_unless_settings_say_otherwise():
    values = torch.randn(1, 64, 3)
    for settings, knows_order in (
        ({"input_features": 3}, True),
        ({"input_features": 3, "position_embedding_type": "none"}, False),
    ):
        model = MrsFormerForSequenceClassification(MrsFormerConfig(**settings)).eval()
        change = model(input_values=values).logits - model(input_values=values.flip(1)).logits
        assert (change.abs().max() > 1e-4) == knows_order
    assert MrsFormerConfig(num_numeric_features=3).position_embedding_type == "none"
    assert MrsFormerConfig().initializer_range == 0.02


def test_random_directions_are_saved_and_come_from_the_seed(tmp_path):
    settings = {"attention_type": "performer"}
    torch.manual_seed(1)
    first = MrsFormerModel(ROW.config(**settings))
    torch.manual_seed(2)
    again = MrsFormerModel(ROW.config(**settings))
    other = MrsFormerModel(ROW.config(**settings, feature_seed=100))
    name = "layers.1.attention.heads.directions"
    assert torch.equal(first.state_dict()[name], again.state_dict()[name])
    assert not torch.equal(first.state_dict()[name], other.state_dict()[name])
    assert not torch.equal(first.state_dict()[name], first.state_dict()[name.replace("1", "0")])
    other.save_pretrained(tmp_path)
    loaded = MrsFormerModel.from_pretrained(tmp_path, feature_seed=7)
    assert torch.equal(loaded.state_dict()[name], other.state_dict()[name])


def test_the_near_field_starts_silent_and_learns():
    model = ROW.build("sequence_classification", attention_type="fmm")
    heads = model.model.layers[0].attention.heads
    assert not heads.near.any()
    assert torch.equal(heads.far, torch.full_like(heads.far, 1 / 2))
    model(random_ids(2, 9), labels=torch.tensor([0, 1])).loss.backward()
    assert heads.near.grad.any()


def test_memory_goes_from_layer_to_layer_and_not_through_the_mlp():
    model = ROW.build(attention_type="luna")
    seen = []
    for layer in model.layers:
        layer.register_forward_hook(lambda _, inputs, out: seen.append((inputs[0], out)))
    mlp = []
    model.layers[0].mlp.register_forward_hook(lambda *_: mlp.append(1))
    ids = random_ids(1, 9)
    output = model(ids)
    assert output.last_hidden_state.shape == (1, 9, 16)
    (before, between), (second, _) = seen
    assert before.shape == (12, 16)
    torch.testing.assert_close(before[:3], model.embed_memory.weight)
    assert torch.equal(between, second)
    with torch.no_grad():
        model.layers[0].mlp.fc2.bias.add_(1)
    model(ids)
    torch.testing.assert_close(seen[2][1][:3], between[:3])
    assert not torch.allclose(seen[2][1][3:], between[3:])


def test_attention_of_every_kind_drops_out_in_training_only():
    for kind in ("softmax", "linear", "linformer", "performer", "fmm", "luna"):
        model = ROW.build(attention_type=kind, attention_probs_dropout_prob=0.5)
        ids = random_ids(1, 30)
        assert torch.equal(model(ids)[0], model(ids)[0]), kind
        model.train()
        assert not torch.allclose(model(ids)[0], model(ids)[0]), kind
