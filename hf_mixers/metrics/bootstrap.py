"""Confidence intervals by drawing rows again, all draws at once.

A draw is a weight per row: how often the row was drawn. A statistic of weights `(R, N)` gives one
number per draw, `(R,)`, `nan` where it is undefined; with all weights one it gives the value.
"""

from collections.abc import Callable, Iterator

import numpy as np

Statistics = Callable[[np.ndarray], dict[str, np.ndarray]]

# weights held at once
CHUNK_CELLS = 4_000_000


def estimate(
    statistics: Statistics, count: int, num_bootstrap: int, confidence: float, seed: int | list[int]
) -> dict[str, dict[str, float | None]]:
    """Value, low and high end of each statistic; `None` where it is undefined.

    The ends are percentiles of the statistic over the draws for which it is defined, `None`
    without draws.
    """
    values = statistics(np.ones((1, count)))
    draws = [statistics(weights) for weights in _draw_weights(count, num_bootstrap, seed)]
    report = {}
    for name, value in values.items():
        interval: list[float | None] = [None, None]
        if draws and not np.isnan(value[0]):
            drawn = np.concatenate([part[name] for part in draws])
            drawn = drawn[~np.isnan(drawn)]
            if len(drawn):
                ends = [(1 - confidence) / 2, (1 + confidence) / 2]
                interval = [float(end) for end in np.quantile(drawn, ends)]
        report[name] = {"value": number_or_none(value[0]), "low": interval[0], "high": interval[1]}
    return report


def check_bootstrap(num_bootstrap: int, confidence: float) -> None:
    """A ValueError if there is no such interval."""
    if num_bootstrap < 0:
        raise ValueError(f"num_bootstrap must be 0 (no intervals) or more, got {num_bootstrap}.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}.")


def _draw_weights(count: int, num_bootstrap: int, seed: int | list[int]) -> Iterator[np.ndarray]:
    chance = np.random.default_rng(seed)
    chunk = max(1, CHUNK_CELLS // count)
    for start in range(0, num_bootstrap, chunk):
        size = min(chunk, num_bootstrap - start)
        drawn = chance.integers(count, size=(size, count))
        drawn += np.arange(size)[:, None] * count
        weights = np.bincount(drawn.ravel(), minlength=size * count)
        yield weights.reshape(size, count).astype(np.float64)


def number_or_none(value: float) -> float | None:
    """A number, `None` for `nan`."""
    return None if np.isnan(value) else float(value)
