"""How well a masked base follows from its neighbours alone, by counting."""

from collections.abc import Sequence

import numpy as np

from ..models.dna import FIRST_NUCLEOTIDE_ID
from .bases import UNKNOWN, encode

# tables grow sixteen-fold with each step: half a gigabyte at this one
MAX_ORDER = 6

Ids = Sequence[int] | Sequence[Sequence[int]] | np.ndarray


class MarkovBaseline:
    """The probability of a base given up to `order` known bases on either side of it.

    Counts of every context are kept for each number of known bases to the left and to the right.
    A context ends where a neighbour is masked, is no A, C, G or T, or where the sequence ends; the
    counts for what is left of it are used. One is added to every count. Order 0 is the
    frequency of bases.

    Args:
        order: bases looked at on each side, 0 to 6.

    >>> model = MarkovBaseline(order=1).fit(["ACACACACAC", "CACACA"])
    >>> ids = np.array([[5, 4, 5]])  # A [MASK] A
    >>> labels = np.array([[-100, 6, -100]])  # C
    >>> score = model.score(ids, labels)
    >>> score["accuracy"], score["count"]
    (1.0, 1)
    """

    def __init__(self, order: int = 4):
        if not 0 <= order <= MAX_ORDER:
            raise ValueError(f"order must be from 0 to {MAX_ORDER}, got {order}.")
        self.order = order

    def fit(self, sequences: Sequence[str] | Sequence[np.ndarray]) -> "MarkovBaseline":
        """Count contexts in texts, or in arrays of token ids of `DnaTokenizer`."""
        if isinstance(sequences, str) or len(sequences) == 0:
            raise ValueError("MarkovBaseline needs a list of sequences, got one text or none.")
        bases = _join([_read(sequence) for sequence in sequences])
        places = np.flatnonzero(bases != UNKNOWN)
        if len(places) == 0:
            raise ValueError("MarkovBaseline needs a sequence with an A, C, G or T, got none.")
        centre = bases[places].astype(np.int32)
        left, left_known = self._side(bases, places, -1)
        right, right_known = self._side(bases, places, 1)
        self._counts = {}
        for before in range(self.order + 1):
            for after in range(self.order + 1):
                usable = (left_known >= before) & (right_known >= after)
                cells = _context(left[usable], right[usable], before, after) * 4 + centre[usable]
                size = 4 ** (before + after + 1)
                counts = np.bincount(cells, minlength=size).astype(np.int32)
                self._counts[before, after] = counts.reshape(-1, 4)
        return self

    def predict_proba(self, ids: Ids, selected: Sequence | np.ndarray) -> np.ndarray:
        """Probabilities of A, C, G, T in `(M, 4)` at the M places where `selected` is true.

        Args:
            ids: token ids of `DnaTokenizer`, in `(B, L)`, `(L,)` or a list of rows.
            selected: booleans of the same shape.
        """
        if not hasattr(self, "_counts"):
            raise ValueError("MarkovBaseline predicts after fit, which was not called.")
        rows, chosen = _rows(ids), _rows(selected)
        if [len(row) for row in rows] != [len(row) for row in chosen]:
            raise ValueError("MarkovBaseline needs ids and labels of one shape, got two.")
        bases = _join([_read(row) for row in rows])
        # the mark between two rows is never selected
        places = np.flatnonzero(_join(chosen, between=False))
        left, left_known = self._side(bases, places, -1)
        right, right_known = self._side(bases, places, 1)
        probabilities = np.empty((len(places), 4))
        for (before, after), counts in self._counts.items():
            here = (left_known == before) & (right_known == after)
            found = counts[_context(left[here], right[here], before, after)] + 1.0
            probabilities[here] = found / found.sum(1, keepdims=True)
        return probabilities

    def score(self, ids: Ids, labels: Sequence | np.ndarray) -> dict[str, float | int]:
        """Accuracy and perplexity over the masked bases, and their count.

        Args:
            ids: what a masked language model reads: token ids with `[MASK]` in places.
            labels: the true ids where there is something to tell, -100 elsewhere. Labels that
                are no A, C, G or T are left out.
        """
        truth = [np.asarray(row).astype(np.int64) - FIRST_NUCLEOTIDE_ID for row in _rows(labels)]
        selected = [(row >= 0) & (row < 4) for row in truth]
        target = np.concatenate([row[chosen] for row, chosen in zip(truth, selected, strict=True)])
        if len(target) == 0:
            raise ValueError("MarkovBaseline needs a label that is A, C, G or T, got none.")
        probabilities = self.predict_proba(ids, selected)
        picked = probabilities[np.arange(len(target)), target]
        return {
            "accuracy": float((probabilities.argmax(1) == target).mean()),
            "perplexity": float(np.exp(-np.log(picked).mean())),
            "count": len(target),
        }

    def _side(
        self, bases: np.ndarray, places: np.ndarray, step: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Neighbours on one side as digits in base four, nearest lowest, and how many are known."""
        code = np.zeros(len(places), np.int32)
        known = np.zeros(len(places), np.int8)
        for distance in range(1, self.order + 1):
            at = places + step * distance
            inside = (at >= 0) & (at < len(bases))
            letters = bases[np.where(inside, at, 0)]
            go_on = inside & (letters != UNKNOWN) & (known == distance - 1)
            code[go_on] += letters[go_on].astype(np.int32) * 4 ** (distance - 1)
            known[go_on] = distance
        return code, known


def _context(left: np.ndarray, right: np.ndarray, before: int, after: int) -> np.ndarray:
    return left % 4**before * 4**after + right % 4**after


def _rows(values: Sequence | np.ndarray) -> list:
    """The rows of a batch, or the one row that was given."""
    if len(values) == 0:
        raise ValueError("MarkovBaseline needs at least one row of ids and labels, got none.")
    return [values] if np.ndim(values[0]) == 0 else list(values)


def _read(sequence: str | Sequence[int] | np.ndarray) -> np.ndarray:
    if isinstance(sequence, str):
        return encode(sequence)
    ids = np.asarray(sequence)
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(
            f"A sequence is a str or a row of integer token ids, got {ids.dtype} of shape"
            f" {ids.shape}."
        )
    is_base = (ids >= FIRST_NUCLEOTIDE_ID) & (ids < FIRST_NUCLEOTIDE_ID + UNKNOWN)
    return np.where(is_base, ids.astype(np.int64) - FIRST_NUCLEOTIDE_ID, UNKNOWN).astype(np.uint8)


def _join(rows: list[np.ndarray], between: int = UNKNOWN) -> np.ndarray:
    """Rows in one array, with a mark after each of them."""
    mark = np.array([between], np.asarray(rows[0]).dtype)
    return np.concatenate([part for row in rows for part in (np.asarray(row), mark)])
