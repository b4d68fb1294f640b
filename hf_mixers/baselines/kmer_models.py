"""Stronger baselines on k-mers: the best k and strands, a small network, nearest neighbours.

All read square roots of k-mer frequencies, and have `fit` and `predict_proba` as
`KmerLogisticRegression` has.
"""

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from .bases import check_examples, check_sequences, count_classes
from .kmers import KmerLogisticRegression, kmer_frequencies

Rows = tuple[Sequence[str], Sequence[int]]


def profiles_of(
    sequences: Sequence[str], k: int, both_strands: bool, phases: int = 1
) -> np.ndarray:
    """Square roots of k-mer frequencies, `(N, words)` in float32; 0 where there is no word.

    >>> profiles_of(["AAAC"], 1, both_strands=False).round(2)
    array([[0.87, 0.5 , 0.  , 0.  ]], dtype=float32)
    """
    return kmer_frequencies(sequences, k, both_strands, phases).toarray().astype(np.float32)


def average_log_probabilities(*outputs: np.ndarray) -> np.ndarray:
    """Probabilities `(N, C)` from the mean of the log probabilities of several models.

    >>> average_log_probabilities(np.array([[0.8, 0.2]]), np.array([[0.2, 0.8]]))
    array([[0.5, 0.5]])
    """
    logs = np.mean([np.log(np.maximum(one, 1e-9)) for one in outputs], axis=0)
    found = np.exp(logs - logs.max(1, keepdims=True))
    return found / found.sum(1, keepdims=True)


class BestKmerRegression:
    """Logistic regression with the k and the strands that have the lowest loss on validation rows.

    Args:
        sizes: Values of k that are tried, each with and without joining both strands.
    """

    def __init__(self, sizes: Sequence[int] = (4, 5, 6)):
        self.sizes = tuple(sizes)

    def fit(
        self,
        sequences: Sequence[str],
        labels: Sequence[int],
        validation: Rows | None = None,
        *,
        num_labels: int | None = None,
    ) -> "BestKmerRegression":
        if validation is None:
            raise ValueError("BestKmerRegression chooses k on validation rows, got none.")
        targets = np.asarray(validation[1])
        best = np.inf
        for k in self.sizes:
            for both_strands in (True, False):
                model = KmerLogisticRegression(k, both_strands)
                model.fit(sequences, labels, validation, num_labels=num_labels)
                found = model.predict_proba(validation[0])[np.arange(len(targets)), targets]
                loss = float(-np.log(np.maximum(found, 1e-12)).mean())
                if loss < best:
                    best, self.model_ = loss, model
        return self

    def predict_proba(self, sequences: Sequence[str]) -> np.ndarray:
        if not hasattr(self, "model_"):
            raise ValueError("BestKmerRegression predicts after fit, which was not called.")
        return self.model_.predict_proba(sequences)


class KmerNetwork:
    """A network with one hidden layer on k-mers; the epoch that is best on validation rows is kept.

    Args:
        k: Length of the words.
        hidden_size: GELU units.
        epochs: Most passes over the training rows.
    """

    def __init__(
        self, k: int = 5, hidden_size: int = 128, both_strands: bool = False, epochs: int = 40
    ):
        self.k, self.hidden_size, self.both_strands = k, hidden_size, both_strands
        self.epochs = epochs

    def fit(
        self,
        sequences: Sequence[str],
        labels: Sequence[int],
        validation: Rows | None = None,
        *,
        num_labels: int | None = None,
    ) -> "KmerNetwork":
        classes = check_examples(sequences, labels)
        held_out = classes if validation is None else check_examples(*validation)
        outputs = count_classes(num_labels, classes, held_out)
        features, targets = self._features(sequences), torch.from_numpy(classes).long()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            network = nn.Sequential(
                nn.Linear(features.shape[1], self.hidden_size),
                nn.GELU(),
                nn.Dropout(0.3),
                nn.Linear(self.hidden_size, outputs),
            )
            checked = None if validation is None else self._features(validation[0])
            self._train(network, features, targets, checked, torch.from_numpy(held_out).long())
        return self

    def predict_proba(self, sequences: Sequence[str]) -> np.ndarray:
        if not hasattr(self, "network_"):
            raise ValueError("KmerNetwork predicts after fit, which was not called.")
        check_sequences(sequences)
        with torch.no_grad():
            return self.network_(self._features(sequences)).softmax(1).double().numpy()

    def _features(self, sequences: Sequence[str]) -> torch.Tensor:
        found = torch.from_numpy(profiles_of(sequences, self.k, self.both_strands))
        return found * found.shape[1] ** 0.5

    def _train(self, network, features, targets, checked, held_out) -> None:
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.1)
        best = np.inf
        for _ in range(self.epochs):
            network.train()
            for rows in torch.randperm(len(features)).split(64):
                loss = functional.cross_entropy(network(features[rows]), targets[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            network.eval()
            if checked is None:
                self.network_ = network
                continue
            with torch.no_grad():
                loss = float(functional.cross_entropy(network(checked), held_out))
            if loss < best:
                best, self.network_ = loss, copy.deepcopy(network)


class KmerNeighbours:
    """The classes of the nearest k-mer profiles by cosine; probabilities are shares of the votes.

    Args:
        k: Length of the words.
        neighbours: How many vote.
    """

    def __init__(self, k: int = 4, neighbours: int = 5, both_strands: bool = False):
        self.k, self.neighbours, self.both_strands = k, neighbours, both_strands

    def fit(
        self,
        sequences: Sequence[str],
        labels: Sequence[int],
        validation: Rows | None = None,
        *,
        num_labels: int | None = None,
    ) -> "KmerNeighbours":
        self.classes_ = check_examples(sequences, labels)
        held_out = self.classes_ if validation is None else np.asarray(validation[1])
        self.num_labels_ = count_classes(num_labels, self.classes_, held_out)
        self.profiles_ = profiles_of(sequences, self.k, self.both_strands)
        return self

    def predict_proba(self, sequences: Sequence[str]) -> np.ndarray:
        if not hasattr(self, "profiles_"):
            raise ValueError("KmerNeighbours predicts after fit, which was not called.")
        check_sequences(sequences)
        count = min(self.neighbours, len(self.profiles_))
        shares = np.zeros((len(sequences), self.num_labels_))
        # square roots of frequencies have length 1: the product is the cosine
        rows = profiles_of(sequences, self.k, self.both_strands)
        for start in range(0, len(rows), 512):
            similar = rows[start : start + 512] @ self.profiles_.T
            nearest = np.argpartition(-similar, count - 1, axis=1)[:, :count]
            # ties go to the more similar ones
            weights = 1 + 1e-3 * np.take_along_axis(similar, nearest, 1)
            places = np.arange(start, start + len(similar))[:, None]
            np.add.at(shares, (places, self.classes_[nearest]), weights)
        return shares / shares.sum(1, keepdims=True)
