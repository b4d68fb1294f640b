"""The head learns on vectors that the blocks made once: same scores, blocks untouched."""

import numpy as np
import pytest
import torch
from datasets import Dataset

from hf_mixers import DnaTokenizer
from hf_mixers.data.encode import tokenize_sequences
from hf_mixers.recipes.head_start import HeadStart, read_vectors, score, start_head
from tests.families import every_family, find_row

KMERS = {"kmer_size": 2, "kmer_phases": 3, "kmer_hidden_size": 6, "pooled_norm": "running"}


def make_rows(count=40, seed=0):
    """Two classes that differ in their letters."""
    generator = np.random.default_rng(seed)
    labels = [number % 2 for number in range(count)]
    texts = [
        "".join(generator.choice(list(("GGCAT", "AACGT")[label]), generator.integers(20, 60)))
        for label in labels
    ]
    return tokenize_sequences(
        Dataset.from_dict({"sequence": texts, "label": labels}), DnaTokenizer()
    )


def build(row, **changes):
    torch.manual_seed(0)
    model = row.build("sequence_classification", **{"num_labels": 2, **KMERS, **changes})
    # what starts at zero would hide mistakes
    if model.kmer_classifier is not None:
        torch.nn.init.normal_(model.kmer_classifier.weight)
    if model.model.pooled_norm is not None:
        model.model.pooled_norm.running_mean.normal_()
        model.model.pooled_norm.running_var.uniform_(0.5, 2)
    return model.eval()


@every_family
@pytest.mark.parametrize("changes", [{}, {"kmer_size": None, "pooled_norm": "none"}])
def test_scores_from_vectors_are_those_of_the_model(row, changes):
    model, rows = build(row, **changes), make_rows(6)
    vectors = read_vectors(model, rows, token_budget=100)
    with torch.no_grad():
        expected = torch.cat(
            [model(torch.as_tensor(ids)[None]).logits for ids in rows["input_ids"]]
        )
        found = score(model, vectors, training=False)
    # profiles are kept in half precision
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=2e-3)
    assert vectors.labels.tolist() == [0, 1] * 3


@pytest.mark.parametrize("kmer_size", [None, 2])
def test_the_head_learns_and_the_blocks_stay(kmer_size):
    model = build(find_row("chordmixer"), kmer_size=kmer_size, class_weights=[1.0, 2.0])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rows = {"train": make_rows(), "validation": make_rows(20, seed=1)}
    history = start_head(model, rows, HeadStart(epochs=20, learning_rate=0.02, max_rows=30))
    assert history[-1]["head_loss"] < history[0]["head_loss"]
    assert max(entry["head_eval_accuracy"] for entry in history) > 0.8
    assert not model.training
    for name, value in model.state_dict().items():
        learns = not name.startswith("model.") or name.startswith("model.kmers.")
        assert torch.equal(value, before[name]) != learns, name
    best = min(entry["head_eval_loss"] for entry in history)
    vectors = read_vectors(model, rows["validation"], 100)
    with torch.no_grad():
        logits = score(model, vectors, training=False)
    weights = torch.tensor([1.0, 2.0])
    loss = torch.nn.functional.cross_entropy(logits, vectors.labels, weight=weights)
    assert float(loss) == pytest.approx(best, abs=1e-5)


def test_it_ends_where_validation_rises_and_runs_to_the_end_without_it():
    model = build(find_row("chordmixer"))
    turned = make_rows(20, seed=1).map(lambda row: {"labels": 1 - row["labels"]})
    settings = HeadStart(epochs=9, patience=2, learning_rate=0.05)
    assert len(start_head(model, {"train": make_rows(), "validation": turned}, settings)) < 9
    assert len(start_head(build(find_row("chordmixer")), {"train": make_rows()}, settings)) == 9
