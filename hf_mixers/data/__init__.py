"""Data: sequences from files, labels, splits, windows, batches."""

from .._moved import moved_names
from .augment import StrandCollator, TokenDropoutCollator
from .batching import TokenBudgetBatchSampler
from .classes import balanced_class_weights, describe_classes, format_classes
from .collators import CausalLMCollator, FlatCollator, MaskedLMCollator, PaddedCollator
from .embedded import load_embedded, load_embedded_series
from .encode import fix_lengths, tokenize_sequences
from .filters import filter_lengths, filter_letters
from .genbank import GENBANK_TASKS, load_genbank_task
from .genomes import record_names
from .identity import find_identical
from .parts import SplitOptions, make_parts
from .pieces import cut_sequences, draw_reads
from .sequences import load_sequences
from .splits import (
    split_by_column,
    split_by_group,
    split_stratified,
    subset_stratified,
)
from .token_windows import TokenWindows, hold_out_ends
from .windows import GenomeWindows

__all__ = [
    "GENBANK_TASKS",
    "CausalLMCollator",
    "FlatCollator",
    "GenomeWindows",
    "MaskedLMCollator",
    "PaddedCollator",
    "SplitOptions",
    "StrandCollator",
    "TokenBudgetBatchSampler",
    "TokenDropoutCollator",
    "TokenWindows",
    "balanced_class_weights",
    "cut_sequences",
    "describe_classes",
    "draw_reads",
    "filter_lengths",
    "filter_letters",
    "find_identical",
    "fix_lengths",
    "format_classes",
    "hold_out_ends",
    "load_embedded",
    "load_embedded_series",
    "load_genbank_task",
    "load_sequences",
    "make_parts",
    "record_names",
    "split_by_column",
    "split_by_group",
    "split_stratified",
    "subset_stratified",
    "tokenize_sequences",
]

# names of the first release
__getattr__ = moved_names(
    __name__,
    {
        "hf_mixers.data.other": [
            "PixelScaler",
            "SeriesScaler",
            "TableEncoder",
            "load_aeon_series",
            "load_images",
            "load_table",
            "load_time_series",
            "make_image_parts",
            "make_series_parts",
        ],
        "hf_mixers.tasks": ["adding_problem", "fixed_adding_problem", "temporal_order"],
    },
)
