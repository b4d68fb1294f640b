"""Variants of a VCF or a table, scored by a masked language model."""

from .alleles import REASONS
from .calibration import Calibration
from .reference import Reference
from .run import VariantSummary, score_to_file
from .score import AlleleScore, score_variants

__all__ = [
    "REASONS",
    "AlleleScore",
    "Calibration",
    "Reference",
    "VariantSummary",
    "score_to_file",
    "score_variants",
]
