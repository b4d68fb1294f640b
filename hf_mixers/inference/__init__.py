"""Trained models over files of any size: streaming in, packed batches, streaming out."""

from .attribution import Attribution, attribute
from .calibrate import calibrate
from .embed import Embedding, embed
from .predict import Prediction, predict
from .records import Record, read_records
from .variants import AlleleScore, score_variants

__all__ = [
    "AlleleScore",
    "Attribution",
    "Embedding",
    "Prediction",
    "Record",
    "attribute",
    "calibrate",
    "embed",
    "predict",
    "read_records",
    "score_variants",
]
