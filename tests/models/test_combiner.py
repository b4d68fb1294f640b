"""Combiner: what its settings do, causality, the causal head, token types."""

import pytest
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoModelForPreTraining

from hf_mixers import (
    CombinerConfig,
    CombinerForCausalLM,
    CombinerForMaskedLM,
    CombinerForSequencePairClassification,
    CombinerModel,
)
from hf_mixers.models import ops_fixed
from hf_mixers.models.configuration_combiner import PATTERNS
from tests.families import find_row, flatten, pad, random_ids

ROW = find_row("combiner")
SMALL = {"segment_length": 4, "position_embedding_type": "sinusoidal"}
every_pattern = pytest.mark.parametrize("pattern", PATTERNS.__args__)


def build(kind=CombinerForCausalLM, **changes):
    torch.manual_seed(0)
    causal = {"causal": True} if kind is CombinerForCausalLM else {}
    return kind(ROW.config(**{**SMALL, **causal, **changes})).eval()


@every_pattern
@pytest.mark.parametrize("length", [1, 5, 16, 18])
def test_causal_models_do_not_see_what_comes(pattern, length):
    model = build(CombinerModel, pattern=pattern, causal=True, num_clusters=3)
    vectors = torch.randn(1, length, 16, requires_grad=True)
    out = model(inputs_embeds=vectors).last_hidden_state[0]
    for place in range(length):
        (gradient,) = torch.autograd.grad(out[place].square().sum(), vectors, retain_graph=True)
        assert gradient[0, : place + 1].any(1).all()
        assert not gradient[0, place + 1 :].any()


def test_a_leaking_summary_fails_the_test_of_causality(monkeypatch):
    plain = ops_fixed._mask

    def leaking(block, present, causal, *rest):
        return plain(block, present, False, *rest)

    monkeypatch.setattr(ops_fixed, "_mask", leaking)
    with pytest.raises(AssertionError):
        test_causal_models_do_not_see_what_comes("fixed", 16)


@every_pattern
def test_tokens_of_both_sides_reach_every_token(pattern):
    model = build(CombinerModel, pattern=pattern, num_clusters=3, num_hidden_layers=1)
    vectors = torch.randn(1, 11, 16, requires_grad=True)
    out = model(inputs_embeds=vectors).last_hidden_state[0]
    for place in range(11):
        (gradient,) = torch.autograd.grad(out[place].square().sum(), vectors, retain_graph=True)
        assert gradient[0].any(1).all()


def test_local_models_reach_their_segment_only():
    for pattern in ("fixed", "axial_rowmajor"):
        model = build(CombinerModel, pattern=pattern, use_summaries=False, num_hidden_layers=1)
        vectors = torch.randn(1, 10, 16, requires_grad=True)
        out = model(inputs_embeds=vectors).last_hidden_state[0]
        (gradient,) = torch.autograd.grad(out[5].square().sum(), vectors)
        assert gradient[0].any(1).tolist() == [4 <= place < 8 for place in range(10)]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"causal": True, "exclude_own_span": False}, "exclude_own_span=False is for causal=False"),
        ({"causal": True, "pooling": "cls"}, "pooling='cls' is for causal=False"),
        ({"causal": True, "ngram_size": 3}, "ngram_size lets a token see those after it"),
        ({"num_attention_heads": 3}, "num_attention_heads must divide hidden_size=16, got 3"),
        ({"segment_length": 0}, "segment_length must be at least 1, got 0"),
        ({"prefix_pool": "sum"}, "prefix_pool is for the patterns axial_vertical"),
        ({"pattern": "logsparse", "use_summaries": False}, "use_summaries=False is not for"),
        ({"type_vocab_size": -1}, "type_vocab_size must not be negative, got -1"),
        ({"cluster_decay": 2}, r"cluster_decay must lie in \[0, 1\], got 2"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes, sentence):
    with pytest.raises(StrictDataclassClassValidationError, match=sentence):
        ROW.config(**changes)


def test_the_segment_length_follows_from_the_built_length_only():
    config = CombinerConfig(max_position_embeddings=16_384)
    assert config.segment_length == 128
    assert CombinerConfig(max_position_embeddings=16_384, segment_length=48).segment_length == 48


def test_the_causal_head_needs_a_causal_model():
    with pytest.raises(ValueError, match=r"CombinerForCausalLM needs config.causal=True"):
        CombinerForCausalLM(ROW.config())
    config = ROW.config(causal=True)
    assert type(AutoModelForCausalLM.from_config(config)) is CombinerForCausalLM
    assert type(AutoModelForPreTraining.from_config(config)) is CombinerForMaskedLM


def expected_loss(model, sequences):
    """Cross-entropy of next tokens, sequence by sequence."""
    losses = []
    for ids in sequences:
        if len(ids) > 1:
            logits = model(ids[None]).logits[0]
            losses.append(functional.cross_entropy(logits[:-1], ids[1:], reduction="sum"))
    return sum(losses) / sum(len(ids) - 1 for ids in sequences)


