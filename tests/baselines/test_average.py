"""The average of a model and other classifiers."""

import numpy as np
import pytest

from hf_mixers.baselines.average import average_classifiers


def test_log_probabilities_are_averaged():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(5, 3))
    others = generator.dirichlet(np.ones(3), size=(2, 5))
    model = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = np.cbrt(model * others[0] * others[1])
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(average_classifiers(logits, list(others)), expected)


def test_a_class_that_one_rules_out_stays_possible():
    found = average_classifiers(np.array([[5.0, 0.0]]), [np.array([[0.0, 1.0]])])
    assert 1e-5 < found[0, 0] < 0.5


def test_what_cannot_be_averaged_is_refused():
    with pytest.raises(ValueError, match="one or more classifiers, got none"):
        average_classifiers(np.zeros((1, 2)), [])
    with pytest.raises(ValueError, match="Classifiers of one shape"):
        average_classifiers(np.zeros((1, 2)), [np.ones((1, 3)) / 3])
