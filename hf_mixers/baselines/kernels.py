"""Ridge regression on random convolutions: a quick and strong baseline for time series.

The idea is ROCKET's (Dempster et al., 2020): many random, dilated kernels, and of each one the
share of places where it answers above zero and its largest answer.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn.functional import conv1d

from .bases import count_classes

WIDTH = 9


class RandomKernelRidge:
    """A linear classifier on features of random kernels, for series of any lengths.

    Args:
        num_kernels: Kernels; each gives two features.
        seed: The kernels are drawn from it.

    >>> up, down = np.arange(12.0)[:, None], -np.arange(12.0)[:, None]
    >>> model = RandomKernelRidge(50).fit([up, down, up + 1, down - 1], [0, 1, 0, 1])
    >>> model.predict_scores([up[:8], down[:9]]).argmax(1)
    array([0, 1])
    """

    def __init__(self, num_kernels: int = 2000, seed: int = 0):
        if num_kernels < 1:
            raise ValueError(f"num_kernels must be at least 1, got {num_kernels}.")
        self.num_kernels, self.seed = num_kernels, seed

    def fit(
        self,
        series: Sequence[np.ndarray],
        labels: Sequence[int],
        *,
        num_labels: int | None = None,
    ) -> "RandomKernelRidge":
        """Learn from series `(L, F)` and class numbers; leaving one out chooses the penalty.

        Args:
            num_labels: number of classes, up to the largest label by default; those without rows
                in training have the lowest score.
        """
        from sklearn.linear_model import RidgeClassifierCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        if len(series) != len(labels) or len(series) == 0:
            raise ValueError(f"Got {len(series)} series and {len(labels)} labels.")
        classes = np.asarray(labels)
        if len(np.unique(classes)) < 2:
            raise ValueError(f"Labels of two classes or more are needed, got only {classes[0]}.")
        self.num_labels_ = count_classes(num_labels, classes)
        self._draw_kernels(series)
        ridge = RidgeClassifierCV(alphas=np.logspace(-3, 3, 10))
        self._model = make_pipeline(StandardScaler(), ridge)
        self._model.fit(self.transform(series), classes)
        return self

    def predict_scores(self, series: Sequence[np.ndarray]) -> np.ndarray:
        """Scores `(N, classes)`, the highest being the answer; they are no probabilities."""
        if not hasattr(self, "_model"):
            raise ValueError("RandomKernelRidge predicts after fit, which was not called.")
        found = self._model.decision_function(self.transform(series))
        if found.ndim == 1:
            found = np.stack([-found, found], axis=1)
        scores = np.repeat(found.min(1, keepdims=True) - 1, self.num_labels_, axis=1)
        scores[:, self._model[-1].classes_] = found
        return scores

    def transform(self, series: Sequence[np.ndarray]) -> np.ndarray:
        """Features `(N, 2 * num_kernels)`; a series has the same ones in any company."""
        lengths = np.array([len(one) for one in series])
        features = np.empty((len(series), 2 * self.num_kernels), dtype=np.float32)
        # series of one length go together, so that none is padded beyond its ends
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length)
            values = np.stack([series[int(row)] for row in rows]).astype(np.float32)
            features[rows] = self._convolve(torch.from_numpy(values).transpose(1, 2))
        return features

    def _draw_kernels(self, series: Sequence[np.ndarray]) -> None:
        chance = np.random.default_rng(self.seed)
        channels = series[0].shape[1]
        longest = float(np.median([len(one) for one in series]))
        # dilations up to the one at which a kernel spans a usual series
        most = max(1.0, (longest - 1) / (WIDTH - 1))
        exponents = chance.uniform(0, np.log2(most) if most > 1 else 0, self.num_kernels)
        self._dilations = np.sort(2 ** exponents.astype(int))
        weights = chance.normal(size=(self.num_kernels, channels, WIDTH))
        weights -= weights.mean(-1, keepdims=True)
        # few channels each, log-uniformly as in ROCKET, so that kernels differ in what they see
        counts = 2 ** chance.uniform(0, np.log2(min(channels, WIDTH) + 1), self.num_kernels)
        ranks = chance.random((self.num_kernels, channels)).argsort(1)
        weights *= (ranks < counts.astype(int)[:, None])[:, :, None]
        self._weights = torch.from_numpy(weights.astype(np.float32))
        self._biases = torch.from_numpy(chance.uniform(-1, 1, self.num_kernels).astype(np.float32))

    def _convolve(self, values: torch.Tensor) -> np.ndarray:
        found = []
        for dilation in np.unique(self._dilations):
            chosen = torch.from_numpy(self._dilations == dilation)
            answers = conv1d(
                values,
                self._weights[chosen],
                self._biases[chosen],
                padding=int(dilation) * (WIDTH // 2),
                dilation=int(dilation),
            )
            found += [(answers > 0).float().mean(2), answers.amax(2)]
        return torch.cat(found, dim=1).numpy()
