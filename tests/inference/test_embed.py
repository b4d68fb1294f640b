"""An embedding is the same whatever file, order, shard or token budget a sequence came in."""

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from hf_mixers.inference import embed


@pytest.mark.slow
def test_vectors_do_not_depend_on_budget_order_or_shard(masked_lm, sequences):
    whole = {one.id: one.vector for one in embed(masked_lm, sequences)}
    assert len(whole) == len(sequences)
    for budget in (1, 777):
        for one in embed(masked_lm, sequences[::-1], token_budget=budget):
            assert np.abs(one.vector - whole[one.id]).max() < 1e-5
    sharded = [one for index in range(3) for one in embed(masked_lm, sequences, shard=(index, 3))]
    assert len(sharded) == len(sequences)
    assert all(np.abs(one.vector - whole[one.id]).max() < 1e-5 for one in sharded)


def test_poolings_and_layers_are_the_obvious_ones(masked_lm, sequences):
    _, text = sequences[20]
    model = AutoModel.from_pretrained(masked_lm).eval()
    inputs = AutoTokenizer.from_pretrained(masked_lm)(text, return_tensors="pt")
    with torch.no_grad():
        output = model(**inputs, output_hidden_states=True)
    tokens = output.last_hidden_state[0]
    expected = {
        "mean": tokens.mean(0),
        "max": tokens.amax(0),
        "first": tokens[0],
        "cls": output.pooler_output[0],
        "none": tokens,
    }
    for pooling, vector in expected.items():
        (one,) = embed(masked_lm, [text], pooling=pooling)
        assert np.abs(one.vector - vector.numpy()).max() < 1e-5, pooling
    for layer in (0, 1, -2):
        (one,) = embed(masked_lm, [text], layer=layer)
        expected = output.hidden_states[layer][0].mean(0).numpy()
        assert np.abs(one.vector - expected).max() < 1e-5


def test_wrong_settings_are_named(masked_lm):
    for options, message in (
        ({"pooling": "sum"}, "pooling must be one of mean, max, first, cls, none, got 'sum'"),
        ({"pooling": "none", "rc_average": True}, "averaged by sequence, which requires a pooling"),
        ({"pooling": "cls", "layer": 1}, "is that of layer -1, got layer=1"),
        ({"layer": 99}, "layer must lie in"),
    ):
        with pytest.raises(ValueError, match=message):
            next(embed(masked_lm, ["ACGT"], **options))
