"""Guesses of both strands are those of the model on either, at the right places."""

import math

import numpy as np
import pytest
import torch

from hf_mixers import ChordMixerConfig, ChordMixerForMaskedLM, DnaTokenizer
from hf_mixers.models.dna import reverse_complement
from hf_mixers.recipes.both_strands import guess_bases, score_both_strands


@pytest.fixture
def model():
    torch.manual_seed(0)
    config = ChordMixerConfig(vocab_size=20, track_size=4, intermediate_size=8)
    return ChordMixerForMaskedLM(config).eval()


def make_windows(count=5):
    chance = np.random.default_rng(0)
    for number in range(count):
        ids = chance.integers(5, 9, size=20 + 7 * number)
        labels = np.where(chance.random(len(ids)) < 0.3, ids, -100)
        labels[0] = ids[0]
        yield np.where(labels == -100, ids, 4), labels


@pytest.mark.parametrize("add_cls", [False, True])
def test_scores_are_those_of_the_model_on_both_strands_one_by_one(model, add_cls):
    windows = list(make_windows())
    if add_cls:
        windows = [(np.r_[2, ids], np.r_[-100, labels]) for ids, labels in windows]
    tokenizer = DnaTokenizer(add_cls=add_cls)
    hits, losses = 0, []
    for ids, labels in windows:
        either = []
        for row in (ids, reverse_complement(ids)):
            with torch.no_grad():
                logits = model(input_ids=torch.from_numpy(row)[None]).logits[0]
            either.append(logits.softmax(-1)[:, 5:9].numpy())
        for place in np.flatnonzero(labels != -100):
            opposite = len(ids) - 1 - place + int(add_cls)
            mean = (either[0][place] + either[1][opposite][::-1]) / 2
            hits += mean.argmax() == labels[place] - 5
            losses.append(-math.log(mean[labels[place] - 5]))
    report = score_both_strands(model, tokenizer, windows)["overall"]
    assert report["accuracy"]["value"] == pytest.approx(hits / len(losses))
    assert report["perplexity"]["value"] == pytest.approx(math.exp(np.mean(losses)), rel=1e-5)


def test_sequences_and_their_opposite_strands_score_the_same(model):
    windows = list(make_windows())
    turned = []
    for ids, labels in windows:
        known = reverse_complement(np.where(labels == -100, ids, labels))
        hidden = (labels != -100)[::-1]
        turned.append((np.where(hidden, 4, known), np.where(hidden, known, -100)))
    one, other = (score_both_strands(model, DnaTokenizer(), rows) for rows in (windows, turned))
    for name, value in one["overall"].items():
        assert value["value"] == pytest.approx(other["overall"][name]["value"], rel=1e-5)


def test_guesses_do_not_depend_on_company(model):
    rows = [ids for ids, _ in make_windows()]
    together = guess_bases(model, rows, np.arange(5, 9))
    for row, found in zip(rows, together, strict=True):
        assert np.abs(found - guess_bases(model, [row], np.arange(5, 9))[0]).max() < 1e-5
