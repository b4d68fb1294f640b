"""Baselines on k-mer frequencies for numbers and for any number of labels."""

from collections.abc import Sequence

import numpy as np

from .bases import check_sequences
from .kmers import FACTORS, KmerLogisticRegression, kmer_frequencies

# penalties of the ridge regression that are tried, around 1
_PENALTIES = tuple(0.1 * factor for factor in FACTORS)
# log-odds of a label that all training rows have, or none
_SURE = 10.0


class KmerRidge:
    """Ridge regression on the square roots of k-mer frequencies.

    The penalty with the smallest squared error on validation rows is kept as `penalty_`; without
    such rows it is 0.1.

    >>> model = KmerRidge(k=1).fit(["AAAC", "ACCC", "AACC"], [0.0, 2.0, 1.0])
    >>> model.predict(["ACCC"]) > model.predict(["AAAC"])
    array([ True])
    """

    def __init__(self, k: int = 6, both_strands: bool = True):
        self.k, self.both_strands = k, both_strands

    def fit(
        self,
        sequences: Sequence[str],
        targets: Sequence[float],
        validation: tuple[Sequence[str], Sequence[float]] | None = None,
    ) -> "KmerRidge":
        from sklearn.linear_model import Ridge

        check_sequences(sequences)
        features, values = self._features(sequences), np.asarray(targets, dtype=np.float64)
        if validation is None:
            self.penalty_ = 0.1
            self._model = Ridge(alpha=self.penalty_).fit(features, values)
            return self
        held_out, truth = self._features(validation[0]), np.asarray(validation[1])
        best = np.inf
        for penalty in _PENALTIES:
            model = Ridge(alpha=penalty).fit(features, values)
            error = float(np.mean((model.predict(held_out) - truth) ** 2))
            if error < best:
                best, self.penalty_, self._model = error, penalty, model
        return self

    def predict(self, sequences: Sequence[str]) -> np.ndarray:
        """A number for each sequence, `(N,)`."""
        check_sequences(sequences)
        return self._model.predict(self._features(sequences))

    def _features(self, sequences: Sequence[str]):
        return kmer_frequencies(sequences, self.k, self.both_strands)


class KmerLabels:
    """A logistic regression on k-mers for every label, apart from the others.

    >>> model = KmerLabels(k=1).fit(["AAAC", "ACCC", "TTTT"], [[1, 0], [1, 1], [0, 0]])
    >>> model.predict(["CCCC"]).shape
    (1, 2)
    """

    def __init__(self, k: int = 6, both_strands: bool = True):
        self.k, self.both_strands = k, both_strands

    def fit(
        self,
        sequences: Sequence[str],
        labels: Sequence[Sequence[float]],
        validation: tuple[Sequence[str], Sequence[Sequence[float]]] | None = None,
    ) -> "KmerLabels":
        marks = np.asarray(labels).astype(np.int64)
        self._models: list[KmerLogisticRegression | float] = []
        for number in range(marks.shape[1]):
            column = marks[:, number].tolist()
            if len(set(column)) == 1:
                self._models.append(_SURE if column[0] else -_SURE)
                continue
            pair = None
            if validation is not None:
                pair = (validation[0], np.asarray(validation[1])[:, number].astype(int).tolist())
            model = KmerLogisticRegression(self.k, self.both_strands)
            self._models.append(model.fit(sequences, column, pair, num_labels=2))
        return self

    def predict(self, sequences: Sequence[str]) -> np.ndarray:
        """Log-odds of every label, `(N, labels)`."""
        columns = []
        for model in self._models:
            if isinstance(model, float):
                columns.append(np.full(len(sequences), model))
            else:
                chance = np.clip(model.predict_proba(sequences)[:, 1], 1e-12, 1 - 1e-12)
                columns.append(np.log(chance / (1 - chance)))
        return np.stack(columns, 1)
