"""Labelled sequences from files: FASTA, FASTQ, GenBank, CSV or parquet, plain or gzip."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import ClassLabel, Dataset, Features, IterableDataset, Value
from transformers.utils import logging

from .cache import build_cached
from .checks import DNA_LETTERS, RecordRules
from .labels import ColumnLabels, FolderLabels, TableLabels, make_labels
from .layout import Layout
from .records import (
    TABLE_KINDS,
    find_files,
    find_kind,
    open_streams,
    read_features,
    read_rows,
)

logger = logging.get_logger(__name__)

# part of the cache's name: to be raised when what is stored for a file changes
_FORMAT = 2
# records of a stream that tell whether its labels are numbers
_FIRST_RECORDS = 1000
# decimal numbers up to here have all the digits of their text
_LARGEST = 2**53


def load_sequences(
    source: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    label_from: str | None = None,
    label_pattern: str | None = None,
    label_table: str | os.PathLike | None = None,
    label_column: str | None = None,
    label_names: Sequence[str] | None = None,
    taxonomy_dump: str | os.PathLike | None = None,
    sequence_column: str = "sequence",
    id_column: str | None = None,
    alphabet: str | None = DNA_LETTERS,
    min_length: int = 2,
    max_length: int | None = None,
    bad_records: Literal["error", "drop"] = "error",
    duplicate_ids: Literal["error", "drop", "keep"] = "error",
    streaming: bool = False,
    cache_dir: str | os.PathLike | None = None,
) -> Dataset | IterableDataset:
    """Sequences of files as a memory-mapped data set, with labels if a source of them is named.

    Columns are `id`, `sequence`, `length` and, if labelled, `label`: a `ClassLabel` with sorted
    names for text, a number for numbers. Then come `description` and `file` for FASTA, FASTQ and
    GenBank, `organism`, `species` and `taxonomy` for GenBank, and all other columns of a CSV or
    parquet file. A column of a CSV is text unless all of it are numbers, or True and False; in a
    stream it is always text, but labels are numbers if the first ones are.

    Args:
        source: A local file, a folder (searched with all folders in it), a glob pattern, or a list
            of these, all of one kind, plain or gzip: .fa .fasta .fna .fq .fastq .gb .gbk .gbff
            .seq .csv .tsv .parquet and so on.
        label_from: `folder` (the folder a file is in), or for GenBank `organism`, `species`,
            `genus`, `taxonomy` (the one of `label_names` that is in the lineage), or any rank such
            as `family` with `taxonomy_dump`.
        label_pattern: Regular expression with one group, the label, which is looked for in the
            description and, where that has no match, in the id.
        label_table: File with an id, a tab and a label in each line.
        label_column: Column of a CSV or parquet file: text or numbers.
        label_names: Names in the order of their numbers. Without them, names are those found,
            sorted; a stream needs them unless folders or a table tell.
        taxonomy_dump: Folder with NCBI's `nodes.dmp` and `names.dmp`, which know ranks.
        sequence_column: Column of a CSV or parquet file with the sequence.
        id_column: Column with the id; `id` if there is one, otherwise file name and row number.
        alphabet: Letters accepted, in upper or lower case; None accepts all.
        min_length: Fewest letters of a record.
        max_length: Most letters of a record.
        bad_records: `error` stops at the first record that is too short, too long, not of the
            alphabet, cut short or without label, with its file and id; `drop` leaves such records
            out and reports how many, and why. A damaged file is an error in any case.
        duplicate_ids: The same for ids that come again: `drop` keeps the first, `keep` keeps all.
        streaming: Read while iterating, without a cache. Each file is a shard, and ids that come
            again are noticed within a shard only.
        cache_dir: Folder of the cache, as in `datasets`. A changed file is read anew.

    >>> path = getfixture("tmp_path") / "two.fa"
    >>> _ = path.write_text(">a genus=Mus\\nACGT\\n>b genus=Bos\\nGGNNAC\\n")
    >>> dataset = load_sequences(path, label_pattern=r"genus=(\\w+)")
    >>> dataset["length"][:], dataset["label"][:], dataset.features["label"].names
    ([4, 6], [1, 0], ['Bos', 'Mus'])
    """
    _check_choice("bad_records", bad_records, ("error", "drop"))
    _check_choice("duplicate_ids", duplicate_ids, ("error", "drop", "keep"))
    files, kind = find_files(source)
    labels = make_labels(
        kind,
        label_from=label_from,
        label_pattern=label_pattern,
        label_table=label_table,
        label_column=label_column,
        label_names=label_names,
        taxonomy_dump=taxonomy_dump,
    )
    rules = RecordRules(
        alphabet, min_length, max_length, bad_records == "drop", duplicate_ids, labels, streaming
    )
    layout = Layout(kind, sequence_column, id_column)
    features, rules.names = _plan_columns(files, layout, rules, label_names)
    # so that a file that was changed is not taken from the cache
    stamps = [(os.stat(file).st_size, os.stat(file).st_mtime_ns) for file in files]
    arguments = {
        # lists are shards, which are read apart: in a tuple, ids are compared between files
        "files": files if streaming else tuple(files),
        "stamps": stamps if streaming else tuple(stamps),
        "layout": layout,
        "rules": rules,
        "format_version": _FORMAT,
    }
    if streaming:
        return IterableDataset.from_generator(
            _generate_rows, features=features, gen_kwargs=arguments
        )
    features["problem"] = Value("string")
    dataset = build_cached(_generate_rows, arguments, features, cache_dir)
    return _finish(dataset, files, rules)


def _generate_rows(
    files: Sequence[str], stamps: Sequence, layout: Layout, rules: RecordRules, format_version: int
) -> Iterator[dict[str, Any]]:
    """Checked rows of all files; a bad one is kept without its sequence, so that it is counted."""
    seen: set[str] = set()
    streams = open_streams(files, layout.kind, layout.text_columns)
    for file, stream in zip(files, streams, strict=True):
        counts: Counter = Counter()
        first: dict = {}
        number = 0
        for number, raw in enumerate(read_rows(file, layout.kind, stream), 1):
            if number == 1:
                layout.check(raw, file)
            row = layout.arrange(raw, file, number)
            if rules.labels is not None:
                row["label"] = rules.labels(raw | row, file)
            problem = rules.find_problem(row, seen)
            row.pop("announced", None)
            if problem is not None:
                if not rules.forgives(problem[0]):
                    raise ValueError(f"{file}: record {row['id']!r} {problem[1]}.")
                counts[problem[0]] += 1
                first.setdefault(problem[0], row["id"])
            if not rules.streaming:
                row["problem"] = problem[0] if problem else ""
                yield row | {"sequence": ""} if problem else row
            elif problem is None:
                if rules.names is not None and isinstance(row["label"], str):
                    row["label"] = rules.names.index(row["label"])
                yield row
        if rules.streaming:
            _report_left_out(counts, first, number, file)


def _plan_columns(
    files: list[str], layout: Layout, rules: RecordRules, label_names: Sequence[str] | None
) -> tuple[Features, list[str] | None]:
    """Features of the rows, in order, and the names of the labels as far as they are known."""
    others = {"description": Value("string"), "file": Value("string")}
    label_type: Any = Value("string")
    if layout.kind == "genbank":
        others |= {name: Value("string") for name in ("organism", "species", "taxonomy")}
    if layout.kind in TABLE_KINDS:
        others = dict(read_features(files[0], layout.kind))
        layout.plan(files[0], others, rules)
        if isinstance(rules.labels, ColumnLabels):
            label_type = others[rules.labels.column]
            if layout.kind == "csv" and rules.streaming and label_names is None:
                label_type = _peek_label_type(files[0], layout, rules)
    names = None if label_names is None else list(label_names)
    if rules.labels is None:
        label_type = None
    elif isinstance(label_type, ClassLabel):
        names, label_type = None, ClassLabel(names=label_type.names)
    elif label_type.dtype in ("string", "large_string"):
        label_type = Value("string")
        if isinstance(rules.labels, FolderLabels) and names is None:
            names = sorted({rules.labels({}, file) for file in files})
        elif isinstance(rules.labels, TableLabels) and names is None:
            names = sorted(set(rules.labels.table.values()))
        if rules.streaming:
            if names is None:
                raise ValueError(
                    "A stream of labelled sequences was asked for without label_names: they cannot"
                    " be known before all is read."
                )
            label_type = ClassLabel(names=names)
        elif label_names is None:
            # those that are found
            names = None
    elif names is not None:
        raise ValueError("label_names was given for a column of numbers: it is for text.")
    else:
        label_type = Value("float64" if "float" in label_type.dtype else "int64")
    ours = {"id": Value("string"), "sequence": Value("large_string"), "length": Value("int64")}
    if label_type is not None:
        ours["label"] = label_type
    others.pop(layout.sequence_column, None)
    return Features(ours | {key: others[key] for key in others if key not in ours}), names


def _peek_label_type(file: str, layout: Layout, rules: RecordRules) -> Value:
    """Type of the first labels of a CSV file, which those after them must have."""
    rows = read_rows(file, layout.kind, open_streams([file], layout.kind, layout.text_columns)[0])
    texts = [row[rules.labels.column] or None for row in islice(rows, _FIRST_RECORDS)]
    numbers = _read_numbers(pa.chunked_array([texts], pa.string()))
    if numbers is None:
        return Value("string")
    is_whole = pa.types.is_integer(numbers.type)
    rules.labels = replace(rules.labels, number=int if is_whole else float)
    return Value("int64" if is_whole else "float64")


def _finish(dataset: Dataset, files: list[str], rules: RecordRules) -> Dataset:
    """The data set without bad rows, which are reported, and with numbers for names."""
    order = [name for name in dataset.column_names if name != "problem"]
    problems = dataset.data.column("problem")
    good = pc.equal(problems, "").to_numpy()
    if not good.all():
        counts = Counter(problems.to_pylist())
        del counts[""]
        ids = dataset.data.column("id")
        first = {name: ids[pc.index(problems, name).as_py()].as_py() for name in counts}
        place = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} other files"
        _report_left_out(counts, first, len(dataset), place)
        if not good.any():
            raise ValueError(f"{place}: no record is left.")
    dataset = dataset.remove_columns("problem")
    if find_kind(files[0]) == "csv":
        dataset = _read_types(dataset, rules, good)
    feature = dataset.features.get("label") if rules.labels is not None else None
    if feature is not None and feature.dtype == "string":
        texts = dataset.data.column("label").to_pylist()
        found = Counter(text for text, fine in zip(texts, good, strict=True) if fine)
        names = rules.names or sorted(found)
        numbers = {name: number for number, name in enumerate(names)}
        # bad rows are still in place here, and may have no label
        column = [numbers.get(text, -1) for text in texts]
        dataset = dataset.remove_columns("label")
        dataset = dataset.add_column("label", column, feature=ClassLabel(names=names))
        _report_classes(found, names)
    if isinstance(rules.labels, TableLabels):
        unused = len(rules.labels.table.keys() - set(dataset.data.column("id").to_pylist()))
        if unused:
            logger.warning(f"{unused} ids of the label table are in none of the files.")
    dataset = dataset.select_columns(order)
    return dataset if good.all() else dataset.select(good.nonzero()[0])


def _read_types(dataset: Dataset, rules: RecordRules, good: np.ndarray) -> Dataset:
    """Columns of a CSV file, read as text, as the numbers that all of their texts are."""
    for name in dataset.column_names:
        texts = dataset.data.column(name)
        if name in ("id", "sequence", "length"):
            continue
        if name == "label" and rules.labels is not None:
            if not isinstance(rules.labels, ColumnLabels) or rules.names is not None:
                continue
            values = _read_numbers(pc.if_else(good, texts, None))
        else:
            values = _read_numbers(texts)
            values = _cast(texts, pa.bool_()) if values is None else values
        if values is not None:
            dataset = dataset.remove_columns(name).add_column(name, values.to_pylist())
    return dataset


def _read_numbers(texts: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Texts as whole or else decimal numbers, None unless all of them are numbers."""
    decimal = _cast(texts, pa.float64())
    if decimal is None:
        return None
    whole = _cast(texts, pa.int64())
    if whole is not None:
        return whole
    exact = pc.less_equal(pc.abs(decimal), _LARGEST)
    return decimal if pc.all(exact).as_py() else None


def _cast(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    try:
        return None if texts.null_count == len(texts) else texts.cast(kind)
    except pa.ArrowInvalid:
        return None


def _report_left_out(counts: Counter, first: dict[str, str], total: int, place: str) -> None:
    if counts:
        parts = [f"{counts[name]} {name} (first: {first[name]!r})" for name in sorted(counts)]
        logger.warning(
            f"{place}: {sum(counts.values())} of {total} records are left out: {', '.join(parts)}."
        )


def _report_classes(found: Counter, names: list[str]) -> None:
    rare = [name for name in names if found[name] < 2]
    if rare:
        logger.warning(f"Classes with fewer than two records: {', '.join(rare)}.")
    if len(names) < 2:
        logger.warning(f"All records have the label {names[0]!r}.")


def _check_choice(name: str, value: str, accepted: tuple[str, ...]) -> None:
    if value not in accepted:
        raise ValueError(f"{name}={value!r} was given: {', '.join(accepted)} are accepted.")
