"""Scores of a model, overall and by length, with bootstrap confidence intervals.

`METRIC_PATH` is the same as a module of `evaluate`, which loads without a network:
`evaluate.load(str(METRIC_PATH))`.
"""

from pathlib import Path

from .length import LengthBin, length_bins
from .multi_label import multi_label_report
from .reports import classification_report, masked_report, overall_values, regression_report

METRIC_PATH = Path(__file__).parent / "length_aware_classification"

__all__ = [
    "METRIC_PATH",
    "LengthBin",
    "classification_report",
    "length_bins",
    "masked_report",
    "multi_label_report",
    "overall_values",
    "regression_report",
]
