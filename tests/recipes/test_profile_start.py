"""A k-mer part that is new learns the classes alone, before the head reads all vectors."""

import pytest
import torch

from hf_mixers.recipes import profile_start
from hf_mixers.recipes.head_start import start_head
from hf_mixers.recipes.profile_start import is_new_part, learn_profiles, make_profiles
from tests.families import every_family, find_row
from tests.recipes.test_head_start import make_rows

KMERS = {"kmer_size": 2, "kmer_strands": "both", "kmer_hidden_size": 6, "kmer_encoders": 2}


def build(row, **changes):
    return row.build("sequence_classification", num_labels=2, **{**KMERS, **changes})


def logits_of(model, rows):
    with torch.no_grad():
        return torch.cat(
            [model.eval()(torch.as_tensor(ids)[None]).logits for ids in rows["input_ids"]]
        )


@every_family
@pytest.mark.parametrize("norm", ["none", "running"])
def test_the_model_scores_as_the_stage_did_and_only_its_k_mer_part_learned(row, norm, monkeypatch):
    monkeypatch.setattr(profile_start, "SEQUENCES", 40 * 8)
    model = build(row, pooled_norm=norm, class_weights=[1.0, 1.5]).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rows = {"train": make_rows(), "validation": make_rows(20, seed=1), "test": make_rows(2)}
    state = torch.random.get_rng_state()
    history = learn_profiles(model, rows, batch_size=10, learning_rate=3e-2)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert len(history) == 8
    for name, value in model.state_dict().items():
        is_learned = any(part in name for part in ("kmers.", "pooled_norm.", "classifier."))
        assert is_learned or torch.equal(value, before[name]), name
    assert not torch.equal(before["model.kmers.fc1.weight"], model.model.kmers.fc1.weight)
    logits = logits_of(model, rows["validation"])
    labels = torch.tensor(rows["validation"]["labels"][:])
    weights = torch.tensor([1.0, 1.5])
    loss = torch.nn.functional.cross_entropy(logits, labels, weights).item()
    best = min(entry["profile_validation_loss"] for entry in history)
    assert loss == pytest.approx(best, rel=1e-3, abs=1e-3)
    assert (logits.argmax(1) == labels).float().mean() > 0.8


def test_without_validation_rows_the_last_epoch_stays_and_the_head_with_it(monkeypatch):
    monkeypatch.setattr(profile_start, "SEQUENCES", 1)
    model = build(find_row("chordmixer"), pooled_norm="running")
    history = learn_profiles(model, {"train": make_rows()}, batch_size=100)
    assert [list(entry) for entry in history] == [["profile_loss"]] * 4
    before = logits_of(model, make_rows(6, seed=2))
    started = start_head(model, {"train": make_rows()}, knows_classes=True)
    assert "head_penalty" not in started.history[0]
    torch.testing.assert_close(logits_of(model, make_rows(6, seed=2)), before)


def test_a_classifier_that_knows_the_classes_stays_unless_a_regression_is_better():
    model = build(find_row("chordmixer"))
    rows = {"train": make_rows(), "validation": make_rows(20, seed=1)}
    best = start_head(model, rows).history
    kept = logits_of(model, rows["validation"])
    again = start_head(model, rows, knows_classes=True).history
    assert len(again) == len(best) + 1
    lowest = min(entry["head_validation_loss"] for entry in best)
    assert again[-1]["head_validation_loss"] == pytest.approx(lowest, rel=1e-4)
    torch.testing.assert_close(logits_of(model, rows["validation"]), kept)


def test_profiles_are_in_the_order_of_rows():
    config = build(find_row("chordmixer")).config
    rows = make_rows(7)
    together = make_profiles(rows, config)
    for number in range(7):
        torch.testing.assert_close(
            make_profiles(rows.select([number]), config)[0], together[number]
        )


def test_a_part_is_new_where_its_words_or_widths_are_others():
    config = find_row("chordmixer").config(**KMERS)
    stored = config.to_dict()
    assert not is_new_part(config, stored)
    for name in profile_start.KMER_FIELDS:
        assert is_new_part(config, stored | {name: None}), name
    assert not is_new_part(find_row("chordmixer").config(), stored)
    # checkpoints of before a field was there have its default
    older = find_row("chordmixer").config(kmer_size=2)
    assert not is_new_part(older, {"kmer_size": 2})
