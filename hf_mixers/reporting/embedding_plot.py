"""A picture of vectors: their first two principal components, coloured by class."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .plots import COLOURS, MARKERS, _check_path, new_figure, save_figure


def principal_components(vectors: np.ndarray, count: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates `(N, count)` along the directions of largest variance, and their shares of it.

    >>> points, shares = principal_components(np.array([[0.0, 0], [2, 0], [4, 0.0]]), 1)
    >>> np.abs(points.ravel()).round(6).tolist(), shares.round(6).tolist()
    ([2.0, 0.0, 2.0], [1.0])
    """
    values = np.asarray(vectors, np.float64)
    if values.ndim != 2 or len(values) < 2 or values.shape[1] < count:
        raise ValueError(
            f"Vectors must be two or more of at least {count} numbers, got shape {values.shape}."
        )
    left, scales, _ = np.linalg.svd(values - values.mean(0), full_matrices=False)
    total = max(float((scales**2).sum()), 1e-300)
    kept = min(count, len(scales))
    points = np.zeros((len(values), count))
    points[:, :kept] = left[:, :kept] * scales[:kept]
    return points, np.pad(scales[:kept] ** 2 / total, (0, count - kept))


def plot_embedding(vectors: np.ndarray, classes: Sequence[str], path: str | Path) -> Path:
    """Draw vectors `(N, D)` as points, a colour and a marker per class.

    Args:
        classes: One name per vector.
        path: The PNG file to write, which is returned.
    """
    path = _check_path(path)
    names = np.asarray(classes)
    if len(names) != len(vectors):
        raise ValueError(
            f"Every vector needs a class, got {len(vectors)} vectors, {len(names)} classes."
        )
    points, shares = principal_components(vectors)
    figure = new_figure(5.6, 4.6)
    axes = figure.subplots()
    for number, name in enumerate(sorted(set(names.tolist()))):
        own = points[names == name]
        axes.scatter(
            own[:, 0],
            own[:, 1],
            s=30,
            alpha=0.8,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number // len(COLOURS) % len(MARKERS)],
            linewidths=0,
            label=name,
        )
    axes.set_xlabel(f"First principal component ({shares[0]:.0%} of the variance)")
    axes.set_ylabel(f"Second ({shares[1]:.0%})")
    axes.set_title(f"Embedding of {len(names):,} sequences", fontsize=10.5)
    axes.legend(frameon=False)
    return save_figure(figure, path)
