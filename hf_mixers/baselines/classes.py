"""Scores of scikit-learn's classifiers, with a column for every class."""

from typing import Any

import numpy as np


def spread_classes(classifier: Any, features: Any, num_classes: int) -> np.ndarray:
    """Probabilities `(N, C)` of a classifier, 0 for classes that did not occur in training."""
    found = classifier.predict_proba(features)
    spread = np.zeros((len(found), num_classes))
    spread[:, classifier.classes_] = found
    return spread
