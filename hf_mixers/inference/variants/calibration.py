"""What ratios neutral changes have, by 5-mer and alternate base; made by `calibrate`."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from ...reporting.files import write_json


def fingerprint(model: PreTrainedModel) -> str:
    """What tells the weights of a model from others."""
    found = hashlib.sha256()
    for name, values in sorted(model.state_dict().items()):
        found.update(f"{name} {tuple(values.shape)} {values.dtype}".encode())
        # numpy does not know all types of torch
        found.update(values.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return found.hexdigest()[:16]


@dataclass
class Calibration:
    """Means of the ratios of neutral changes, and the distribution of what is left of them.

    Args:
        window: Bases of the windows that they were computed with.
        weights: `fingerprint` of the model.
        means: By 5-mer and alternate base, such as `ACGTA>C`.
        counts: How many sites each mean is of.
        quantiles: Of the ratios minus their means, at equal steps from 0 to 1; every 5-mer weighs
            as much as it is frequent in the reference.
        settings: How the sites were chosen.
    """

    window: int
    weights: str
    means: dict[str, float]
    counts: dict[str, int]
    quantiles: list[float]
    settings: dict[str, Any] = field(default_factory=dict)

    def apply(self, context: str, alt: str, ratio: float) -> dict[str, float]:
        """The calibrated score of a ratio and its percentile; nothing for a 5-mer without sites.

        >>> table = Calibration(512, "", {"ACGTA>C": -1.0}, {}, [-1.0, 0.0, 1.0])
        >>> table.apply("ACGTA", "C", -1.5)
        {'calibrated': -0.5, 'percentile': 25.0}
        """
        mean = self.means.get(f"{context}>{alt}")
        if mean is None:
            return {}
        score = ratio - mean
        shares = np.linspace(0, 100, len(self.quantiles))
        return {
            "calibrated": score,
            "percentile": float(np.interp(score, self.quantiles, shares)),
        }

    def check(self, model: PreTrainedModel, window: int) -> None:
        """Refuse a model or a window that the table was not made with."""
        if window != self.window:
            raise ValueError(
                f"The calibration was made with window={self.window}, got window={window}."
            )
        if fingerprint(model) != self.weights:
            raise ValueError("The calibration was made with other weights or another dtype.")

    def save(self, path: str | os.PathLike) -> None:
        write_json(Path(path), asdict(self))

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Calibration":
        """The table in a file; anything else is refused in one sentence."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            table = cls(**content)
            if len(table.quantiles) < 2 or not isinstance(table.means, dict):
                raise ValueError("it has no means or quantiles")
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(f"{path} is not a calibration of variants: {error}") from error
        return table
