"""Blocks in a row: memory reused without gradients, computed again in segments, or undone."""

import pytest
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError

from hf_mixers import ChordMixerConfig, ChordMixerForMaskedLM, ChordMixerModel
from hf_mixers.models import branch, stack_fused
from hf_mixers.models.stack_reversible import ReversibleStack
from tests.families import pad, random_ids
from tests.models.test_ops_chord_fused import make_pack as make_pack_of

VARIANTS = [
    {},
    {"block_order": "mix_rotate"},
    {"pre_norm": "layer"},
    {"pre_norm": "layer", "block_order": "mix_rotate"},
    {"final_norm": "layer", "weight_init": "scaled"},
]
every_variant = pytest.mark.parametrize("settings", VARIANTS, ids=str)


# what is kept is that of the blocks alone
SMALL = {"max_position_embeddings": 256, "track_size": 2, "intermediate_size": 8}
SMALL |= {"final_norm": "none", "weight_init": "published"}


def build(**settings) -> ChordMixerModel:
    torch.manual_seed(0)
    config = ChordMixerConfig(**{**SMALL, **settings})
    return ChordMixerModel(config).double().eval()


def batch():
    torch.manual_seed(1)
    ids, mask = pad([random_ids(length) for length in (200, 3, 64, 65, 1)])
    return {"input_ids": ids, "attention_mask": mask}


def gradients(model, **inputs):
    model.zero_grad()
    output = model(**inputs).last_hidden_state
    output.sin().sum().backward()
    return output.detach(), [weight.grad.clone() for weight in model.parameters()]


@every_variant
def test_reused_memory_changes_nothing(settings):
    model = build(**settings)
    kept = model(**batch()).last_hidden_state
    with torch.no_grad():
        reused = model(**batch()).last_hidden_state
    assert torch.equal(reused, kept)


@every_variant
@pytest.mark.parametrize("watched", [False, True])
def test_inference_works_in_two_matrices_for_all_blocks(settings, watched):
    model, seen, embedded = build(**settings), [], []
    if watched:
        model.embed_tokens.register_forward_hook(lambda _, __, out: embedded.append(out))
    for layer in model.layers:

        def infer(hidden, pack, spare, original=layer.infer):
            result, spare = original(hidden, pack, spare)
            seen.extend((hidden, result, spare))
            return result, spare

        layer.infer = infer
    with torch.no_grad():
        model(random_ids(1, 200))
    places = {tensor.untyped_storage().data_ptr() for tensor in seen}
    assert len(places) == 2
    assert not places & {tensor.untyped_storage().data_ptr() for tensor in embedded}


@every_variant
def test_the_callers_embeddings_are_left_alone(settings):
    embeddings = torch.randn(1, 20, 18, dtype=torch.float64)
    before = embeddings.clone()
    with torch.no_grad():
        build(**settings)(inputs_embeds=embeddings)
    assert torch.equal(embeddings, before)


@every_variant
def test_what_a_hook_has_seen_is_not_overwritten(settings):
    for number in range(8):
        model, seen = build(**settings), []
        model.layers[number].register_forward_hook(
            lambda _, given, out, seen=seen: seen.extend((t, t.clone()) for t in (given[0], out))
        )
        with torch.no_grad():
            model(**batch())
        assert len(seen) == 2
        assert all(torch.equal(kept, copy) for kept, copy in seen)


@pytest.mark.parametrize("size", [None, 1, 3, 8])
@pytest.mark.parametrize("reentrant", [True, False])
def test_segments_give_the_same_gradients(size, reentrant):
    model = build(checkpoint_segment_size=size).train()
    output, expected = gradients(model, **batch())
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    checkpointed, grads = gradients(model, **batch())
    assert torch.equal(output, checkpointed)
    torch.testing.assert_close(grads, expected)


@every_variant
@pytest.mark.parametrize("size", [1, 3])
def test_blocks_in_one_operation_are_blocks_one_by_one(settings, size):
    results = []
    for change in ("none", "hooked", "not fused"):
        model = build(**settings, checkpoint_segment_size=size, fused=change != "not fused").train()
        model.gradient_checkpointing_enable({"use_reentrant": False})
        if change == "hooked":
            model.layers[2].register_forward_hook(lambda *_: None)
        branches = model.layers.fused_branches(torch.empty(1, 18), make_pack_of([9]))
        assert (branches is None) == (change != "none")
        results.append(gradients(model, **batch()))
    torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(results[0], results[2])


def saved_rows(model, **inputs) -> int:
    """Rows of matrices as wide as the model that a forward pass keeps for the backward pass."""
    kept = {}

    def keep(tensor):
        if tensor.dim() == 2 and tensor.shape[1] == model.config.hidden_size:
            kept[tensor.data_ptr()] = tensor.shape[0]
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(**inputs)
    weights = {weight.data_ptr() for weight in model.parameters()}
    return sum(rows for place, rows in kept.items() if place not in weights)


