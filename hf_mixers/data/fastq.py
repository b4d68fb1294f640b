"""FASTQ, record by record, from any stream of bytes."""

from collections.abc import Iterable, Iterator

from .fasta import BYTE_ORDER_MARK, FastaRecord


def parse_fastq(lines: Iterable[bytes], name: str = "the input") -> Iterator[FastaRecord]:
    """Records of FASTQ lines, four lines each; qualities are checked for their number and dropped.

    Args:
        name: What errors call the input.

    >>> list(parse_fastq([b"@a first\\n", b"ACGT\\n", b"+\\n", b"IIII\\n"]))
    [FastaRecord(id='a', description='first', sequence='ACGT')]
    """
    stripped = (
        (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).rstrip(b"\r\n")
        for number, line in enumerate(lines, 1)
    )
    for header in stripped:
        if not header:
            continue
        if not header.startswith(b"@"):
            start = header[:20].decode(errors="replace")
            raise ValueError(f"{name} has {start!r} where a record of FASTQ starts with '@'.")
        title = header[1:].decode("utf-8", errors="replace")
        sequence, plus, quality = (next(stripped, None) for _ in range(3))
        if sequence is None or plus is None or quality is None:
            raise ValueError(f"{name} ends within record {title!r}.")
        if not plus.startswith(b"+") or len(quality) != len(sequence):
            raise ValueError(
                f"{name}: record {title!r} has {len(sequence)} letters and {len(quality)}"
                " qualities, or more lines than four."
            )
        first, _, rest = title.partition(" ")
        yield FastaRecord(first, rest.strip(), sequence.decode("latin-1"))
