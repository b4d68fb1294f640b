"""FASTA, record by record, from any stream of bytes."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

# the mark that some editors put before the first character
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class FastaRecord(NamedTuple):
    """One record: the first word of its header, the rest of it, and its letters."""

    id: str
    description: str
    sequence: str


def parse_fasta(lines: Iterable[bytes], name: str = "the input") -> Iterator[FastaRecord]:
    """Records of FASTA lines; comment lines start with `;`.

    Args:
        name: What errors call the input.

    >>> for record in parse_fasta([b">a first\\n", b"AC\\n", b"GT\\n", b">b\\n"]):
    ...     print(record)
    FastaRecord(id='a', description='first', sequence='ACGT')
    FastaRecord(id='b', description='', sequence='')
    """
    header: str | None = None
    parts: list[bytes] = []
    for number, line in enumerate(lines, 1):
        line = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        line = line.rstrip(b"\r\n")
        if line.startswith(b">"):
            if header is not None:
                yield _make_record(header, parts)
            header, parts = _decode(line[1:], name), []
        elif line.startswith(b";") or not line.strip():
            continue
        elif header is None:
            start = line[:20].decode(errors="replace")
            raise ValueError(f"{name} starts with {start!r}: fasta starts with '>'.")
        else:
            parts.append(line)
    if header is not None:
        yield _make_record(header, parts)


def _make_record(header: str, parts: list[bytes]) -> FastaRecord:
    name, _, description = header.strip().partition(" ")
    # what is no letter is shown to the checks as it is
    sequence = b"".join(parts).decode("latin-1").replace(" ", "").replace("\t", "")
    return FastaRecord(name, description.strip(), sequence)


def _decode(text: bytes, name: str) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise ValueError(explain_encoding(name, error)) from None


def explain_encoding(name: str, error: UnicodeDecodeError) -> str:
    """One sentence about text that is not UTF-8."""
    byte = error.object[error.start]
    return (
        f"{name} is not UTF-8 text: it has the byte 0x{byte:02x}, which is"
        f" {bytes([byte]).decode('latin-1')!r} in Latin-1; iconv -f latin1 -t utf8 converts it."
    )
