"""The trunk: pooling, positions and initialisation do what the config says."""

import pytest
import torch
from accelerate.utils import send_to_device

from hf_mixers.models import packing
from hf_mixers.models.packing import Boundaries, Pack, pack_ragged
from tests.families import HEADS, every_family, every_head, example_inputs, pad, random_ids


@every_family
def test_pooling_is_the_obvious_one_over_real_tokens(row):
    ids, mask = pad([random_ids(n) for n in (5, 9, 1)], "left")
    obvious = {
        "mean": lambda tokens: tokens.mean(0),
        "max": lambda tokens: tokens.amax(0),
        "first": lambda tokens: tokens[0],
    }
    for pooling, pool in obvious.items():
        output = row.build(pooling=pooling)(ids, attention_mask=mask)
        tokens = zip(output.last_hidden_state, mask, strict=True)
        expected = torch.stack([pool(states[m == 1]) for states, m in tokens])
        torch.testing.assert_close(output.pooler_output, expected)


@every_family
@pytest.mark.parametrize("static", [False, True])
def test_flat_pooling_reads_all_tokens_of_sequences_of_the_built_length(row, static, monkeypatch):
    monkeypatch.setattr(packing, "use_static_layout", lambda: static)
    built = {"max_position_embeddings": 6, "pooling": "flat"}
    model = row.build(**built)
    ids, mask = pad([random_ids(6), random_ids(6)], "left", width=6)
    output = model(ids, attention_mask=mask)
    assert output.pooler_output.shape == (2, model.config.pooled_size)
    torch.testing.assert_close(output.pooler_output, output.last_hidden_state.flatten(1))
    flat = model(ids.view(1, 12), cu_seq_lens_q=torch.tensor([0, 6, 12]))
    torch.testing.assert_close(flat.pooler_output, output.pooler_output)
    head = row.build("sequence_classification", **built)
    assert head.classifier.in_features == 6 * head.config.hidden_size
    torch.testing.assert_close(head(ids).logits, head.classifier(head.model(ids).pooler_output))
    pair = row.build("sequence_pair_classification", **built)
    assert pair(ids, input_ids_2=ids.flip(0)).logits.shape == (2, 2)
    assert model(**model.dummy_inputs).pooler_output.shape == (2, model.config.pooled_size)


@every_family
def test_flat_pooling_refuses_other_lengths_and_other_heads_do_not(row):
    built = {"max_position_embeddings": 6, "pooling": "flat"}
    sentence = r"flat' reads sequences of exactly 6 tokens .* got one of {}"
    ids, mask = pad([random_ids(6), random_ids(4)])
    for head in ("model", "sequence_classification"):
        model = row.build(head, **built)
        with pytest.raises(ValueError, match=sentence.format(5)):
            model(ids[:, :5])
        with pytest.raises(ValueError, match=sentence.format(4)):
            model(ids, attention_mask=mask)
    assert row.build("masked_lm", **built)(ids, attention_mask=mask).logits.shape[:2] == (2, 6)
    logits = row.build("token_classification", **built)(ids[:, :5]).logits
    assert logits.shape == (2, 5, 2)


@every_family
def test_cls_pooling_reads_a_token_that_the_model_adds(row):
    model = row.build(pooling="cls")
    ids = random_ids(1, 7)
    output = model(ids)
    embeddings = torch.cat([model.embed_cls.weight, model.embed_tokens(ids[0])])
    # the same model without CLS pooling, fed the CLS vector as an ordinary first token
    plain = row.build(pooling="first")
    plain.load_state_dict(model.state_dict(), strict=False)
    expected = plain(inputs_embeds=embeddings[None])
    torch.testing.assert_close(output.pooler_output, expected.pooler_output)
    torch.testing.assert_close(output.last_hidden_state, expected.last_hidden_state[:, 1:])


@every_family
def test_learned_positions_are_counted_from_the_start_of_each_sequence(row):
    model = row.build(position_embedding_type="absolute")
    ids, mask = pad([random_ids(n) for n in (6, 4)], "left")
    states = model(ids, attention_mask=mask, output_hidden_states=True).hidden_states
    table = model.embed_positions.weight
    for number, length in enumerate((6, 4)):
        tokens = ids[number, 6 - length :]
        expected = model.embed_tokens(tokens) + table[:length]
        torch.testing.assert_close(states[0][number, 6 - length :], expected)


