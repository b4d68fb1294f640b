"""Variants one by one: from a VCF, whose lines are kept as bytes, from a table, or from objects."""

import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...data.records import Kind, open_streams, read_features, read_rows
from ..records import STDIN, open_standard_input

# what stands in the header instead of a VCF
_MAGIC = b"##fileformat=VCF"
# the empty block at the end of every BGZF file
_BGZF_END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
_BGZF_START = re.compile(rb"\x1f\x8b\x08\x04.{6}..BC\x02\x00", re.DOTALL)
_READ_ERRORS = (OSError, EOFError, zlib.error)
_NUMBER = re.compile(r"[0-9]{1,15}")

COLUMNS = {
    "chrom": ("chrom", "chr", "chromosome", "CHROM", "#CHROM"),
    "pos": ("pos", "position", "POS"),
    "ref": ("ref", "REF", "ref_allele"),
    "alt": ("alt", "ALT", "alt_allele"),
}
# endings of files, plain or followed by .gz
TABLE_ENDINGS = (".csv", ".tsv", ".parquet")
VCF_ENDINGS = (".vcf", ".vcf.gz", ".vcf.bgz")


class VariantRecord(NamedTuple):
    """A line of a VCF or a row of a table.

    Args:
        number: Its place among all, counted from 0.
        place: What errors call it.
        pos: Counted from 1.
        alts: Alternate alleles as they were written.
        problem: Why none of it can be scored; empty if that depends on the alleles.
        source: The bytes of the line, or the row.
    """

    number: int
    place: str
    chrom: str
    pos: int
    ref: str
    alts: tuple[str, ...]
    problem: str
    source: Any


class Vcf(NamedTuple):
    """Lines of a header up to that of the columns, and the records that follow."""

    header: list[bytes]
    records: Iterator[VariantRecord]


def find_kind(source: Any) -> str:
    """`vcf`, `table` or `objects`: what a source of variants is."""
    if not isinstance(source, (str, os.PathLike)):
        return "objects"
    name = os.fspath(source).lower()
    if name == STDIN or name.endswith(VCF_ENDINGS):
        return "vcf"
    if name.removesuffix(".gz").endswith(TABLE_ENDINGS):
        return "table"
    accepted = ", ".join((*VCF_ENDINGS, *TABLE_ENDINGS))
    raise ValueError(f"{source} has an ending that is not known: {accepted} are accepted.")


def read_variants(source: Any) -> Iterator[VariantRecord]:
    """Variants of a VCF, a table, or an iterable of `(chrom, pos, ref, alt)` or mappings.

    >>> [record.alts for record in read_variants([("chr1", 5, "A", "T")])]
    [('T',)]
    """
    kind = find_kind(source)
    if kind == "vcf":
        return read_vcf(os.fspath(source)).records
    if kind == "table":
        return read_table(os.fspath(source))
    return _read_objects(source)


# VCF


def read_vcf(path: str) -> Vcf:
    """The header of a VCF, plain, gzip or bgzip, and its records one by one.

    Nothing is decoded, so that a line can be written again as it was.
    """
    name = "standard input" if path == STDIN else path
    lines = _read_lines(path, name)
    header: list[bytes] = []
    for line in lines:
        if not header and not line.removeprefix(b"\xef\xbb\xbf").startswith(_MAGIC):
            start = line[:20].decode("latin-1").strip()
            raise ValueError(f"{name} starts with {start!r}: VCF starts with '##fileformat=VCF'.")
        header.append(line)
        if line.startswith(b"#CHROM"):
            return Vcf(header, _parse_lines(lines, name, len(header)))
        if not line.startswith(b"#"):
            break
    if not header:
        raise ValueError(f"{name} is empty.")
    raise ValueError(f"{name} has no line '#CHROM' before line {len(header)}: it is not a VCF.")


def _read_lines(path: str, name: str) -> Iterator[bytes]:
    try:
        with _open(path) as handle:
            first = handle.readline()
            if first.startswith(b"BCF"):
                raise ValueError(f"{name} is BCF: bcftools view -Ov makes a VCF of it.")
            if first:
                yield first
            yield from handle
    except _READ_ERRORS as error:
        if isinstance(error, FileNotFoundError):
            raise ValueError(f"{name} does not exist.") from error
        raise ValueError(f"{name} is cut short or damaged: {error}") from error


