"""Scores on their way to a file: VCF, otherwise the input byte for byte, or rows of a table."""

import gzip
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers.utils import logging

from ..outputs import choose_format
from .records import VCF_ENDINGS, VariantRecord, find_kind
from .score import AlleleScore

logger = logging.get_logger(__name__)

PREFIX = "HFM"
REASON = "reason"


def is_vcf(path: str | os.PathLike) -> bool:
    return os.fspath(path).lower().endswith(VCF_ENDINGS)


def format_number(value: float | None) -> str:
    """A number of INFO; a dot stands for none.

    >>> format_number(-0.123456789), format_number(None)
    ('-0.123457', '.')
    """
    return "." if value is None else f"{value:.6g}"


class VcfWriter:
    """Lines of a VCF with the scores appended to INFO.

    Args:
        header: Lines of the input up to that of the columns.
        fields: Names of the scores and what they are.
        version: Of this package.
        settings: What the scores depend on, for the header.
        prefix: What the keys in INFO start with.
    """

    columns = ("line",)

    def __init__(
        self,
        header: Sequence[bytes],
        fields: Mapping[str, str],
        version: str,
        settings: Mapping[str, Any],
        prefix: str = PREFIX,
    ):
        if not prefix.isidentifier():
            raise ValueError(f"prefix={prefix!r} was given: letters, digits and _ are accepted.")
        self.keys = {name: f"{prefix}_{name.upper()}" for name in (*fields, REASON)}
        self._check_free(header, prefix)
        self.header = [*header[:-1], *self._make_lines(header, fields, version, settings, prefix)]
        self.header.append(header[-1])

    def _check_free(self, header: Sequence[bytes], prefix: str) -> None:
        for line in header:
            if any(f"##INFO=<ID={key},".encode() in line for key in self.keys.values()):
                key = line.split(b"ID=")[1].split(b",")[0].decode()
                raise ValueError(
                    f"The input has {key} already: a prefix other than {prefix} is accepted."
                )

    def _make_lines(
        self,
        header: Sequence[bytes],
        fields: Mapping[str, str],
        version: str,
        settings: Mapping[str, Any],
        prefix: str,
    ) -> list[bytes]:
        end = header[-1][len(header[-1].rstrip(b"\r\n")) :].decode() or "\n"
        source = f'Source="hf_mixers",Version="{version}"'
        lines = [
            f'##INFO=<ID={self.keys[name]},Number=A,Type=Float,Description="{text}",{source}>'
            for name, text in fields.items()
        ]
        lines.append(
            f"##INFO=<ID={self.keys[REASON]},Number=.,Type=String,"
            f'Description="Why an alternate allele has no scores",{source}>'
        )
        values = ",".join(f'{name}="{_quote(value)}"' for name, value in settings.items())
        lines.append(f"##{prefix}_settings=<ID=settings,{values}>")
        return [f"{line}{end}".encode() for line in lines]

    def rows(self, record: VariantRecord, alleles: Sequence[AlleleScore]) -> list[dict[str, bytes]]:
        return [{"line": self.annotate(record.source, alleles)}]

    def annotate(self, line: bytes, alleles: Sequence[AlleleScore]) -> bytes:
        """A line with our keys behind its INFO; one that is malformed stays as it is."""
        if any(one.reason == "malformed_line" for one in alleles):
            return line
        body = line.rstrip(b"\r\n")
        fields = body.split(b"\t", 8)
        entries = self._make_entries(alleles)
        if not entries:
            return line
        given = {entry.split(b"=")[0].decode("latin-1") for entry in fields[7].split(b";")}
        if taken := sorted(given & set(self.keys.values())):
            raise ValueError(
                f"A record of the input has {taken[0]} in its INFO already: another prefix is"
                " accepted."
            )
        text = ";".join(entries).encode()
        # a dot stands for an empty INFO
        fields[7] = text if fields[7] == b"." else fields[7] + b";" + text
        return b"\t".join(fields) + line[len(body) :]

    def _make_entries(self, alleles: Sequence[AlleleScore]) -> list[str]:
        """Entries of INFO; a number that no allele has is left out."""
        entries = []
        for name, key in self.keys.items():
            if name == REASON:
                values = [one.reason or "." for one in alleles]
            else:
                values = [format_number((one.scores or {}).get(name)) for one in alleles]
            if any(value != "." for value in values):
                entries.append(f"{key}={','.join(values)}")
        return entries


