"""Logistic regression on k-mer frequencies: which short words a sequence holds, not where."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .bases import UNKNOWN, check_examples, check_sequences, count_classes, encode
from .classes import spread_classes

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_K = 10
# bases that are counted at once: bounds memory, whatever the data
CHUNK_BASES = 4_000_000
# tried around `C` when there are validation rows
FACTORS = (0.01, 0.1, 1.0, 10.0, 100.0)


class KmerLogisticRegression:
    """Logistic regression on the square roots of k-mer frequencies.

    Square roots keep the few frequent words from drowning the many rare ones, and give every
    sequence the same Euclidean length, so short and long ones are on one scale.

    Args:
        k: length of the words.
        both_strands: count a word and its reverse complement as one.
        C: inverse strength of the L2 penalty; with validation rows, 0.01 to 100 times as much is
            tried and the one with the lowest log loss there is kept as `C_`.
        phases: count words apart by their position modulo this number; 3 tells the codons of a
            gene from the words that overlap two of them.

    >>> model = KmerLogisticRegression(k=2).fit(["ACACAC", "GGCGGC", "CACACA"], [0, 1, 0])
    >>> model.predict_proba(["ACACACA", "GGCGG"]).argmax(1)
    array([0, 1])
    """

    def __init__(self, k: int = 6, both_strands: bool = True, C: float = 10.0, phases: int = 1):
        if not 1 <= k <= MAX_K:
            raise ValueError(f"k must be from 1 to {MAX_K}, got {k}.")
        if not C > 0:
            raise ValueError(f"C must be positive, got {C}.")
        if phases < 1 or (phases > 1 and both_strands):
            raise ValueError(f"phases must be 1, or more on one strand, got {phases}.")
        self.k, self.phases = k, phases
        self.both_strands = both_strands
        self.C = C

    def fit(
        self,
        sequences: Sequence[str],
        labels: Sequence[int],
        validation: tuple[Sequence[str], Sequence[int]] | None = None,
        *,
        num_labels: int | None = None,
    ) -> "KmerLogisticRegression":
        """Learn from texts and integer labels; `validation` holds texts and labels as well.

        Args:
            num_labels: number of classes, up to the largest label by default; those without rows
                in training have probability 0.
        """
        classes = check_examples(sequences, labels)
        if len(np.unique(classes)) < 2:
            raise ValueError(f"Labels of two classes or more are needed, got only {classes[0]}.")
        held_out = classes if validation is None else check_examples(*validation)
        self.num_labels_ = count_classes(num_labels, classes, held_out)
        features = self._features(sequences)
        if validation is None:
            self.C_ = self.C
            self._model = self._regress(features, classes, self.C_)
            return self
        held_out_features = self._features(validation[0])
        best = np.inf
        for factor in FACTORS:
            model = self._regress(features, classes, self.C * factor)
            loss = _log_loss(spread_classes(model, held_out_features, self.num_labels_), held_out)
            if loss < best:
                best, self.C_, self._model = loss, self.C * factor, model
        return self

    def predict_proba(self, sequences: Sequence[str]) -> np.ndarray:
        """Probabilities in `(N, classes)`, column c for label c."""
        if not hasattr(self, "_model"):
            raise ValueError("KmerLogisticRegression predicts after fit, which was not called.")
        check_sequences(sequences)
        return spread_classes(self._model, self._features(sequences), self.num_labels_)

    def _features(self, sequences: Sequence[str]) -> "csr_array":
        # a sequence shorter than k has no word: a row of zeros, hence the prior of the classes
        return kmer_frequencies(sequences, self.k, self.both_strands, self.phases)

    def _regress(self, features: "csr_array", classes: np.ndarray, strength: float):
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=strength, max_iter=1000).fit(features, classes)


def count_kmers(
    sequences: Sequence[str], k: int, both_strands: bool = True, phases: int = 1
) -> "csr_array":
    """Counts of words of `k` bases in `(N, words)`; words with other letters are left out.

    Words are in alphabetical order. With `both_strands` a word and its reverse complement share
    the column of the one that comes first, and columns without a word are gone. With `phases`,
    words are counted apart by position modulo that number, phase after phase.

    >>> count_kmers(["AACN", "GTT"], 2).toarray()[:, :2]  # AA or TT, AC or GT
    array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    try:
        from scipy.sparse import csr_array, vstack
    except ImportError as error:
        raise ImportError("k-mers need scipy: pip install hf-mixers[baselines].") from error

    column = _columns(k, both_strands)
    per_phase = int(column.max()) + 1
    width = phases * per_phase
    parts = []
    for chunk in _chunks(sequences):
        keys = []
        for row, sequence in enumerate(chunk):
            words, places = _words(encode(sequence), k)
            keys.append(column[words] + places % phases * per_phase + row * width)
        cells, counts = np.unique(np.concatenate(keys), return_counts=True)
        rows, columns = np.divmod(cells, width)
        shape = (len(chunk), width)
        parts.append(csr_array((counts.astype(np.float32), (rows, columns)), shape=shape))
    return vstack(parts, format="csr")


def kmer_frequencies(
    sequences: Sequence[str], k: int, both_strands: bool = True, phases: int = 1
) -> "csr_array":
    """Square roots of the shares of words of `k` bases in `(N, words)`, as in `count_kmers`."""
    counts = count_kmers(sequences, k, both_strands, phases)
    totals = counts.sum(axis=1)
    counts.data = np.sqrt(counts.data / np.repeat(np.maximum(totals, 1), np.diff(counts.indptr)))
    return counts


def _words(bases: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The number of each word of k known bases, its letters being digits in base four; places."""
    places = max(len(bases) - k + 1, 0)
    number = np.zeros(places, np.int64)
    is_known = np.ones(places, bool)
    for shift in range(k):
        letters = bases[shift : shift + places]
        number = 4 * number + letters
        is_known &= letters != UNKNOWN
    return number[is_known], np.flatnonzero(is_known)


def _columns(k: int, both_strands: bool) -> np.ndarray:
    """The column of every word."""
    words = np.arange(4**k)
    if not both_strands:
        return words
    turned, rest = np.zeros_like(words), words
    for _ in range(k):
        rest, letter = np.divmod(rest, 4)
        turned = 4 * turned + 3 - letter
    return np.unique(np.minimum(words, turned), return_inverse=True)[1]


def _chunks(sequences: Sequence[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for sequence in sequences:
        if chunk and size + len(sequence) > CHUNK_BASES:
            yield chunk
            chunk, size = [], 0
        chunk.append(sequence)
        size += len(sequence)
    yield chunk


def _log_loss(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Mean negative log probability; a label that training never saw costs a bounded amount."""
    picked = probabilities[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(picked, 1e-12)).mean())
