"""Spans of attention and receptive fields have the values that small models must have."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import hf_mixers
from hf_mixers.metrics.spans import attention_span, receptive_field


class FixedAttention(nn.Module):
    """Attends to what it is told."""

    def __init__(self, *weights):
        super().__init__()
        self.weights = weights

    def forward(self, input_ids=None, attention_mask=None, output_attentions=False):
        return SimpleNamespace(
            attentions=tuple(w.expand(len(input_ids), 1, -1, -1) for w in self.weights)
        )


class Shift(nn.Module):
    """The output of a token is the input of the one some places before."""

    def __init__(self, distance):
        super().__init__()
        self.distance = distance
        self.table = nn.Embedding(9, 4)

    def get_input_embeddings(self):
        return self.table

    def forward(self, inputs_embeds=None, input_values=None):
        content = inputs_embeds if inputs_embeds is not None else input_values
        return SimpleNamespace(last_hidden_state=content.roll(self.distance, 1) * 1.0)


def test_attention_to_oneself_has_no_span_and_uniform_attention_the_mean_distance():
    length = 10
    uniform = torch.full((length, length), 1 / length)
    batch = {"input_ids": torch.ones(2, length, dtype=torch.long)}
    found = attention_span(FixedAttention(torch.eye(length), uniform), [batch, batch])
    places = np.arange(length)
    mean = np.abs(places[:, None] - places).mean()
    assert found["by_layer"] == pytest.approx([0, mean], abs=1e-5)
    assert found["span"] == pytest.approx(mean / 2, abs=1e-5)
    assert found["sequences"] == 4


def test_padding_is_neither_query_nor_key():
    uniform = torch.full((6, 6), 1 / 6)
    mask = torch.tensor([[1, 1, 1, 0, 0, 0]])
    batch = {"input_ids": torch.ones(1, 6, dtype=torch.long), "attention_mask": mask}
    places = np.arange(3)
    mean = np.abs(places[:, None] - places).mean()
    assert attention_span(FixedAttention(uniform), [batch])["span"] == pytest.approx(mean, abs=1e-5)


def test_models_without_attention_are_refused():
    batch = {"input_ids": torch.ones(1, 6, dtype=torch.long)}
    with pytest.raises(ValueError, match="returns no attention"):
        attention_span(FixedAttention(), [batch])
    with pytest.raises(ValueError, match="is needed for a span"):
        attention_span(FixedAttention(torch.ones(3, 6)), [batch])
    with pytest.raises(ValueError, match="at least one batch"):
        attention_span(FixedAttention(), [])
    with pytest.raises(ValueError, match="at least one sequence"):
        receptive_field(Shift(1), [])


@pytest.mark.parametrize("distance", [0, 3])
def test_the_gradient_finds_the_token_that_is_copied(distance):
    sequence = {"input_values": torch.randn(1, 50, 4)}
    found = receptive_field(Shift(distance), [sequence], num_queries=50)
    # those at the beginning get the end
    expected = (distance * (50 - distance) + (50 - distance) * distance) / 50
    assert found["span"] == pytest.approx(expected, abs=1e-6)
    assert found["coverage"] == pytest.approx(1 / 50)
    assert sum(found["curve"]) == pytest.approx(1)
    ids = receptive_field(Shift(distance), [{"input_ids": torch.randint(9, (1, 50))}])
    assert ids["queries"] == 8


def test_a_chordmixer_reaches_everything_in_log_n_blocks():
    config = hf_mixers.ChordMixerConfig(max_position_embeddings=64, track_size=4)
    model = hf_mixers.ChordMixerModel(config)
    sequence = {"input_ids": torch.randint(5, 9, (1, 64))}
    assert receptive_field(model, [sequence])["coverage"] == 1
    one = hf_mixers.ChordMixerModel(
        hf_mixers.ChordMixerConfig(
            max_position_embeddings=64, track_size=4, num_hidden_layers=1, num_tracks=7
        )
    )
    assert receptive_field(one, [sequence])["coverage"] == pytest.approx(7 / 64)