@every_family
def test_embeddings_start_with_the_configured_deviation_and_a_zero_pad_row(row):
    for deviation in (0.02, 1.0):
        table = row.build(vocab_size=500, initializer_range=deviation).embed_tokens.weight
        assert table[1:].std().item() == pytest.approx(deviation, rel=0.05)
        assert not table[0].any()
    assert row.config().initializer_range == 1
    tied = row.config(tie_word_embeddings=True, initializer_range=None)
    assert tied.initializer_range == pytest.approx(tied.hidden_size**-0.5)


@every_family
@every_head
def test_models_made_on_the_meta_device_get_all_their_weights(row, head):
    # an empty checkpoint leaves everything to initialisation, as from_pretrained does it
    for changes in ({}, {"pooling": "cls"}, *row.variants.values()):
        model_class = row.model_class(head)
        reference = row.build(head, **changes)
        loaded = model_class.from_pretrained(None, config=reference.config, state_dict={})
        for (name, value), expected in zip(
            loaded.state_dict().items(), reference.state_dict().values(), strict=True
        ):
            value, expected = value.float(), expected.float()
            assert value.device.type == "cpu"
            assert value.shape == expected.shape
            assert value.isfinite().all(), name
            spread = expected.std(correction=0).item()
            if spread > 0 and value.numel() < 32:
                # so few random numbers may spread in any way
                assert 0 < value.abs().max() < 10 * expected.abs().max() + 1, name
                continue
            assert value.std(correction=0).item() == pytest.approx(spread, rel=0.6, abs=1e-3), name


@every_family
@pytest.mark.parametrize("head", HEADS[1:])
def test_heads_call_the_trunk_as_a_module(row, head):
    # what hooks, offloading and sharding rely on
    model = row.build(head)
    calls = []
    model.model.register_forward_hook(lambda *_: calls.append(1))
    model(**example_inputs(head))
    assert calls == [1]


def test_packs_travel_between_devices():
    pack = pack_ragged([Boundaries((2, 3), torch.device("cpu"))])
    moved = send_to_device(pack, "meta")
    assert isinstance(moved, Pack)
    assert moved.position.device.type == "meta"
    assert moved.sizes == pack.sizes


@every_family
@pytest.mark.parametrize("norm", [{}, {"post_norm": "batch"}])
def test_padding_may_hold_anything_in_both_layouts(row, norm, monkeypatch):
    if norm and "post_norm" not in row.config().to_dict():
        norm = {}
    values = torch.randn(2, 5, 3)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    values[mask == 0] = torch.nan
    for static in (False, True):
        monkeypatch.setattr(packing, "use_static_layout", lambda static=static: static)
        model = row.build("sequence_classification", input_features=3, **norm).train()
        output = model(input_values=values, attention_mask=mask, labels=torch.tensor([0, 1]))
        output.loss.backward()
        assert output.loss.isfinite()
        assert all(p.grad.isfinite().all() for p in model.parameters())


@every_family
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_ids_and_labels_may_be_small_integers(row, dtype):
    ids = random_ids(2, 6)
    for head, labels in (
        ("sequence_classification", torch.tensor([0, 1])),
        ("token_classification", ids % 2),
    ):
        model = row.build(head)
        expected = model(ids, labels=labels)
        output = model(ids.to(dtype), labels=labels.to(dtype))
        torch.testing.assert_close(output.loss, expected.loss)


@every_family
def test_tools_get_inputs_that_the_model_can_read(row):
    for changes in ({}, {"input_features": 3}):
        model = row.build(**changes)
        assert model(**model.dummy_inputs).last_hidden_state.shape[:2] == (2, 8)
    with pytest.raises(ValueError, match="no token embeddings to resize"):
        row.build("masked_lm", input_features=3).resize_token_embeddings(30)


@every_family
def test_functional_gradients_work(row):
    model = row.build("sequence_classification")
    ids, labels = random_ids(2, 9), torch.tensor([0, 1])

    def loss(parameters):
        return torch.func.functional_call(model, parameters, (ids,), {"labels": labels}).loss

    parameters = {name: p.detach() for name, p in model.named_parameters()}
    gradients = torch.func.grad(loss)(parameters)
    model(ids, labels=labels).loss.backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad)
