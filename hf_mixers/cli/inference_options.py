"""Options that the commands for trained models share."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

Model = Annotated[str, typer.Argument(help="Folder or Hub name of a model.")]
Files = Annotated[
    list[str], typer.Argument(help="FASTA, FASTQ, GenBank, CSV or parquet files, or - for stdin.")
]
Output = Annotated[Path, typer.Option("--output", "-o", help="File to write, or - for stdout.")]
Shard = Annotated[str, typer.Option(metavar="I/N", help="Every N-th record, from the I-th on.")]
Budget = Annotated[int, typer.Option("--token-budget", help="Most tokens in a batch.")]
Device = Annotated[str | None, typer.Option(help="Such as cpu or cuda:0.")]
Dtype = Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")]
Compile = Annotated[bool, typer.Option("--compile", help="Compile the model first.")]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at a record that cannot be read.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Write an existing file again.")]
Average = Annotated[bool, typer.Option("--rc-average", help="Average over both strands.")]
Column = Annotated[str, typer.Option(help="Column of a table with the sequence.")]


def parse_shard(text: str) -> tuple[int, int]:
    """`i/n` as two numbers.

    >>> parse_shard("0/3")
    (0, 3)
    """
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or int(found[1]) >= int(found[2]):
        raise ValueError(f"--shard takes 0/n to n-1/n, got {text!r}.")
    return int(found[1]), int(found[2])


@contextmanager
def keep_output(target: Path) -> Iterator[TextIO]:
    """Standard output; where results go there, all that is said goes to standard error."""
    out = sys.stdout
    with redirect_stdout(sys.stderr if str(target) == "-" else out):
        yield out


def report(summary: Any, target: Path) -> None:
    """Say what a run did."""
    notes = ", ".join(f"{count} {note}" for note, count in summary.notes.items())
    typer.echo(
        f"{summary.records:,} records are in {target}"
        f" ({summary.tokens_per_second:,.0f} tokens/s){f'; {notes}' if notes else ''}"
    )
