"""Runs on labelled DNA: which sequences, how labelled, how split, and what of them is scored."""

from dataclasses import dataclass, field

import numpy as np
from datasets import ClassLabel, Dataset, DatasetDict

from ..data import (
    cut_sequences,
    describe_classes,
    draw_validation,
    filter_lengths,
    filter_letters,
    format_classes,
    load_embedded,
    load_genbank_task,
    load_sequences,
    split_by_column,
    split_by_group,
    split_stratified,
    subset_stratified,
)
from ..recipes.options import RecordOptions

LABEL_SOURCES = ("label_from", "label_pattern", "label_table", "label_column")
# what is asked of files, and of no other data
FILE_OPTIONS = (*LABEL_SOURCES, "class_names", "taxonomy_dump", "id_column")


@dataclass
class DataOptions(RecordOptions):
    """Which data, how labelled, how split."""

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
    class_names: list[str] | None = field(
        default=None, metadata={"help": "Classes in the order of their numbers; default: sorted."}
    )
    taxonomy_dump: str | None = field(
        default=None, metadata={"help": "Folder with NCBI's nodes.dmp and names.dmp."}
    )
    sequence_column: str = field(default="sequence", metadata={"help": "Column of a table."})
    id_column: str | None = field(default=None, metadata={"help": "Column of a table."})
    split_column: str | None = field(
        default=None, metadata={"help": "Column with train, val and test; embedded: 'split'."}
    )
    group_column: str | None = field(
        default=None,
        metadata={"help": "Split so that no group, such as a species, is in two parts."},
    )
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
        metadata={"help": "Show all training sequences so often in an epoch, cut otherwise."},
    )
    train_fraction: float = field(
        default=1.0, metadata={"help": "Share of the training part to use, stratified."}
    )
    reverse_complement: bool = field(
        default=False, metadata={"help": "Show half of the training sequences as the other strand."}
    )
    token_dropout: float = field(
        default=0.0,
        metadata={"help": "Share of the bases hidden in training, anew in every epoch."},
    )
    score_column: str | None = field(
        default=None, metadata={"help": "Score only test rows where this column is false."}
    )

    def __post_init__(self):
        if self.cut_rounds != 1 and self.cut_training is None:
            raise SystemExit("--cut_rounds needs --cut_training: nothing is cut without it.")
        given = [name for name in FILE_OPTIONS if getattr(self, name) is not None]
        if self.data is None and (self.genbank_task or given):
            name = "genbank_task" if self.genbank_task else given[0]
            raise SystemExit(f"--{name} is about files, which --data must name.")
        if self.genbank_task and given:
            raise SystemExit(f"--genbank_task knows its classes: it goes without --{given[0]}.")
        if self.split_column and self.group_column:
            raise SystemExit("--split_column and --group_column were given: one of them splits.")


def load_rows(options: DataOptions) -> Dataset:
    """All sequences with their classes; what is left out is printed."""
    if options.data is None:
        return load_embedded()
    if options.genbank_task:
        if len(options.data) > 1:
            raise SystemExit("--genbank_task is read from one file or folder in --data.")
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
        raise SystemExit("Say where labels come from: --label_from, --label_pattern, ...")
    if "float" in dataset.features["label"].dtype:
        raise SystemExit("Labels must be classes, as text or whole numbers, got decimal numbers.")
    if not isinstance(dataset.features["label"], ClassLabel):
        dataset = dataset.class_encode_column("label")
    return dataset


def load_parts(
    options: DataOptions, seed: int, judged: str, smoke: bool, letters: str | None = None
) -> DatasetDict:
    """Training and validation part, and the one to judge the model on."""
    dataset = filter_lengths(load_rows(options), options.min_length, options.max_length)
    if letters:
        dataset = filter_letters(dataset, letters + "U", options.bad_records)
    split_column = options.split_column
    if options.data is None and not options.group_column:
        split_column = split_column or "split"
    if split_column:
        parts = split_by_column(dataset, split_column)
    elif options.group_column:
        parts = split_by_group(dataset, options.group_column, seed=seed)
    else:
        parts = split_stratified(dataset, seed=seed)
    if "train" not in parts or judged not in {*parts, "validation"}:
        raise SystemExit(f"{split_column!r} names no rows for training or none for {judged}.")
    if "validation" not in parts:
        print("No validation part: a tenth of the training part is drawn for it.", flush=True)
        parts = draw_validation(parts, 0.1, seed)
    if options.score_column and "test" in parts:
        parts["test"] = leave_out_seen(parts["test"], options.score_column)
    if options.train_fraction != 1:
        parts["train"] = subset_stratified(parts["train"], options.train_fraction, seed)
    if smoke:
        parts = DatasetDict({k: subset_stratified(v, 0.02, seed) for k, v in parts.items()})
    if options.cut_training:
        parts["train"] = cut_sequences(
            parts["train"], options.cut_training, seed=seed, rounds=options.cut_rounds
        )
    for name, part in parts.items():
        print(f"{name}:\n{format_classes(describe_classes(part))}", flush=True)
    return parts


def leave_out_seen(test: Dataset, column: str) -> Dataset:
    """Rows of the test part where a column is false; the others are counted."""
    kind = getattr(test.features.get(column), "dtype", None)
    if kind is None or kind.endswith("string"):
        raise SystemExit(
            f"--score_column must be a column of true and false, got {column!r}: there are"
            f" {', '.join(test.column_names)}."
        )
    kept = np.flatnonzero(~np.asarray(test[column][:], dtype=bool))
    print(f"{len(test) - len(kept)} of {len(test)} test rows are not scored: {column}.", flush=True)
    if len(kept) == 0:
        raise SystemExit(f"--score_column {column} leaves no test row to score.")
    return test.select(kept)
