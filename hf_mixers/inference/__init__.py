"""Trained models over files of any size: streaming in, packed batches, streaming out."""

from .embed import Embedding, embed
from .predict import Prediction, predict
from .records import Record, read_records

__all__ = ["Embedding", "Prediction", "Record", "embed", "predict", "read_records"]
