"""Logistic regression on the pixels of images."""

import numpy as np
from datasets import DatasetDict

from ..data.other.images import read_pixels
from .classes import spread_classes


def regress_pixels(parts: DatasetDict, part: str) -> np.ndarray:
    """Probabilities of a logistic regression; its penalty is chosen on the validation part."""
    from sklearn.linear_model import LogisticRegression

    pixels = {name: read_pixels(rows) / 255 for name, rows in parts.items()}
    pixels = {name: images.reshape(len(images), -1) for name, images in pixels.items()}
    labels = {name: np.asarray(rows["label"][:]) for name, rows in parts.items()}
    strengths = (0.01, 0.1, 1.0) if "validation" in parts else (0.1,)
    models = [
        LogisticRegression(C=strength, max_iter=200).fit(pixels["train"], labels["train"])
        for strength in strengths
    ]
    held_out = "validation" if "validation" in parts else "train"
    best = max(models, key=lambda model: model.score(pixels[held_out], labels[held_out]))
    return spread_classes(best, pixels[part], len(parts["train"].features["label"].names))
