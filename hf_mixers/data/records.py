"""Files of sequences: found, opened through `datasets`' builders, and read record by record."""

import glob
import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from datasets import Features, IterableDataset, Value, load_dataset
from transformers.utils import logging

from .fasta import BYTE_ORDER_MARK, explain_encoding, parse_fasta

logger = logging.get_logger(__name__)

Kind = Literal["fasta", "fastq", "genbank", "csv", "parquet"]

_ENDINGS: dict[Kind, tuple[str, ...]] = {
    "fasta": (".fa", ".fasta", ".fna", ".ffn", ".frn", ".fas", ".faa", ".afa"),
    "fastq": (".fq", ".fastq"),
    "genbank": (".gb", ".gbk", ".gbff", ".genbank", ".seq"),
    "csv": (".csv", ".tsv"),
    "parquet": (".parquet",),
}
KINDS: dict[str, Kind] = {ending: kind for kind, endings in _ENDINGS.items() for ending in endings}
TABLE_KINDS = ("csv", "parquet")
# what pyfaidx, samtools and bgzip write beside a file
_INDEX_ENDINGS = (".fai", ".gzi")

_COLUMNS = {
    "fasta": ["id", "description", "sequence"],
    "fastq": ["id", "description", "sequence", "record"],
    "genbank": [
        *("version", "accession", "locus_name", "definition"),
        *("organism", "taxonomy", "sequence", "length"),
    ],
}
_STARTS = {"fasta": (b">", b";"), "fastq": (b"@",)}
_BATCH_SIZE = 1000
_READ_ERRORS = (OSError, EOFError, zlib.error, ValueError, pa.ArrowException)


def find_kind(file: str) -> Kind | None:
    """The kind of file that a name stands for, or None for a name without a known ending.

    >>> find_kind("genomes/a.fna.gz"), find_kind("reads.FQ"), find_kind("notes.txt")
    ('fasta', 'fastq', None)
    """
    name = file.lower().removesuffix(".gz").removesuffix(".bgz")
    return KINDS.get(os.path.splitext(name)[1])


def find_files(
    source: str | os.PathLike | Sequence[str | os.PathLike], *, keep_order: bool = False
) -> tuple[list[str], Kind]:
    """Sorted files of a source, each once, all of one kind, and that kind.

    Args:
        source: A file, a folder (searched with all folders in it), a glob pattern, or a list of
            these. In a folder, tables are read only if it has no sequence files.
        keep_order: Sort the files of each folder and pattern only, and leave a list as it is.
    """
    sources = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    found = dict.fromkeys(chain.from_iterable(_expand(os.fspath(one)) for one in sources))
    files = list(found) if keep_order else sorted(found)
    kinds: Any = sorted({find_kind(file) for file in files})
    if not kinds:
        raise ValueError("No files were given: a file, a folder or a glob pattern is accepted.")
    if len(kinds) > 1:
        raise ValueError(
            f"Files of the kinds {', '.join(kinds)} were given together, such as"
            f" {', '.join(next(f for f in files if find_kind(f) == kind) for kind in kinds)}: one"
            " kind at a time is accepted."
        )
    return files, kinds[0]


def _expand(source: str) -> list[str]:
    """Files that one name, folder or pattern stands for."""
    if os.path.isdir(source):
        return _list_folder(source)
    found = [source] if os.path.exists(source) else sorted(glob.glob(source, recursive=True))
    files = [name for name in found if not os.path.isdir(name)]
    if not found:
        raise ValueError(f"{source} does not exist, and no file matches it as a pattern.")
    files += chain.from_iterable(_list_folder(name) for name in found if os.path.isdir(name))
    for file in files:
        if find_kind(file) is None:
            raise ValueError(
                f"{file} has an ending that is not known: {', '.join(KINDS)} are accepted, plain"
                " or followed by .gz."
            )
    return files


def _list_folder(folder: str) -> list[str]:
    names = sorted(str(path) for path in Path(folder).rglob("*") if path.is_file())
    names = [n for n in names if not n.endswith(_INDEX_ENDINGS) and os.path.basename(n)[0] != "."]
    records = [name for name in names if find_kind(name) not in (None, *TABLE_KINDS)]
    files = records or [name for name in names if find_kind(name)]
    if not files:
        raise ValueError(f"The folder {folder} holds no file with the ending {', '.join(KINDS)}.")
    others = len(names) - len(files)
    if others:
        first = next(name for name in names if name not in set(files))
        logger.warning(f"{folder}: {others} files are not read as sequences, such as {first}.")
    return files


