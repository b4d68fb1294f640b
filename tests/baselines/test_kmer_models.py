"""Baselines on k-mers: each learns what it should, and refuses what it cannot do."""

import numpy as np
import pytest

from hf_mixers.baselines.kmer_models import (
    BestKmerRegression,
    KmerNeighbours,
    KmerNetwork,
    average_log_probabilities,
)


def make_rows(count, seed=0):
    """Two classes with the same letters in another order."""
    generator = np.random.default_rng(seed)
    words = (["AC", "GT"], ["CA", "TG"])
    texts = ["".join(generator.choice(words[i % 2], 30)) for i in range(count)]
    return texts, np.arange(count) % 2


@pytest.mark.parametrize(
    "baseline",
    [BestKmerRegression((1, 3)), KmerNetwork(k=3, epochs=8), KmerNeighbours(k=3)],
    ids=lambda baseline: type(baseline).__name__,
)
def test_baselines_learn_from_words(baseline):
    fitted = baseline.fit(*make_rows(80), make_rows(20, seed=1), num_labels=3)
    texts, labels = make_rows(30, seed=2)
    found = fitted.predict_proba(texts)
    assert found.shape == (30, 3)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)
    assert (found.argmax(1) == labels).mean() > 0.9


def test_the_best_k_is_chosen_on_validation_rows():
    fitted = BestKmerRegression((1, 3)).fit(*make_rows(80), make_rows(20, seed=1))
    assert fitted.model_.k == 3
    with pytest.raises(ValueError, match="validation rows, got none"):
        BestKmerRegression().fit(*make_rows(10))


@pytest.mark.parametrize("kind", [BestKmerRegression, KmerNetwork, KmerNeighbours])
def test_predicting_before_fitting_is_refused(kind):
    with pytest.raises(ValueError, match="after fit"):
        kind().predict_proba(["ACGT"])


def test_a_network_without_validation_rows_keeps_its_last_epoch():
    fitted = KmerNetwork(k=3, epochs=8).fit(*make_rows(80))
    texts, labels = make_rows(30, seed=2)
    assert (fitted.predict_proba(texts).argmax(1) == labels).mean() > 0.9


def test_averages_are_of_log_probabilities():
    one, other = np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([[0.6, 0.4], [0.2, 0.8]])
    found = average_log_probabilities(one, other)
    expected = np.sqrt(one * other)
    np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True))