def _open(path: str) -> Any:
    """The bytes of a file or of standard input, unpacked if they are packed."""
    if path == STDIN:
        return open_standard_input()
    with open(path, "rb") as handle:
        start = handle.read(18)
        if _BGZF_START.match(start):
            handle.seek(max(0, os.path.getsize(path) - len(_BGZF_END)))
            if handle.read() != _BGZF_END:
                raise EOFError("the last block of bgzip is missing")
    # what is named .gz and is not packed is read as it is
    return gzip.open(path, "rb") if start[:2] == b"\x1f\x8b" else open(path, "rb")


def _parse_lines(lines: Iterator[bytes], name: str, before: int) -> Iterator[VariantRecord]:
    for number, line in enumerate(lines):
        yield _parse_line(number, f"{name}, line {before + number + 1}", line)


def _parse_line(number: int, place: str, line: bytes) -> VariantRecord:
    fields = [field.decode("latin-1") for field in line.rstrip(b"\r\n").split(b"\t", 8)[:8]]
    is_whole = len(fields) == 8 and all(fields) and not line.startswith(b"#")
    if not is_whole or not _NUMBER.fullmatch(fields[1]):
        return VariantRecord(number, place, "", 0, "", (), "malformed_line", line)
    chrom, pos, _, ref, alt = fields[:5]
    alts = () if alt == "." else tuple(alt.split(","))
    problem = "" if alts else "no_alternate"
    return VariantRecord(number, place, chrom, int(pos), ref, alts, problem, line)


# tables and objects


def read_table(path: str) -> Iterator[VariantRecord]:
    """Rows of a CSV, TSV or parquet file with columns chrom, pos, ref and alt."""
    if not os.path.isfile(path):
        raise ValueError(f"{path} does not exist.")
    names, kind = read_names(path), find_table_kind(path)
    columns = find_columns(names, path)
    # all of a CSV file is text, so that a row is kept as it is written
    (stream,) = open_streams([path], kind, names if kind == "csv" else ())
    return (
        _parse_row(number, f"{path}, row {number + 1}", row, columns)
        for number, row in enumerate(read_rows(path, kind, stream))
    )


def read_names(path: str) -> list[str]:
    """Names of the columns of a table."""
    return list(read_features(path, find_table_kind(path)))


def find_table_kind(path: str) -> Kind:
    return "parquet" if path.lower().endswith(".parquet") else "csv"


def find_columns(names: Sequence[str], where: str) -> dict[str, str]:
    """The column of chrom, pos, ref and alt among the names of a table."""
    found = {}
    for name, accepted in COLUMNS.items():
        matches = [one for one in accepted if one in names]
        if not matches:
            raise ValueError(
                f"{where} has no column {name!r}: it has {', '.join(map(str, names))}."
            )
        found[name] = matches[0]
    return found


def _parse_row(
    number: int, place: str, row: Mapping[str, Any], columns: Mapping[str, str]
) -> VariantRecord:
    chrom, pos, ref, alt = (row[columns[name]] for name in ("chrom", "pos", "ref", "alt"))
    position = str(pos).removesuffix(".0")
    if chrom is None or ref is None or not _NUMBER.fullmatch(position):
        return VariantRecord(number, place, "", 0, "", (), "malformed_line", row)
    alts = () if alt in (None, "", ".") else (str(alt),)
    problem = "" if alts else "no_alternate"
    return VariantRecord(number, place, str(chrom), int(position), str(ref), alts, problem, row)


def _read_objects(items: Iterable[Any]) -> Iterator[VariantRecord]:
    for number, item in enumerate(items):
        place = f"Variant {number + 1}"
        if isinstance(item, Mapping):
            columns = find_columns(list(item), place)
            yield _parse_row(number, place, item, columns)
        elif isinstance(item, (tuple, list)) and len(item) == 4:
            row = dict(zip(COLUMNS, item, strict=True))
            yield _parse_row(number, place, row, {name: name for name in COLUMNS})
        else:
            raise ValueError(
                f"{place} is {type(item).__name__}: (chrom, pos, ref, alt) or a mapping of these"
                " is accepted."
            )