def _quote(value: Any) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"')


class VcfFormat:
    """Parts of lines, joined behind the header; packed by bgzip and indexed if the name says so."""

    def __init__(self, header: Iterable[bytes]):
        self.header = b"".join(header)

    def write_part(self, path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
        path.write_bytes(b"".join(row["line"] for row in rows))

    def join(self, parts: Sequence[Path], target: Path, name: Path) -> None:
        is_packed = not os.fspath(name).lower().endswith(".vcf")
        with open_bgzip(target) if is_packed else open(target, "wb") as file:
            file.write(self.header)
            for part in parts:
                with open(part, "rb") as source:
                    shutil.copyfileobj(source, file)
        if is_packed:
            index_vcf(target, Path(f"{name}.tbi"))


def open_bgzip(path: str | os.PathLike) -> Any:
    """A file that is packed by bgzip as it is written."""
    return import_pysam().BGZFile(os.fspath(path), "wb")


def import_pysam() -> Any:
    try:
        import pysam
    except ImportError as error:
        raise ImportError("A packed VCF needs pysam: pip install hf-mixers[variants].") from error
    return pysam


def index_vcf(path: Path, index: Path) -> bool:
    """Write the tabix index of a packed VCF; one that is not sorted has none, which is said."""
    pysam = import_pysam()
    index.unlink(missing_ok=True)
    draft = Path(f"{path}.tbi")
    before = pysam.set_verbosity(0)
    try:
        if not _is_sorted(path):
            raise OSError("it is not sorted")
        pysam.tabix_index(os.fspath(path), preset="vcf", force=True, index=os.fspath(draft))
        os.replace(draft, index)
    except (OSError, ValueError) as error:
        draft.unlink(missing_ok=True)
        logger.warning(f"{index.name} is not written: {error}.")
        return False
    finally:
        pysam.set_verbosity(before)
    return True


def _is_sorted(path: Path) -> bool:
    """Whether records stand by contig and by position, as an index needs."""
    seen: set[bytes] = set()
    chrom, last = b"", 0
    with gzip.open(path, "rb") as lines:
        for line in lines:
            fields = line.split(b"\t", 2)
            if line.startswith(b"#"):
                continue
            if len(fields) < 3 or not fields[1].isdigit():
                return False
            if fields[0] != chrom:
                if fields[0] in seen:
                    return False
                chrom, last = fields[0], 0
                seen.add(chrom)
            if int(fields[1]) < last:
                return False
            last = int(fields[1])
    return True


class TableWriter:
    """Rows of a table: one per alternate allele of a VCF, or per row of a table.

    Args:
        fields: Names of the scores.
        names: Columns of the input that are kept; those of variants by default.
    """

    def __init__(self, fields: Iterable[str], names: Sequence[str] | None = None):
        self.fields, self.names = list(fields), names
        kept = ("chrom", "pos", "ref", "alt") if names is None else names
        taken = sorted({*self.fields, REASON} & set(kept))
        if taken:
            raise ValueError(f"The input has a column {taken[0]!r}, which the output adds.")
        self.columns = (*kept, *self.fields, REASON)

    def rows(self, record: VariantRecord, alleles: Sequence[AlleleScore]) -> list[dict[str, Any]]:
        return [self._make_row(record, one) for one in alleles]

    def _make_row(self, record: VariantRecord, one: AlleleScore) -> dict[str, Any]:
        if self.names is None:
            kept = {"chrom": one.chrom, "pos": one.pos, "ref": one.ref, "alt": one.alt}
        else:
            kept = {name: record.source[name] for name in self.names}
        scores = {name: (one.scores or {}).get(name) for name in self.fields}
        return {**kept, **scores, REASON: one.reason}


def check_target(source: str, target: Path) -> None:
    """Refuse an output that the input cannot become."""
    if is_vcf(target):
        if find_kind(source) == "table":
            raise ValueError(f"{source} is a table: it becomes .tsv or .parquet, not {target}.")
        if not os.fspath(target).lower().endswith(".vcf"):
            import_pysam()
        return
    try:
        choose_format(target, (".tsv", ".parquet"))
    except ValueError:
        endings = ".vcf, .vcf.gz, .vcf.bgz, .tsv, .parquet"
        raise ValueError(f"{target} must end in {endings}.") from None