def open_streams(
    files: Sequence[str], kind: Kind, text_columns: Sequence[str] = ()
) -> list[IterableDataset]:
    """One stream per file, by `datasets`' own builder; nothing is read yet.

    Args:
        text_columns: Columns of a CSV that are text even where they look like numbers.
    """
    options: dict[str, Any] = {}
    if kind in _COLUMNS:
        # the builders' default columns include one that needs biopython
        options = {"columns": _COLUMNS[kind], "batch_size": _BATCH_SIZE}
    elif kind == "csv":
        # NA is two bases, and 007 is not the number 7
        options = {"keep_default_na": False, "na_values": [""]}
        options["converters"] = dict.fromkeys(text_columns, str)
        tabs = {file.lower().removesuffix(".gz").endswith(".tsv") for file in files}
        if len(tabs) > 1:
            raise ValueError("Files .csv and .tsv were given together: one kind is accepted.")
        options["sep"] = "\t" if tabs.pop() else ","
    # a split for each file, as the builders do not tell which file a record is from
    data_files = {f"file{index}": [glob.escape(file)] for index, file in enumerate(files)}
    try:
        return list(load_dataset(kind, data_files=data_files, streaming=True, **options).values())
    except _READ_ERRORS as error:
        if len(files) == 1 and isinstance(error, UnicodeDecodeError):
            raise ValueError(explain_encoding(files[0], error)) from None
        if len(files) == 1:
            raise ValueError(f"{files[0]} is cut short or damaged: {error}") from error
        # one by one, so that the message names the file
        return [open_streams([file], kind, text_columns)[0] for file in files]


def read_rows(file: str, kind: Kind, stream: IterableDataset) -> Iterator[dict[str, Any]]:
    """Records of one file as dictionaries; a damaged file is a ValueError that names it."""
    last, letters = None, 0
    try:
        if _check_start(file, kind):
            yield from _read_marked(file)
            return
        for table in stream.with_format("arrow").iter(batch_size=_BATCH_SIZE):
            for row in table.to_pylist():
                last = _name_record(row, kind) if kind in _COLUMNS else row
                if kind == "fastq":
                    letters += _count_letters(row.pop("record")["bytes"])
                yield row
        if kind == "genbank":
            _check_end(file)
        elif kind == "fastq":
            _check_all_read(file, letters)
    except UnicodeDecodeError as error:
        raise ValueError(explain_encoding(file, error)) from None
    except _READ_ERRORS as error:
        if str(error).startswith(file):
            raise
        place = "" if last is None or kind in TABLE_KINDS else f" somewhere after record {last!r}"
        raise ValueError(f"{file} is cut short or damaged{place}: {error}") from error
    if last is None:
        raise ValueError(f"{file} holds no records.")


def read_features(file: str, kind: Kind) -> Features:
    """Columns of a table; those of a CSV file are text, as its first rows do not tell the rest."""
    stream = open_streams([file], kind)[0]
    first = next(read_rows(file, kind, stream))
    return Features(dict.fromkeys(first, Value("string"))) if kind == "csv" else stream.features


def _name_record(row: dict[str, Any], kind: Kind) -> str:
    """The id of a record."""
    if kind == "genbank":
        row["id"] = row["version"] or row["accession"] or row["locus_name"]
    return row["id"]


def open_plain_or_gzip(file: str) -> Any:
    """The bytes of a file, unpacked if it is packed."""
    with open(file, "rb") as handle:
        packed = handle.read(2) == b"\x1f\x8b"
    return gzip.open(file, "rb") if packed or file.endswith(".gz") else open(file, "rb")


def _read_marked(file: str) -> Iterator[dict[str, Any]]:
    """Records of a FASTA file with a byte order mark, which the builder does not read."""
    with open_plain_or_gzip(file) as handle:
        for record in parse_fasta(handle, file):
            yield record._asdict()


def _check_start(file: str, kind: Kind) -> bool:
    """See that a file is not empty and begins as its kind does, as builders skip what does not.

    Whether it is FASTA with a byte order mark.
    """
    if os.path.getsize(file) == 0:
        raise ValueError(f"{file} is empty.")
    if kind in TABLE_KINDS:
        return False
    with open_plain_or_gzip(file) as handle:
        start = handle.read(1 << 16)
    is_marked = kind == "fasta" and start.startswith(BYTE_ORDER_MARK)
    start = start.removeprefix(BYTE_ORDER_MARK) if is_marked else start
    if not start.strip():
        raise ValueError(f"{file} is empty.")
    if kind == "genbank":
        if b"LOCUS " not in start:
            raise ValueError(f"{file} has no LOCUS line in its first part: it is not GenBank.")
    elif not start.lstrip().startswith(_STARTS[kind]):
        first = start.split(maxsplit=1)[0][:20].decode(errors="replace")
        raise ValueError(
            f"{file} starts with {first!r}: {kind} starts with {_STARTS[kind][0].decode()!r}."
        )
    return is_marked


def _check_end(file: str) -> None:
    """See that a GenBank file ends where a record ends, as the builder drops an open record."""
    tail = b""
    with open_plain_or_gzip(file) as handle:
        if not isinstance(handle, gzip.GzipFile):
            handle.seek(max(0, os.path.getsize(file) - 4096))
        while part := handle.read(1 << 20):
            tail = (tail + part)[-4096:]
    if not tail.rstrip().endswith(b"//"):
        raise ValueError(f"{file} ends within a record: the last line must be //.")


def _check_all_read(file: str, letters: int) -> None:
    """See that all letters of a FASTQ file are in records, as the builder skips other lines."""
    with open_plain_or_gzip(file) as handle:
        total = sum(map(_count_letters, iter(partial(handle.read, 1 << 20), b"")))
    if total != letters:
        raise ValueError(
            f"{file} has {total - letters} letters that are in no record: the first line of a"
            " record starts with '@'."
        )


def _count_letters(text: bytes) -> int:
    return len(text.translate(None, b" \t\r\n"))
