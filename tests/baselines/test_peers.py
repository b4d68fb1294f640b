"""Models of transformers take part as peers, with the arena's heads."""

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from hf_mixers.baselines.peer_configs import peer_config
from hf_mixers.baselines.peers import (
    PeerForMaskedLM,
    PeerForSequenceClassification,
    PeerForSequencePairClassification,
    PeerModel,
    PeerSizes,
)

TYPES = [
    *("bert", "nystromformer", "longformer", "big_bird", "fnet", "modernbert", "mamba2"),
    *("roformer", "mra", "gpt2", "mistral", "gpt_neo", "xlnet"),
]
CAUSAL = ("mamba2", "gpt2", "mistral", "gpt_neo")
# padding takes part in their Fourier transform
MIX_PADDING = ("fnet",)
LENGTH, VOCABULARY = 70, 30
TINY = PeerSizes(16, 1, 2, 32)


def make(kind, model_type="bert", *, length=LENGTH, pad=0, **fields):
    reads = {} if "input_features" in fields else {"vocab_size": VOCABULARY}
    config = peer_config(
        model_type, max_length=length, pad_token_id=pad, sizes=TINY, **reads, **fields
    )
    return kind(config).eval()


def draw_batch(pad=0):
    ids = torch.randint(1, VOCABULARY - 2, (2, LENGTH))
    mask = torch.ones_like(ids)
    mask[1, 50:] = 0
    return ids.masked_fill(mask == 0, pad), mask


@pytest.mark.parametrize("pad", [0, VOCABULARY - 1])
@pytest.mark.parametrize("model_type", TYPES)
def test_every_token_is_read_and_padding_is_not(model_type, pad):
    model = make(PeerForSequenceClassification, model_type, pad=pad, num_labels=3)
    ids, mask = draw_batch(pad)
    with torch.no_grad():
        whole = model(input_ids=ids, attention_mask=mask).logits
        alone = model(input_ids=ids[1:, :50], attention_mask=mask[1:, :50]).logits
        other = ids.clone()
        other[0, -1] = 1 + other[0, -1] % (VOCABULARY - 3)
        changed = model(input_ids=other, attention_mask=mask).logits
    assert whole.shape == (2, 3)
    assert torch.allclose(whole[1:], alone, atol=1e-5) == (model_type not in MIX_PADDING)
    assert not torch.allclose(whole[0], changed[0], atol=1e-7)


@pytest.mark.parametrize("model_type", [name for name in TYPES if name != "mra"])
def test_causal_peers_are_those_that_read_from_left_to_right(model_type):
    model = make(PeerModel, model_type)
    ids, _ = draw_batch()
    other = ids.clone()
    other[:, -1] = 1 + other[:, -1] % (VOCABULARY - 3)
    with torch.no_grad():
        one, two = (model(input_ids=x).last_hidden_state[:, :-1] for x in (ids, other))
    assert torch.allclose(one, two, atol=1e-7) == (model_type in CAUSAL)
    assert model.config.is_causal == (model_type in CAUSAL)


@pytest.mark.parametrize("model_type", TYPES)
def test_peers_learn_from_values(model_type):
    model = make(
        PeerForSequenceClassification,
        model_type,
        input_features=2,
        num_labels=1,
        problem_type="regression",
    )
    values = torch.randn(3, 40, 2)
    loss = model(input_values=values, labels=torch.rand(3)).loss
    loss.backward()
    assert model.model.embed_values.weight.grad.abs().sum() > 0


def test_pairs_have_the_four_features_of_both_towers():
    model = make(
        PeerForSequencePairClassification, num_labels=2, problem_type="single_label_classification"
    )
    ids, mask = draw_batch()
    batch = {"input_ids": ids, "attention_mask": mask}
    batch |= {"input_ids_2": ids.flip(0), "attention_mask_2": mask.flip(0)}
    output = model(**batch, labels=torch.tensor([0, 1]))
    u = model.pool(model.model(ids, mask).last_hidden_state, mask)
    v = u.flip(0)
    features = torch.relu(model.dense(torch.cat([u, v, u * v, u - v], 1)))
    assert torch.allclose(output.logits, model.classifier(features), atol=1e-5)
    output.loss.backward()
    assert model.get_input_embeddings().weight.grad.abs().sum() > 0


