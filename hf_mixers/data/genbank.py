"""The four GenBank tasks of the ChordMixer paper: which of two genera is a sequence from?"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers.utils import logging

from .classes import describe_classes, format_classes
from .filters import filter_lengths
from .records import find_kind, open_plain_or_gzip
from .sequences import load_sequences

logger = logging.get_logger(__name__)

MIN_LENGTH = 32
BUNDLE_URL = "https://storage.googleapis.com/chordmixerdata/genbank_benchmark.zip"
_CSV_COLUMNS = ["genus", "sequence", "len"]


@dataclass(frozen=True)
class GenbankTask:
    """Two genera to tell apart.

    Args:
        classes: The genera, in the order of their labels 0 and 1.
        max_length: Longest sequence that is kept; the shortest has 32 bases.
        category: The division of GenBank as the paper calls it.
        counts: Sequences per class that the paper reports.
        where: Where to get the data: the published bundle, or NCBI's flat files.
    """

    classes: tuple[str, str]
    max_length: int
    category: str
    counts: tuple[int, int]
    where: tuple[str, str]


def _describe(classes, max_length, category, counts, division) -> GenbankTask:
    flat_files = f"https://ftp.ncbi.nlm.nih.gov/genbank/{division}1.seq.gz and its further parts"
    name = "_".join(classes)
    where = (f"{name}_all.csv in {BUNDLE_URL}", flat_files)
    return GenbankTask(classes, max_length, category, counts, where)


GENBANK_TASKS: dict[str, GenbankTask] = {
    "_".join(task.classes): task
    for task in (
        _describe(("Carassius", "Labeo"), 100_101, "other vertebrate", (7263, 6718), "gbvrt"),
        _describe(("Danio", "Cyprinus"), 261_943, "other vertebrate", (47135, 83321), "gbvrt"),
        _describe(("Mus", "Rattus"), 261_093, "rodent", (275636, 133310), "gbrod"),
        _describe(("Sus", "Bos"), 447_010, "other mammalian", (50027, 51973), "gbmam"),
    )
}


def load_genbank_task(
    name: str, path: str | os.PathLike, *, cache_dir: str | os.PathLike | None = None
) -> Dataset:
    """Sequences of a task's two genera with 32 bases to its cap; what is left out is reported.

    The table of classes is printed.

    Args:
        name: One of `GENBANK_TASKS`, such as `Carassius_Labeo` (or `Carassius/Labeo`).
        path: The bundle's `{name}_all.csv`, a folder with it, or a file or folder of GenBank flat
            files (`.seq`, `.seq.gz`, `.gb`). `GENBANK_TASKS[name].where` says where to get them.
        cache_dir: Folder of the cache, as in `datasets`.

    A raw record counts to a genus that its lineage names. Records that cannot be read as DNA are
    left out and reported, as public archives hold a few.
    """
    key = name.replace("/", "_")
    if key not in GENBANK_TASKS:
        raise ValueError(f"The task {name!r} was asked for: {', '.join(GENBANK_TASKS)} are known.")
    task, path = GENBANK_TASKS[key], os.fspath(path)
    bundle = os.path.join(path, f"{key}_all.csv") if os.path.isdir(path) else path
    if not os.path.exists(path):
        raise ValueError(f"{path} does not exist; {key} is {' or '.join(task.where)}.")
    options: dict[str, Any] = {
        "label_names": task.classes,
        "bad_records": "drop",
        "cache_dir": cache_dir,
    }
    if os.path.isfile(bundle) and find_kind(bundle) == "csv":
        genus, sequence, length = _read_head(bundle)
        dataset = load_sequences(bundle, label_column=genus, sequence_column=sequence, **options)
        _report_lengths(dataset, bundle, length)
        dataset = dataset.select_columns(["id", "sequence", "length", "label"])
    else:
        if "genbank" not in map(find_kind, _list_names(path)):
            raise ValueError(
                f"{path} is neither {key}_all.csv nor GenBank flat files; {key} is"
                f" {' or '.join(task.where)}."
            )
        # an accession may be in more than one part of a release
        dataset = load_sequences(path, label_from="taxonomy", duplicate_ids="drop", **options)
    dataset = filter_lengths(dataset, MIN_LENGTH, task.max_length)
    logger.info(f"{key}:\n{format_classes(describe_classes(dataset))}")
    return dataset


def _list_names(path: str) -> list[str]:
    return [str(name) for name in Path(path).rglob("*")] if os.path.isdir(path) else [path]


def _read_head(file: str) -> list[str]:
    """Names of the columns with genus, sequence and length: by name, or else the last three."""
    with open_plain_or_gzip(file) as handle:
        head = handle.readline().decode("utf-8-sig", errors="replace").strip()
    columns = [column.strip('" ') for column in head.split(",")]
    if len(columns) < 3 or columns[-1].isdigit():
        raise ValueError(
            f"{file} starts with {head[:60]!r}: a line that names the columns"
            f" {', '.join(_CSV_COLUMNS)} is accepted."
        )
    return _CSV_COLUMNS if set(_CSV_COLUMNS) <= set(columns) else columns[-3:]


def _report_lengths(dataset: Dataset, file: str, column: str) -> None:
    pairs = zip(dataset[column][:], dataset["length"][:], strict=True)
    wrong = [row for row, (given, true) in enumerate(pairs) if given != true]
    if wrong:
        logger.warning(
            f"{file}: {column} is not the length of the sequence in {len(wrong)} records, such as"
            f" {dataset[wrong[0]]['id']!r}; the sequence counts."
        )