def test_no_token_predicts_the_next_sequence():
    model = build()
    sequences = [random_ids(n) for n in (7, 1, 18, 4)]
    wanted = expected_loss(model, sequences)
    flat = flatten(sequences)
    torch.testing.assert_close(model(**flat, labels=flat["input_ids"]).loss, wanted)
    for side in ("left", "right"):
        ids, mask = pad(sequences, side)
        loss = model(ids, attention_mask=mask, labels=ids).loss
        torch.testing.assert_close(loss, wanted)
    # labels of -100 are left out, and the number of items may be given
    labels = flat["input_ids"].clone()
    labels[0, :7] = -100
    torch.testing.assert_close(
        model(**flat, labels=labels, num_items_in_batch=torch.tensor(2)).loss,
        expected_loss(model, sequences[1:]) * 20 / 2,
    )


def test_accumulating_unequal_batches_gives_the_gradient_of_one():
    model = build().train()
    sequences = [random_ids(n) for n in (12, 3, 7, 5)]
    ids, mask = pad(sequences)
    labels = torch.where(mask == 1, ids, -100)
    items = sum(len(s) - 1 for s in sequences)

    def gradient():
        found = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        return found

    model(ids, attention_mask=mask, labels=labels).loss.backward()
    whole = gradient()
    for row in range(4):
        part = slice(row, row + 1)
        model(
            ids[part], attention_mask=mask[part], labels=labels[part], num_items_in_batch=items
        ).loss.backward()
    torch.testing.assert_close(gradient(), whole, atol=1e-6, rtol=1e-4)


def test_only_the_last_logits_are_computed_where_they_are_asked_for():
    model = build()
    ids, mask = pad([random_ids(n) for n in (9, 4)], "left")
    whole = model(ids, attention_mask=mask).logits
    calls = []
    model.lm_head.register_forward_hook(lambda _, given, __: calls.append(given[0].shape))
    last = model(ids, attention_mask=mask, logits_to_keep=2)
    torch.testing.assert_close(last.logits, whole[:, -2:])
    assert calls == [(2, 2, 16)]
    columns = torch.tensor([3, 8])
    some = model(ids, attention_mask=mask, logits_to_keep=columns)
    torch.testing.assert_close(some.logits, whole[:, columns])
    both = model(ids, attention_mask=mask, labels=ids, logits_to_keep=columns)
    torch.testing.assert_close(both.logits, whole[:, columns])


def test_causal_models_survive_saving_tying_and_resizing(tmp_path):
    model = build(tie_word_embeddings=True)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    model.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert again.lm_head.weight is again.model.embed_tokens.weight
    ids = random_ids(2, 9)
    torch.testing.assert_close(again(ids).logits, model(ids).logits)
    again.resize_token_embeddings(31)
    assert again(ids).logits.shape == (2, 9, 31)


def test_token_types_are_added_to_tokens():
    model = build(CombinerForMaskedLM, type_vocab_size=2)
    ids, mask = pad([random_ids(6), random_ids(4)], "left")
    types = torch.randint(2, ids.shape)
    given = model(ids, attention_mask=mask, token_type_ids=types)
    table = model.model.embed_token_types.weight
    embedded = model.model.embed_tokens(ids) + table[types]
    plain = build(CombinerForMaskedLM)
    plain.load_state_dict(model.state_dict(), strict=False)
    expected = plain(inputs_embeds=embedded, attention_mask=mask)
    torch.testing.assert_close(given.logits, expected.logits)
    without = model(ids, attention_mask=mask).logits
    zeros = model(ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids)).logits
    torch.testing.assert_close(without, zeros)
    assert not torch.allclose(without, given.logits)
    flat = flatten([ids[0], ids[1, 2:]])
    flat["token_type_ids"] = torch.cat([types[0], types[1, 2:]])[None]
    torch.testing.assert_close(model(**flat).logits[0], given.logits[mask == 1])


def test_token_types_are_checked():
    model = build(CombinerForMaskedLM, type_vocab_size=2)
    ids = random_ids(2, 5)
    with pytest.raises(ValueError, match=r"token_type_ids must have shape \(2, 5\) like the input"):
        model(ids, token_type_ids=ids[:, 1:])
    with pytest.raises(ValueError, match=r"token_type_ids must lie in 0..1 .* got 5 to 8"):
        model(ids, token_type_ids=ids)


def test_both_sequences_of_a_pair_have_token_types():
    model = build(CombinerForSequencePairClassification, type_vocab_size=2)
    first, second = random_ids(3, 5), random_ids(3, 7)
    types = torch.ones_like(second)
    plain = model(first, input_ids_2=second).logits
    typed = model(first, input_ids_2=second, token_type_ids_2=types).logits
    turned = model(second, input_ids_2=first, token_type_ids=types).logits
    assert not torch.allclose(plain, typed)
    assert not torch.allclose(turned, typed)


def test_centroids_follow_training_one_step_later_and_rest_otherwise():
    model = build(CombinerModel, pattern="learnable", num_clusters=3, cluster_decay=0.5)
    routing = model.layers[0].attention.routing
    before = routing.centroids.clone()
    model(random_ids(1, 20))
    assert torch.equal(routing.next_centroids, before)
    model.train()
    model(random_ids(1, 20))
    assert torch.equal(routing.centroids, before)
    moved = routing.next_centroids.clone()
    assert not torch.equal(moved, before)
    model(random_ids(1, 20))
    assert torch.equal(routing.centroids, moved)
