"""The average of several classifiers: what a model and k-mers know of the same rows together."""

from collections.abc import Sequence

import numpy as np
from scipy.special import softmax

# no class is impossible because one of several classifiers says so
LEAST = 1e-9


def average_classifiers(logits: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """Probabilities `(N, C)` from the mean of the log-probabilities of all.

    Args:
        logits: `(N, C)` of a model.
        others: Probabilities `(N, C)` of other classifiers for the same rows, one or more.

    >>> average_classifiers(np.array([[0.0, 0.0]]), [np.array([[0.8, 0.2]])]).round(3)
    array([[0.667, 0.333]])
    """
    if not others:
        raise ValueError("The average is of a model and one or more classifiers, got none.")
    found = [softmax(np.asarray(logits, float), axis=-1), *(np.asarray(o, float) for o in others)]
    shapes = {one.shape for one in found}
    if len(shapes) > 1:
        raise ValueError(f"Classifiers of one shape are averaged, got {sorted(shapes)}.")
    return softmax(np.mean([np.log(one.clip(LEAST)) for one in found], axis=0), axis=-1)