@every_variant
@pytest.mark.parametrize("between", [1, 3, 8])
def test_inputs_are_undone_from_the_hidden_layers_of_large_batches(settings, between, monkeypatch):
    expected = gradients(build(**settings), **batch())
    monkeypatch.setattr(branch, "KEPT_ROWS", 0)
    monkeypatch.setattr(stack_fused, "UNDONE_BLOCKS", between)
    undone = gradients(build(**settings), **batch())
    assert torch.equal(undone[0], expected[0])
    torch.testing.assert_close(undone[1], expected[1], atol=1e-11, rtol=1e-11)
    # twice, since nothing that is kept may be overwritten
    model = build(**settings)
    loss = model(**batch()).last_hidden_state.sin().sum()
    loss.backward(retain_graph=True)
    once = [weight.grad.clone() for weight in model.parameters()]
    loss.backward()
    torch.testing.assert_close([weight.grad / 2 for weight in model.parameters()], once)


def test_undoing_loses_few_digits_where_activations_grow(monkeypatch):
    model = build().float()
    for layer in model.layers:
        layer.mix.fc2.weight.data *= 3
    output, expected = gradients(model, **batch())
    assert output.norm() > 100 * model.embed_tokens(batch()["input_ids"]).norm()
    monkeypatch.setattr(branch, "KEPT_ROWS", 0)
    for grad, exact in zip(gradients(model, **batch())[1], expected, strict=True):
        assert (grad - exact).norm() <= 1e-5 * exact.norm()


def test_large_batches_keep_the_narrower_of_input_and_hidden_layer(monkeypatch):
    inputs = {"input_ids": random_ids(1, 256)}
    assert saved_rows(build(), **inputs) == 8 * 256
    monkeypatch.setattr(branch, "KEPT_ROWS", 0)
    assert saved_rows(build(), **inputs) == 256
    assert saved_rows(build(intermediate_size=40), **inputs) == 8 * 256


def test_segments_store_their_inputs_only():
    inputs = {"input_ids": random_ids(1, 256)}
    model = build(checkpoint_segment_size=4).train()
    assert saved_rows(model, **inputs) == 8 * 256
    model.gradient_checkpointing_enable({"use_reentrant": False})
    assert saved_rows(model, **inputs) == 2 * 256


@every_variant
def test_a_reversible_network_is_its_stored_twin(settings):
    undone, stored = build(reversible=True, **settings), build(reversible=True, **settings)
    stored.layers.fused_branches = lambda *_: None
    output, grads = gradients(undone, **batch())
    expected, expected_grads = gradients(stored, **batch())
    torch.testing.assert_close(output, expected, atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(grads, expected_grads, atol=1e-9, rtol=1e-9)


@every_variant
def test_a_reversible_network_in_single_precision(settings):
    """Undoing the blocks loses a few digits, not more."""
    precise = build(reversible=True, **settings)
    _, expected = gradients(precise, **batch())
    _, grads = gradients(build(reversible=True, **settings).float(), **batch())
    for grad, exact in zip(grads, expected, strict=True):
        assert (grad - exact).norm() <= 1e-4 * exact.norm()


def test_a_reversible_network_stores_no_activations():
    inputs = {"input_ids": random_ids(1, 256)}
    rows = [
        saved_rows(build(reversible=True, num_hidden_layers=depth), **inputs) for depth in (3, 8)
    ]
    assert rows == [512, 512]


def test_a_reversible_network_is_another_network():
    plain, coupled = build(), build(reversible=True)
    assert isinstance(coupled.layers, ReversibleStack)
    assert list(plain.state_dict()) == list(coupled.state_dict())
    a, b = (model(**batch()).last_hidden_state for model in (plain, coupled))
    assert not torch.allclose(a, b)


def test_a_second_backward_pass_is_refused():
    model = build(reversible=True)
    loss = model(**batch()).last_hidden_state.sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_the_decoder_is_reversible_too():
    config = ChordMixerConfig(track_size=2, decoder_type="chordmixer", reversible=True)
    model = ChordMixerForMaskedLM(config)
    assert isinstance(model.decoder.layers, ReversibleStack)
    ids = random_ids(1, 40)
    model(ids, labels=ids).loss.backward()
    assert all(weight.grad is not None for weight in model.parameters())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"post_norm": "layer"}, "reversible needs post_norm='none'"),
        ({"pre_norm": "batch"}, "and pre_norm 'none' or 'layer', got 'none' and 'batch'"),
        ({"rotate_dropout_prob": 0.1}, "without dropout, but rotate_dropout_prob is set"),
    ],
)
def test_what_cannot_be_undone_is_refused(settings, message):
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        ChordMixerConfig(reversible=True, **settings)
