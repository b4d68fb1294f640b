"""`output_attentions=True`: the attention of every scale, or one sentence why there is none."""

import pytest
import torch

from tests.families import every_family, every_head, example_inputs, find_row, flatten, random_ids
from tests.reference import multiresolution as reference

ROW = find_row("mrsformer")
EAGER = {"attn_implementation": "eager"}
CASES = {
    "two scales": {},
    "scale 1": {"head_scales": [1, 1]},
    "any order": {"head_scales": [4, 1, 4, 2]},
    "other scales of keys": {"head_scales": [1, 2, 2, 4], "key_scales": [4, 1, 2, 2]},
    "cls": {"pooling": "cls"},
    "sizes of groups": {"group_size_bias": True, "pooling": "cls"},
    "exact": {"head_mode": "exact"},
}
LENGTHS = (13, 1, 40, 8, 39)
every_case = pytest.mark.parametrize("changes", CASES.values(), ids=CASES)


def heads_of_layer(model, ids):
    """Attention of the first block to one sequence, by head, from the most obvious computation."""
    config = model.config
    tokens = model.embed_tokens(ids)
    if config.pooling == "cls":
        tokens = torch.cat([model.embed_cls.weight, tokens])
    layer = model.layers[0]
    hidden = layer.attention_norm(tokens, None).double()
    size, prefix = config.hidden_size // config.num_attention_heads, config.prefix_size
    exact = config.head_mode == "exact"
    for head, scale in enumerate(config.head_scales):
        key_scale = (config.key_scales or config.head_scales)[head]
        scale, key_scale = (1, 1) if exact else (scale, key_scale)
        part = slice(head * size, (head + 1) * size)
        q, k = (
            hidden @ proj.weight[part].double().T + proj.bias[part].double()
            for proj in (layer.attention.q_proj, layer.attention.k_proj)
        )
        q = reference.down(len(hidden), scale, prefix) @ q
        k = reference.down(len(hidden), key_scale, prefix) @ k
        scores = q @ k.T / size**0.5
        if config.group_size_bias:
            sizes = [len(group) for group in reference.groups(len(hidden), key_scale, prefix)]
            scores = scores + torch.tensor(sizes).double().log()
        yield scores.softmax(1)


@every_case
@torch.no_grad()
def test_attention_of_every_scale_equals_its_slow_twin(changes):
    model = ROW.build(**EAGER, **changes)
    sequences = [random_ids(n) for n in LENGTHS]
    output = model(**flatten(sequences), output_attentions=True)
    plain = model(**flatten(sequences))
    torch.testing.assert_close(output.last_hidden_state, plain.last_hidden_state)
    assert plain.attentions is None
    assert len(output.attentions) == model.config.num_hidden_layers
    groups = model.config.head_groups()
    for number, ids in enumerate(sequences):
        expected = list(heads_of_layer(model, ids))
        for group, weights in zip(groups, output.attentions[0], strict=True):
            assert weights.shape[:2] == (len(sequences), len(group.heads))
            for place, head in enumerate(group.heads):
                rows, columns = expected[head].shape
                ours = weights[number, place]
                torch.testing.assert_close(
                    ours[:rows, :columns].double(), expected[head], atol=1e-5, rtol=1e-4
                )
                assert not ours[rows:].any()
                assert not ours[:, columns:].any()
    for layer in output.attentions:
        for weights in layer:
            sums = weights.sum(-1)
            assert (((sums - 1).abs() < 1e-5) | (sums == 0)).all()


@every_head
@pytest.mark.parametrize("source", ["argument", "config"])
def test_every_head_returns_attentions(head, source):
    model = ROW.build(head, **EAGER)
    inputs = example_inputs(head)
    if source == "config":
        model.config.output_attentions = True
        output = model(**inputs)
    else:
        output = model(**inputs, output_attentions=True)
    names = ["attentions", *["attentions_2"] * (head == "sequence_pair_classification")]
    for name in names:
        assert [w.shape for w in output[name][1]] == [(3, 1, 12, 12), (3, 1, 6, 6)]
    if len(names) == 2:
        # the same sequences in the opposite order
        torch.testing.assert_close(output.attentions_2[0][1], output.attentions[0][1].flip(0))


@torch.no_grad()
def test_images_return_attentions():
    model = ROW.build("image_classification", image_size=8, patch_size=2, num_channels=1, **EAGER)
    weights = model(torch.randn(2, 1, 8, 8), output_attentions=True).attentions
    assert [w.shape for w in weights[0]] == [(2, 1, 16, 16), (2, 1, 8, 8)]


@pytest.mark.slow
def test_compiled_models_and_checkpointing_return_the_same_attentions():
    inputs = example_inputs("sequence_classification")
    model = ROW.build("sequence_classification", max_position_embeddings=16, **EAGER)
    expected = model(**inputs, output_attentions=True)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    output = compiled(**inputs, output_attentions=True)
    torch.testing.assert_close(output.attentions, expected.attentions)
    model.train().gradient_checkpointing_enable()
    output = model(**inputs, output_attentions=True)
    output.loss.backward()
    torch.testing.assert_close(output.attentions, expected.attentions)


@pytest.mark.parametrize("kind", ["linear", "linformer", "performer", "fmm", "luna"])
def test_other_kinds_of_attention_are_refused(kind):
    model = ROW.build(attention_type=kind, position_embedding_type="absolute", **EAGER)
    message = f"needs attention_type='softmax' and .*'eager', got '{kind}' and 'eager'"
    with pytest.raises(ValueError, match=message):
        model(random_ids(1, 5), output_attentions=True)


@every_family
@every_head
def test_models_without_eager_attention_refuse_to_return_any(row, head):
    model, inputs = row.build(head), example_inputs(head)
    assert model(**inputs, output_attentions=False)["logits" if head != "model" else 0] is not None
    message = "output_attentions(=True needs .* got 'softmax' and 'sdpa'| must be False)"
    with pytest.raises(ValueError, match=message):
        model(**inputs, output_attentions=True)


@every_family
def test_a_config_that_asks_in_vain_is_refused(row):
    def ask():
        model = row.build()
        model.config.output_attentions = True
        model(random_ids(1, 5))

    with pytest.raises(ValueError, match="output_attentions"):
        ask()
