"""Data: sequences, splits, batches."""

import warnings

from .augment import StrandCollator, TokenDropoutCollator
from .batching import TokenBudgetBatchSampler
from .classes import balanced_class_weights, describe_classes, format_classes
from .collators import FlatCollator, MaskedLMCollator, PaddedCollator
from .embedded import load_embedded, load_embedded_series
from .encode import fix_lengths, tokenize_sequences
from .filters import filter_lengths, filter_letters
from .genbank import GENBANK_TASKS, load_genbank_task
from .genomes import record_names
from .images import PixelScaler, load_images, make_image_parts
from .pieces import cut_sequences
from .sequences import load_sequences
from .splits import (
    draw_validation,
    split_by_column,
    split_by_group,
    split_stratified,
    subset_stratified,
)
from .tables import TableEncoder, load_table
from .time_series import (
    SeriesScaler,
    load_aeon_series,
    load_time_series,
    make_series_parts,
)
from .windows import GenomeWindows

__all__ = [
    "GENBANK_TASKS",
    "FlatCollator",
    "GenomeWindows",
    "MaskedLMCollator",
    "PaddedCollator",
    "PixelScaler",
    "SeriesScaler",
    "StrandCollator",
    "TableEncoder",
    "TokenBudgetBatchSampler",
    "TokenDropoutCollator",
    "balanced_class_weights",
    "cut_sequences",
    "describe_classes",
    "draw_validation",
    "filter_lengths",
    "filter_letters",
    "fix_lengths",
    "format_classes",
    "load_aeon_series",
    "load_embedded",
    "load_embedded_series",
    "load_genbank_task",
    "load_images",
    "load_sequences",
    "load_table",
    "load_time_series",
    "make_image_parts",
    "make_series_parts",
    "record_names",
    "split_by_column",
    "split_by_group",
    "split_stratified",
    "subset_stratified",
    "tokenize_sequences",
]

_MOVED_TO_TASKS = ("adding_problem", "fixed_adding_problem", "temporal_order")


def __getattr__(name: str):
    if name not in _MOVED_TO_TASKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .. import tasks

    warnings.warn(
        f"hf_mixers.data.{name} is deprecated: import it from hf_mixers.tasks.",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(tasks, name)
