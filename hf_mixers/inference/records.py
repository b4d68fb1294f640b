"""Sequences one by one, from files of any size, standard input, or Python objects."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from os import PathLike, fspath
from typing import Any, BinaryIO, NamedTuple

import pandas as pd

from ..data.fasta import BYTE_ORDER_MARK, parse_fasta
from ..data.fastq import parse_fastq
from ..data.layout import Layout
from ..data.records import find_files, open_plain_or_gzip, open_streams, read_rows

STDIN = "-"
GZIP_START = b"\x1f\x8b"
_DAMAGES = (OSError, EOFError, zlib.error)


class Record(NamedTuple):
    """A sequence with its name and its place in the input, counted from 0."""

    number: int
    id: str
    sequence: str


# what functions of this package accept as input
Source = str | PathLike | Iterable[Any]


def read_records(
    source: Source,
    *,
    sequence_column: str = "sequence",
    id_column: str | None = None,
    shard: tuple[int, int] = (0, 1),
) -> Iterator[Record]:
    """Records of a source, without reading more of it than is asked for.

    Args:
        source: Files, folders or glob patterns of FASTA, FASTQ, GenBank, CSV or parquet, plain or
            gzip, read in the order in which they are given; `-` for FASTA or FASTQ on standard
            input, plain or gzip; or an iterable of texts, of pairs of id and text, of records, or
            of mappings such as the rows of a data set. A text of letters alone is a sequence, any
            other that comes first is the name of a file.
        sequence_column: Column of a table, or key of a mapping, with the sequence.
        id_column: Column or key with the id; `id` if there is one.
        shard: `(i, n)` gives every n-th record, from the i-th on.

    >>> [record.id for record in read_records([("a", "ACGT"), "GG"], shard=(1, 2))]
    ['record_2']
    """
    return _take_shard(_read_pairs(source, sequence_column, id_column), shard)


def read_files(
    sources: Sequence[str | PathLike],
    *,
    sequence_column: str = "sequence",
    id_column: str | None = None,
    shard: tuple[int, int] = (0, 1),
) -> Iterator[Record]:
    """Records of files, as `read_records` gives them; a name is never taken for a sequence."""
    return _take_shard(_read_files(sources, sequence_column, id_column), shard)


def _take_shard(pairs: Iterable[tuple[str, str]], shard: tuple[int, int]) -> Iterator[Record]:
    """Numbered records, every n-th from the i-th on."""
    index, count = shard
    if not 0 <= index < count:
        raise ValueError(f"shard={index}/{count} was given: 0/n to n-1/n are accepted.")
    for number, (name, sequence) in enumerate(pairs):
        if number % count == index:
            yield Record(number, name, sequence)


def _read_pairs(
    source: Source, sequence_column: str, id_column: str | None
) -> Iterator[tuple[str, str]]:
    if _is_path(source):
        return _read_files([source], sequence_column, id_column)  # type: ignore[list-item]
    if isinstance(source, pd.DataFrame):
        names, rows = source.columns, source.itertuples(index=False, name=None)
        source = (dict(zip(names, row, strict=True)) for row in rows)
    if not isinstance(source, Iterable):
        kind = type(source).__name__
        raise ValueError(f"Files or an iterable of sequences are accepted, got {kind}.")
    items = iter(source)
    first = next(items, None)
    if first is None:
        return iter(())
    rest = chain([first], items)
    if _is_path(first) and not _is_letters(first):
        return _read_files(list(rest), sequence_column, id_column)
    columns = (sequence_column, id_column)
    return (_check_item(*_name_item(item, number, *columns)) for number, item in enumerate(rest, 1))


def _is_path(item: Any) -> bool:
    return isinstance(item, (str, PathLike))


def _is_letters(item: Any) -> bool:
    """Whether a text is a sequence, and not the name of a file."""
    return isinstance(item, str) and (item.isalpha() or not item)


def _name_item(
    item: Any, number: int, sequence_column: str, id_column: str | None
) -> tuple[str, Any]:
    """Id and text of an item of an iterable."""
    if isinstance(item, str):
        return f"record_{number}", item
    if isinstance(item, Record):
        return item.id, item.sequence
    if isinstance(item, Mapping):
        for name in filter(None, (sequence_column, id_column)):
            if name not in item:
                held = ", ".join(map(str, item))
                raise ValueError(f"Item {number} has no {name!r}: it has {held}.")
        given = item.get(id_column or "id")
        name = f"record_{number}" if given in (None, "") else str(given)
        return name, item[sequence_column]
    if isinstance(item, Sequence) and len(item) == 2:
        return str(item[0]), item[1]
    raise ValueError(
        f"Item {number} is {type(item).__name__}: text, a pair of id and text, or a mapping with"
        f" {sequence_column!r} is accepted."
    )


def _check_item(name: str, sequence: Any) -> tuple[str, str]:
    if not isinstance(sequence, str):
        raise ValueError(f"Record {name!r} is {type(sequence).__name__}: text is a sequence.")
    return name, sequence


def _read_files(
    sources: Sequence[str | PathLike], sequence_column: str, id_column: str | None
) -> Iterator[tuple[str, str]]:
    if [fspath(source) for source in sources] == [STDIN]:
        with open_standard_input() as handle:
            yield from _parse(handle, "standard input", None)
        return
    if STDIN in sources:
        raise ValueError("Standard input (-) is read alone, got it together with files.")
    files, kind = find_files(sources, keep_order=True)
    if kind in ("fasta", "fastq"):
        for file in files:
            with open_plain_or_gzip(file) as handle:
                yield from _parse(handle, file, kind)
        return
    layout = Layout(kind, sequence_column, id_column)
    # ids and sequences of a CSV file stay as they are written, also where they look like numbers
    texts = (sequence_column, id_column or "id") if kind == "csv" else ()
    for file, stream in zip(files, open_streams(files, kind, texts), strict=True):
        for number, row in enumerate(read_rows(file, kind, stream), 1):
            if kind == "genbank":
                yield row["id"], row["sequence"]
                continue
            if sequence_column not in row:
                raise ValueError(
                    f"{file} has no column {sequence_column!r}: it has {', '.join(row)}."
                )
            if not isinstance(row[sequence_column], str | None):
                found = type(row[sequence_column]).__name__
                raise ValueError(
                    f"{file}: its column {sequence_column!r} holds {found}: text is a sequence."
                )
            if layout.id_column is None and "id" in row:
                layout.id_column = "id"
            arranged = layout.arrange(row, file, number)
            yield arranged["id"], arranged["sequence"]


@contextmanager
def open_standard_input() -> Iterator[BinaryIO]:
    """Standard input, unpacked if it is gzip; it stays open."""
    raw = sys.stdin.buffer
    start = raw.read(len(GZIP_START))
    whole = io.BufferedReader(_Joined(start, raw))
    if start != GZIP_START:
        yield whole
        return
    with gzip.open(whole) as unpacked:
        yield unpacked  # type: ignore[misc]


class _Joined(io.RawIOBase):
    """Bytes that were read before the rest of a stream, and the rest."""

    def __init__(self, start: bytes, rest: BinaryIO):
        self.start, self.rest = start, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self.start[: len(buffer)] or self.rest.read1(len(buffer))  # type: ignore[attr-defined]
        self.start = self.start[len(found) :]
        buffer[: len(found)] = found
        return len(found)


def parse_text(text: str) -> list[tuple[str, str]]:
    """Ids and letters of a text that is FASTA, FASTQ, or one sequence a line.

    >>> parse_text(">a\\nAC\\nGT\\n>b\\nGG"), parse_text("ACGT")
    ([('a', 'ACGT'), ('b', 'GG')], [('sequence_1', 'ACGT')])
    """
    text = text.strip()
    if text.startswith((">", "@", ";")):
        return list(_parse(io.BytesIO(text.encode()), "The text", None))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [(f"sequence_{number}", line) for number, line in enumerate(lines, 1)]


def _parse(handle: BinaryIO, name: str, kind: str | None) -> Iterator[tuple[str, str]]:
    """Id and letters of FASTA or FASTQ; the first byte tells which, if nothing else does."""
    lines = iter(handle)
    try:
        first = next((line for line in lines if line.removeprefix(BYTE_ORDER_MARK).strip()), b"")
    except _DAMAGES as error:
        raise ValueError(f"{name} is cut short or damaged: {error}") from error
    if not first:
        raise ValueError(f"{name} is empty.")
    if kind is None:
        kind = "fastq" if first.startswith(b"@") else "fasta"
    parse = parse_fastq if kind == "fastq" else parse_fasta
    try:
        for record in parse(chain([first], lines), name):
            yield record.id, record.sequence
    except _DAMAGES as error:
        raise ValueError(f"{name} is cut short or damaged: {error}") from error
