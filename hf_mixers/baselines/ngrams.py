"""How well a token follows from those before it alone, by counting."""

from collections.abc import Sequence

import numpy as np

# contexts are numbers of 63 bits
_MOST = 2**62


class NgramBaseline:
    """The probability of a token given up to `order` tokens before it.

    Counts of contexts of every length are interpolated as Witten and Bell do: the more different
    tokens followed a context, the more the next shorter one counts. Order 0 is the frequency of
    tokens.

    Args:
        order: Tokens looked at.
        vocab_size: Number of token ids.

    >>> model = NgramBaseline(order=1, vocab_size=8).fit([np.array([5, 6, 5, 6, 5, 6])])
    >>> model.score([np.array([5, 6, 5])])["perplexity"] < 2
    True
    """

    def __init__(self, order: int, vocab_size: int):
        if order < 0 or vocab_size < 1 or vocab_size ** (order + 1) > _MOST:
            raise ValueError(
                f"order must be at least 0 and vocab_size^(order + 1) below 2^62, got {order} and "
                f"{vocab_size}."
            )
        self.order, self.vocab_size = order, vocab_size

    def fit(self, sequences: Sequence[np.ndarray]) -> "NgramBaseline":
        """Count contexts in arrays of token ids."""
        if sum(map(len, sequences)) == 0:
            raise ValueError("NgramBaseline needs sequences with tokens, got none.")
        self._tables = []
        for order in range(self.order + 1):
            pairs = np.concatenate([self._codes(ids, order) for ids in sequences])
            pairs, counts = np.unique(pairs, return_counts=True)
            contexts, first, kinds = np.unique(
                pairs // self.vocab_size, return_index=True, return_counts=True
            )
            totals = np.add.reduceat(counts, first) if len(first) else counts
            self._tables.append((pairs, counts, contexts, totals, kinds))
        return self

    def predict(self, ids: np.ndarray) -> np.ndarray:
        """Probability of each token of a sequence but the first."""
        if not hasattr(self, "_tables"):
            raise ValueError("NgramBaseline predicts after fit, which was not called.")
        ids = np.asarray(ids, dtype=np.int64)
        chances = np.full(len(ids) - 1, 1 / self.vocab_size)
        for order, (pairs, counts, contexts, totals, kinds) in enumerate(self._tables):
            codes = self._codes(ids, order)
            # the first token is not predicted
            codes = codes[1:] if order == 0 else codes
            if len(codes) == 0 or len(pairs) == 0:
                break
            seen = _look_up(contexts, codes // self.vocab_size, totals)
            different = _look_up(contexts, codes // self.vocab_size, kinds)
            found = _look_up(pairs, codes, counts)
            shorter = chances[-len(codes) :]
            mixed = (found + different * shorter) / np.maximum(seen + different, 1)
            chances[-len(codes) :] = np.where(seen > 0, mixed, shorter)
        return chances

    def score(self, sequences: Sequence[np.ndarray]) -> dict[str, float]:
        """Loss per token, perplexity and bits per token, of all tokens but the first ones."""
        losses = -np.log(np.concatenate([self.predict(ids) for ids in sequences]))
        return describe_loss(float(losses.mean()), len(losses))

    def _codes(self, ids: np.ndarray, order: int) -> np.ndarray:
        """A number for each token and the `order` tokens before it."""
        ids = np.asarray(ids, dtype=np.int64)
        count = max(0, len(ids) - order)
        codes = np.zeros(count, dtype=np.int64)
        for place in range(order + 1):
            codes = codes * self.vocab_size + ids[place : place + count]
        return codes


def describe_loss(loss: float, count: int) -> dict[str, float]:
    """A mean loss per token in the units that readers ask for."""
    return {
        "loss": loss,
        "perplexity": float(np.exp(loss)),
        "bits_per_token": loss / float(np.log(2)),
        "count": count,
    }


def _look_up(keys: np.ndarray, wanted: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The value of each wanted key, 0 for unknown ones; `keys` are sorted."""
    places = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], 0)
