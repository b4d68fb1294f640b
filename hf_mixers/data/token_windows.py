"""Windows of encoded texts for language models."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch.utils.data import Dataset


class TokenWindows(Dataset):
    """Windows of arrays of token ids: random ones, new in every epoch, or all in order.

    A random window is decided by seed, epoch and index alone, so workers and restarts agree; every
    start is as likely as every other. In order, windows follow one another without overlap, and the
    last one of a text may be shorter.

    Args:
        texts: Arrays of token ids; shorter ones than two tokens are left out.
        length: Tokens of a window; a text that is shorter is one window.
        num_windows: Random windows of an epoch; None: all windows in order.
        seed: Of the random ones.
    """

    def __init__(
        self,
        texts: Sequence[np.ndarray],
        length: int,
        num_windows: int | None = None,
        seed: int = 0,
    ):
        if length < 2:
            raise ValueError(f"length must be at least 2 tokens, got {length}.")
        self.texts = [text for text in texts if len(text) > 1]
        if not self.texts:
            raise ValueError("Windows need texts of at least 2 tokens, got none.")
        self.length, self.num_windows, self.seed, self.epoch = length, num_windows, seed, 0
        # starts of random windows, text after text
        self._ends = np.cumsum([max(1, len(text) - length + 1) for text in self.texts])
        self._places = [
            (number, start)
            for number, text in enumerate(self.texts)
            for start in range(0, len(text) - 1, length)
        ]

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each window."""
        return np.array([len(self[index]["input_ids"]) for index in range(len(self))])

    def __len__(self) -> int:
        return len(self._places) if self.num_windows is None else self.num_windows

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"Windows are numbered 0 to {len(self) - 1}, got {index}.")
        if self.num_windows is None:
            number, start = self._places[index]
        else:
            generator = np.random.default_rng((self.seed, self.epoch, index))
            place = generator.integers(self._ends[-1])
            number = int(np.searchsorted(self._ends, place, side="right"))
            start = int(place - (self._ends[number - 1] if number else 0))
        return {"input_ids": self.texts[number][start : start + self.length].astype(np.int64)}


def hold_out_ends(
    texts: Sequence[np.ndarray], fraction: float = 0.1
) -> dict[str, list[np.ndarray]]:
    """Parts train, validation and test: of every text its last fractions are held out.

    The parts do not depend on a seed.
    """
    if not 0 < fraction < 0.5:
        raise ValueError(f"fraction must lie between 0 and 0.5, got {fraction}.")
    parts: dict[str, list[np.ndarray]] = {"train": [], "validation": [], "test": []}
    for text in texts:
        first, second = (round(len(text) * (1 - share * fraction)) for share in (2, 1))
        pieces = text[:first], text[first:second], text[second:]
        for part, piece in zip(parts.values(), pieces, strict=True):
            part.append(piece)
    return parts
