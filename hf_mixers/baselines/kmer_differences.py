"""Logistic regression on what a change does to the k-mers of a sequence."""

from collections.abc import Sequence

import numpy as np

from .bases import check_examples
from .classes import spread_classes
from .kmers import MAX_K, count_kmers


class KmerDifference:
    """Classes of pairs of sequences from the k-mers that the second has more or fewer of.

    There is one regression per task, as the same change may have another effect in another tissue.

    Args:
        k: Length of the words.
        C: Inverse strength of the L2 penalty.

    >>> model = KmerDifference(k=2)
    >>> _ = model.fit([("AAC", "AAG"), ("CCC", "CCA")] * 4, [0, 1] * 4)
    >>> model.predict_proba([("TAAC", "TAAG")]).argmax(1)
    array([0])
    """

    def __init__(self, k: int = 6, C: float = 1.0):
        if not 1 <= k <= MAX_K:
            raise ValueError(f"k must be from 1 to {MAX_K}, got {k}.")
        self.k, self.C = k, C

    def fit(
        self,
        pairs: Sequence[tuple[str, str]],
        labels: Sequence[int],
        tasks: Sequence[int] | None = None,
        *,
        num_labels: int | None = None,
    ) -> "KmerDifference":
        classes = check_examples([first for first, _ in pairs], labels)
        self.num_labels_ = num_labels or int(classes.max()) + 1
        numbers = np.zeros(len(pairs), int) if tasks is None else np.asarray(tasks)
        features = self._features(pairs)
        self._models = {}
        for task in np.unique(numbers):
            rows = np.flatnonzero(numbers == task)
            self._models[int(task)] = self._regress(features[rows], classes[rows])
        return self

    def predict_proba(
        self, pairs: Sequence[tuple[str, str]], tasks: Sequence[int] | None = None
    ) -> np.ndarray:
        """Probabilities in `(N, classes)`; a task that training did not have is an error."""
        if not hasattr(self, "_models"):
            raise ValueError("KmerDifference predicts after fit, which was not called.")
        numbers = np.zeros(len(pairs), int) if tasks is None else np.asarray(tasks)
        features = self._features(pairs)
        found = np.zeros((len(pairs), self.num_labels_))
        for task in np.unique(numbers):
            if int(task) not in self._models:
                raise ValueError(f"Task {task} is not one of training: {sorted(self._models)}.")
            rows = np.flatnonzero(numbers == task)
            found[rows] = self._answer(self._models[int(task)], features[rows])
        return found

    def _features(self, pairs: Sequence[tuple[str, str]]):
        first, second = zip(*pairs, strict=True)
        # signs of the strand matter, as windows are all of one
        return count_kmers(second, self.k, False) - count_kmers(first, self.k, False)

    def _regress(self, features, classes: np.ndarray):
        from sklearn.linear_model import LogisticRegression

        if len(np.unique(classes)) == 1:
            return int(classes[0])
        return LogisticRegression(C=self.C, max_iter=1000).fit(features, classes)

    def _answer(self, model, features) -> np.ndarray:
        if isinstance(model, int):
            return np.eye(self.num_labels_)[[model] * features.shape[0]]
        return spread_classes(model, features, self.num_labels_)