def test_pairs_choose_their_task():
    model = make(PeerForSequencePairClassification, num_labels=2, num_tasks=3)
    ids, mask = draw_batch()
    batch = {"input_ids": ids, "attention_mask": mask, "input_ids_2": ids, "attention_mask_2": mask}
    zero, two = (model(**batch, task_ids=torch.tensor([t, t])).logits for t in (0, 2))
    assert zero.shape == (2, 2)
    assert not torch.allclose(zero, two)
    with pytest.raises(ValueError, match="needs task_ids"):
        model(**batch)


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
def test_pooling_reads_real_tokens(pooling):
    model = make(PeerForSequenceClassification, pooling=pooling)
    hidden, mask = torch.randn(2, 4, 16), torch.tensor([[1, 1, 1, 1], [0, 1, 1, 0]])
    pooled = model.pool(hidden, mask)
    expected = {"mean": hidden[1, 1:3].mean(0), "first": hidden[1, 0], "last": hidden[1, 2]}
    assert torch.allclose(pooled[1], expected[pooling], atol=1e-6)
    assert torch.allclose(model.pool(hidden, None)[0], pooled[0], atol=1e-6)


def test_masked_tokens_are_predicted():
    model = make(PeerForMaskedLM)
    ids, mask = draw_batch()
    labels = torch.full_like(ids, -100)
    labels[0, 3] = 7
    output = model(input_ids=ids, attention_mask=mask, labels=labels)
    expected = torch.nn.functional.cross_entropy(output.logits[0, 3][None], torch.tensor([7]))
    assert torch.allclose(output.loss, expected)
    assert model(input_ids=ids).logits.shape == (2, LENGTH, VOCABULARY)


def test_causal_peers_predict_the_label_of_the_next_token():
    model = make(PeerForMaskedLM, "mamba2")
    ids, mask = draw_batch()
    labels = ids.masked_fill(mask == 0, -100)
    output = model(input_ids=ids, attention_mask=mask, labels=labels)
    kept = mask[:, 1:] == 1
    expected = torch.nn.functional.cross_entropy(output.logits[:, :-1][kept], ids[:, 1:][kept])
    assert torch.allclose(output.loss, expected, atol=1e-5)
    other = ids.clone()
    other[:, -1] = 1
    later = model(input_ids=other, attention_mask=mask).logits
    assert torch.allclose(later[0, :-1], output.logits[0, :-1], atol=1e-5)


def test_peers_are_saved_and_loaded(tmp_path):
    model = make(PeerForSequenceClassification, "modernbert", num_labels=2)
    model.save_pretrained(tmp_path)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    ids, mask = draw_batch()
    one, other = (m(input_ids=ids, attention_mask=mask).logits for m in (model, again))
    assert torch.equal(one, other)
    assert again.config.trunk_type == "modernbert"


def test_settings_of_the_trunk_come_first():
    config = peer_config("bert", max_length=9, vocab_size=5, settings={"num_hidden_layers": 3})
    assert config.make_trunk().num_hidden_layers == 3
    with pytest.raises(ValueError, match="'colour' is not a config field of bert"):
        peer_config("bert", max_length=9, settings={"colour": 1})
    with pytest.raises(ValueError, match="neither a family"):
        peer_config("nothing", max_length=9)
    with pytest.raises(ValueError, match="takes input_ids, input_values or inputs_embeds"):
        make(PeerForSequenceClassification)()


def test_fixed_lengths_are_kept():
    model = make(PeerForSequenceClassification, "nystromformer")
    assert model.config.fixed_length >= LENGTH
    with pytest.raises(ValueError, match="This peer reads"):
        model(input_ids=torch.ones(1, model.config.fixed_length + 1, dtype=torch.long))
