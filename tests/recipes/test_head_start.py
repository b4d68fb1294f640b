"""A head starts as a regression on vectors that the model made once; the rest stays."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset

from hf_mixers import DnaTokenizer
from hf_mixers.data.encode import tokenize_sequences
from hf_mixers.models.losses import sequence_loss
from hf_mixers.recipes import head_start
from hf_mixers.recipes.head_start import StartedHead, climb, keep_better, regress, start_head
from tests.families import every_family, find_row

KMERS = {"kmer_size": 2, "kmer_phases": 3, "kmer_hidden_size": 6, "pooled_norm": "running"}


def make_rows(count=40, seed=0):
    """Two classes that differ in their letters."""
    generator = np.random.default_rng(seed)
    labels = [number % 2 for number in range(count)]
    texts = [
        "".join(generator.choice(list(("GGGGCAT", "AAAACGT")[label]), generator.integers(20, 60)))
        for label in labels
    ]
    table = Dataset.from_dict({"sequence": texts, "label": labels})
    return tokenize_sequences(table, DnaTokenizer())


@every_family
@pytest.mark.parametrize("changes", [{}, {"kmer_size": None, "pooled_norm": "none"}])
def test_the_model_scores_as_the_regression_and_nothing_else_changes(row, changes, monkeypatch):
    monkeypatch.setattr(head_start, "MAX_ROWS", 30)
    model = row.build("sequence_classification", num_labels=2, **{**KMERS, **changes}).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rows = {"train": make_rows(), "validation": make_rows(20, seed=1)}
    started = start_head(model, rows, token_budget=100)
    assert model.training
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]) != ("classifier." in name), name
        assert torch.equal(value, started.weights[name])
    model.eval()
    with torch.no_grad():
        logits = torch.cat(
            [model(torch.as_tensor(ids)[None]).logits for ids in rows["validation"]["input_ids"]]
        )
    labels = torch.tensor(rows["validation"]["labels"][:])
    loss = torch.nn.functional.cross_entropy(logits, labels).item()
    best = min(started.history, key=lambda entry: entry["head_validation_loss"])
    assert loss == pytest.approx(best["head_validation_loss"], rel=1e-3, abs=1e-3)
    assert best["head_validation_accuracy"] > 0.6
    tried = [entry["head_penalty"] for entry in started.history]
    assert 3 <= len(tried) == len(set(tried))


@pytest.mark.parametrize("kind", ["regression", "multi_label_classification"])
def test_heads_of_other_kinds_start_as_regressions_too(kind):
    count = 1 if kind == "regression" else 2
    row = find_row("chordmixer")
    model = row.build("sequence_classification", num_labels=count, problem_type=kind, **KMERS)
    rows = {"train": make_rows(), "validation": make_rows(20, seed=1)}
    for name, part in rows.items():
        share = [np.mean(np.isin(ids, [6, 7])) for ids in part["input_ids"]]
        labels = share if count == 1 else [[float(s > 0.5), float(s <= 0.5)] for s in share]
        rows[name] = part.remove_columns("labels").add_column("labels", labels)
    started = start_head(model, rows)
    best = min(entry["head_validation_loss"] for entry in started.history)
    assert not any("accuracy" in name for entry in started.history for name in entry)
    model.eval()
    with torch.no_grad():
        logits = torch.cat(
            [model(torch.as_tensor(ids)[None]).logits for ids in rows["validation"]["input_ids"]]
        )
    labels = torch.tensor(rows["validation"]["labels"][:])
    loss = sequence_loss(logits, labels, kind).item()
    assert loss == pytest.approx(best, rel=1e-3, abs=1e-3)
    guess = labels.mean(0, keepdim=True).expand_as(labels)
    known = guess.logit().clamp(-9, 9) if count == 2 else guess[:, None]
    assert loss < 0.8 * sequence_loss(known, labels, kind).item()


def test_profiles_of_many_words_are_left_out(monkeypatch):
    monkeypatch.setattr(head_start, "MAX_WORDS", 47)
    model = find_row("chordmixer").build("sequence_classification", num_labels=2, **KMERS)
    assert model.config.num_kmers == 48
    start_head(model, {"train": make_rows()})
    assert not model.kmer_classifier.weight.any()
    assert model.classifier.bias.any()


def test_without_validation_rows_one_penalty_is_taken():
    model = find_row("chordmixer").build("sequence_classification", num_labels=2)
    started = start_head(model, {"train": make_rows()})
    assert [entry["head_penalty"] for entry in started.history] == [0.01]


@pytest.mark.parametrize("best", head_start.PENALTIES)
def test_the_best_penalty_is_found_wherever_it_lies(best):
    tried = []
    climb(lambda penalty: tried.append(penalty) or abs(np.log(penalty / best)))
    assert best in tried
    assert len(tried) < len(head_start.PENALTIES)


def test_class_weights_count():
    torch.manual_seed(0)
    vectors, labels = torch.randn(400, 2), torch.randint(2, (400,))
    found = []
    for weights in (None, [1.0, 20.0]):
        matrix, bias = regress(vectors, labels, 2, 1e-2, class_weights=weights)
        found.append((vectors @ matrix.T + bias).argmax(1).float().mean())
    assert found[0] < 0.9
    assert found[1] == 1


@pytest.mark.parametrize(("best", "expected"), [(0.8, True), (0.95, False), (None, False)])
def test_the_better_of_both_stages_is_kept(best, expected):
    model = torch.nn.Linear(2, 2)
    started = StartedHead({n: v + 1 for n, v in model.state_dict().items()}, [{"head_penalty": 1}])
    trainer = SimpleNamespace(
        model=model,
        args=SimpleNamespace(metric_for_best_model="accuracy", greater_is_better=True),
        state=SimpleNamespace(
            best_metric=best, log_history=[{"eval_accuracy": 0.9, "step": 0}, {"loss": 1.0}]
        ),
    )
    assert keep_better(trainer, started) is expected
    assert torch.equal(model.weight, started.weights["weight"]) is expected
    assert trainer.state.log_history[0] == {"head_penalty": 1}
