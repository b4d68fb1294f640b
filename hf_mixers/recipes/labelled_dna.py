"""Labelled DNA for a recipe: which sequences, how labelled, and what of them is used."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict
from transformers.utils import logging

from ..data.classes import describe_classes, format_classes
from ..data.embedded import load_embedded
from ..data.filters import filter_lengths, filter_letters
from ..data.genbank import load_genbank_task
from ..data.parts import SplitOptions, make_parts
from ..data.pieces import cut_sequences, draw_reads
from ..data.problems import CLASSES, PROBLEMS, read_as
from ..data.sequences import load_sequences
from ..data.splits import subset_stratified

logger = logging.get_logger(__name__)

LABEL_SOURCES = ("label_from", "label_pattern", "label_table", "label_column")
# what is asked of files, and of no other data
FILE_OPTIONS = (*LABEL_SOURCES, "class_names", "taxonomy_dump", "id_column")
SMOKE_FRACTION, SMOKE_ROWS = 0.02, 16


@dataclass
class RecordOptions:
    """What to do about records that cannot be used."""

    bad_records: str = field(
        default="error",
        metadata={
            "help": "'error' stops at a record without label or with other letters than DNA, or"
            " than the model knows; 'drop' leaves such records out, counted."
        },
    )
    duplicate_ids: str = field(
        default="error", metadata={"help": "'error', 'drop' (keeps the first) or 'keep'."}
    )


@dataclass
class DataOptions(RecordOptions):
    """Which sequences, and how they are labelled."""

    data: list[str] | None = field(
        default=None, metadata={"help": "Files, globs or folders; default: the embedded genes."}
    )
    genbank_task: str | None = field(
        default=None,
        metadata={"help": "A task of the ChordMixer paper, such as Carassius_Labeo, in --data."},
    )
    label_from: str | None = field(
        default=None,
        metadata={
            "help": "'folder', or of GenBank records 'organism', 'species', 'genus', 'taxonomy'"
            " (which of --class_names is in the lineage) or a rank of --taxonomy_dump."
        },
    )
    label_pattern: str | None = field(
        default=None, metadata={"help": "Regular expression with one group, on the description."}
    )
    label_table: str | None = field(default=None, metadata={"help": "TSV of id and label."})
    label_column: str | None = field(default=None, metadata={"help": "Column of a table."})
    problem: str = field(
        default=CLASSES,
        metadata={
            "help": "What labels are: 'classes', 'regression' (numbers) or 'multi_label' (any"
            " number of classes, with label_separator between them)."
        },
    )
    label_separator: str = field(
        default=";", metadata={"help": "Between the labels of one record, of multi_label."}
    )
    class_names: list[str] | None = field(
        default=None, metadata={"help": "Classes in the order of their numbers; default: sorted."}
    )
    taxonomy_dump: str | None = field(
        default=None, metadata={"help": "Folder with NCBI's nodes.dmp and names.dmp."}
    )
    sequence_column: str = field(default="sequence", metadata={"help": "Column of a table."})
    id_column: str | None = field(default=None, metadata={"help": "Column of a table."})
    min_length: int = field(
        default=2, metadata={"help": "Shorter sequences are left out, counted."}
    )
    max_length: int | None = field(
        default=None, metadata={"help": "Longer sequences are left out, counted."}
    )
    cut_training: int | None = field(
        default=None,
        metadata={"help": "Cut longer training sequences into pieces of 100 to this many bases."},
    )
    cut_rounds: int = field(
        default=1,
        metadata={"help": "Passes over the training data per epoch, each with new random cuts."},
    )
    cut_pieces: int | None = field(
        default=None,
        metadata={
            "help": "Most pieces kept of a sequence, drawn at random, so that long ones do not"
            " outnumber short ones; default: all."
        },
    )
    read_length: int | None = field(
        default=None,
        metadata={
            "help": "Take reads of this many bases in place of the sequences of all parts, from"
            " random places of either strand."
        },
    )
    reads_per_sequence: int = field(default=1, metadata={"help": "Reads of each sequence."})
    train_fraction: float = field(
        default=1.0, metadata={"help": "Share of the training part to use, stratified."}
    )
    reverse_complement: bool = field(
        default=False,
        metadata={"help": "Reverse-complement each training sequence with probability 0.5."},
    )
    token_dropout: float = field(
        default=0.0,
        metadata={"help": "Share of the bases masked in training, drawn again in every epoch."},
    )
    score_column: str | None = field(
        default=None,
        metadata={"help": "Validate and test only on rows where this column is false."},
    )

    def __post_init__(self) -> None:
        if self.read_length is None and self.reads_per_sequence != 1:
            raise ValueError("reads_per_sequence requires read_length: there are no reads else.")
        if self.read_length is not None and (self.read_length < 1 or self.reads_per_sequence < 1):
            raise ValueError(
                f"read_length={self.read_length} and reads_per_sequence={self.reads_per_sequence}"
                " were given: at least 1 is accepted."
            )
        if self.cut_rounds != 1 and self.cut_training is None:
            raise ValueError("cut_rounds requires cut_training: nothing is cut without it.")
        if self.cut_pieces is not None and self.cut_training is None:
            raise ValueError("cut_pieces requires cut_training: nothing is cut without it.")
        if self.cut_pieces is not None and self.cut_pieces < 1:
            raise ValueError(f"cut_pieces must be at least 1, got {self.cut_pieces}.")
        given = [name for name in FILE_OPTIONS if getattr(self, name) is not None]
        if self.data is None and (self.genbank_task or given):
            name = "genbank_task" if self.genbank_task else given[0]
            raise ValueError(f"{name} requires data: it says how files are read.")
        if self.problem not in PROBLEMS:
            raise ValueError(
                f"problem={self.problem!r} was given: {', '.join(PROBLEMS)} are accepted."
            )
        if self.problem != CLASSES and (self.data is None or self.genbank_task):
            raise ValueError(f"problem={self.problem} requires data with labels of that kind.")
        if self.problem != CLASSES and self.class_names:
            raise ValueError(f"class_names are for problem={CLASSES}, got {self.problem}.")
        if self.genbank_task and given:
            raise ValueError(f"genbank_task sets its own classes: {given[0]} must not be given.")


def load_rows(options: DataOptions) -> Dataset:
    """All sequences with their labels; what is left out is logged."""
    if options.data is None:
        return load_embedded()
    if options.genbank_task:
        if len(options.data) > 1:
            raise ValueError("genbank_task is read from one file or folder, got several in data.")
        return load_genbank_task(options.genbank_task, options.data[0])
    columns = ("sequence_column", "id_column")
    rules = ("taxonomy_dump", "bad_records", "duplicate_ids")
    dataset = load_sequences(
        options.data,
        # shorter ones than asked for are left out below, and are no reason to stop
        min_length=1,
        label_names=options.class_names,
        **{name: getattr(options, name) for name in (*LABEL_SOURCES, *columns, *rules)},
    )
    if "label" not in dataset.column_names:
        sources = ", ".join(LABEL_SOURCES)
        raise ValueError(f"The data have no labels: one of {sources} says where they come from.")
    dataset = read_as(dataset, options.problem, options.label_separator)
    if options.problem != CLASSES:
        return dataset
    names = dataset.features["label"].names
    if len(names) < 2:
        hint = f"one of {', '.join(LABEL_SOURCES)} gives each record its class"
        if options.label_from == "folder":
            hint = "files of each class lie in a folder of their own"
        raise ValueError(
            f"All records have the label {names[0]!r}, and a classifier needs two classes: {hint}."
        )
    return dataset


def load_parts(
    options: DataOptions,
    split: SplitOptions,
    part: str = "test",
    *,
    seed: int = 0,
    smoke: bool = False,
    letters: str | None = None,
) -> DatasetDict:
    """Parts of the sequences, ready to be tokenized.

    Args:
        part: The part that results will be reported on, which must be there.
        seed: What of the training part is used, and how it is cut.
        letters: Those that the model's vocabulary has, if it is smaller than that of DNA.
    """
    dataset = filter_lengths(load_rows(options), options.min_length, options.max_length)
    if letters:
        # the function checks what was chosen
        bad_records: Any = options.bad_records
        dataset = filter_letters(dataset, letters + "U", bad_records)
    if options.data is None and not split.has_groups and split.split_column is None:
        split = replace(split, split_column="split")
    parts = make_parts(dataset, split, required=part)
    if options.score_column:
        for name in parts.keys() - {"train"}:
            parts[name] = leave_out_seen(parts[name], options.score_column, name)
    classes = "label" if options.problem == CLASSES else None
    if options.train_fraction != 1:
        parts["train"] = subset_stratified(parts["train"], options.train_fraction, seed, classes)
    if smoke:
        parts = DatasetDict(
            {
                name: subset_stratified(rows, _smoke_fraction(rows, classes), seed, classes)
                for name, rows in parts.items()
            }
        )
    if options.read_length:
        # those of other parts are the same for every seed
        seeds = {name: seed if name == "train" else 0 for name in parts}
        count = options.reads_per_sequence
        parts = DatasetDict(
            {
                name: draw_reads(rows, options.read_length, count=count, seed=seeds[name])
                for name, rows in parts.items()
            }
        )
    if options.cut_training:
        parts["train"] = cut_sequences(
            parts["train"],
            options.cut_training,
            seed=seed,
            rounds=options.cut_rounds,
            most=options.cut_pieces,
        )
    for name, rows in parts.items():
        logger.info(f"{name}:\n{format_classes(describe_classes(rows, classes))}")
    return parts


def _smoke_fraction(rows: Dataset, classes: str | None) -> float:
    """Of classes at least one row each is drawn; without classes, enough rows to differ."""
    return SMOKE_FRACTION if classes else min(1, max(SMOKE_FRACTION, SMOKE_ROWS / len(rows)))


def leave_out_seen(rows: Dataset, column: str, part: str) -> Dataset:
    """Rows of a part where a column is false; the others are counted."""
    kind = getattr(rows.features.get(column), "dtype", None)
    if kind is None or kind.endswith("string"):
        raise ValueError(
            f"score_column must be a column of true and false, got {column!r}: there are"
            f" {', '.join(rows.column_names)}."
        )
    kept = np.flatnonzero(~np.asarray(rows[column][:], dtype=bool))
    left_out = len(rows) - len(kept)
    logger.warning(f"{left_out} of {len(rows)} {part} rows are not scored: {column}.")
    if len(kept) == 0:
        raise ValueError(f"score_column={column!r} leaves no {part} row to score.")
    return rows.select(kept)
