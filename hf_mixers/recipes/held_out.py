"""Which genomes a language model is trained on, and which records are kept for its evaluation."""

import re
from dataclasses import dataclass
from pathlib import Path

from transformers.utils import logging

from ..data.embedded import load_embedded
from ..data.genomes import record_names

logger = logging.get_logger(__name__)

# share of all bases that is held out where nobody says what
HELD_OUT_FRACTION = 0.1


@dataclass(frozen=True)
class Genomes:
    """FASTA files, the records or parts of records held out, and what to call the data."""

    files: list[str]
    held_out: list[str]
    name: str


def find_genomes(
    files: list[str] | None,
    shortest: int,
    folder: Path,
    *,
    names: list[str] | None = None,
    pattern: str | None = None,
    table: str | None = None,
) -> Genomes:
    """The genomes to train on, by default the embedded genes with the test species held out.

    Args:
        shortest: Bases of the shortest window, which records held out by us must have.
        folder: Where the embedded genes are written as FASTA.
        names: Records to hold out, or parts of them as `name:first-last`.
        pattern: A regular expression that finds the names of records to hold out.
        table: A file with such names, one a line.
    """
    if files is None:
        return _write_embedded(folder)
    records = record_names(files)
    if pattern is not None:
        held_out = _match_names(records, pattern)
    elif table is not None:
        held_out = _read_names(table)
    else:
        held_out = names or choose_held_out(records, shortest)
    total = sum(length for _, length in records)
    shown = ", ".join(held_out) if len(held_out) <= 10 else f"{len(held_out):,} records"
    logger.info(f"{len(records):,} records, {total:,} bases; held out: {shown}")
    if set(held_out) >= {record for record, _ in records}:
        raise ValueError("All records are held out: nothing is left to train on.")
    return Genomes(files, held_out, ", ".join(Path(file).name for file in files))


def _match_names(records: list[tuple[str, int]], pattern: str) -> list[str]:
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}.") from error
    found = [name for name, _ in records if expression.search(name)]
    if not found:
        raise ValueError(
            f"No record has a name that {pattern!r} matches, such as {records[0][0]!r}."
        )
    return found


def _read_names(table: str) -> list[str]:
    if not Path(table).is_file():
        raise ValueError(f"The table {table} does not exist.")
    lines = Path(table).read_text(encoding="utf-8-sig").splitlines()
    names = [line.split("\t")[0].strip() for line in lines if line.strip()]
    if not names:
        raise ValueError(f"The table {table} names no record.")
    return list(dict.fromkeys(names))


def choose_held_out(records: list[tuple[str, int]], shortest: int) -> list[str]:
    """Records for evaluation: up to a tenth of all bases, in records as long as there are.

    Where all are longer than that, the shortest; of a single one, or one that is most of a genome,
    the last tenth.

    >>> choose_held_out([("a", 900), ("b", 60), ("c", 40)], 50)
    ['b']
    >>> choose_held_out([("a", 1000)], 50)
    ['a:901-1000']
    """
    usable = sorted((record for record in records if record[1] >= shortest), key=lambda r: -r[1])
    if not usable:
        raise ValueError(f"No record has the {shortest} bases of the shortest window.")
    total = sum(length for _, length in usable)
    chosen, room = [], int(total * HELD_OUT_FRACTION)
    for name, length in usable:
        if length <= room:
            chosen.append(name)
            room -= length
    if chosen:
        return chosen
    name, length = usable[-1]
    if length <= total / 2 and len(usable) > 1:
        return [name]
    return [f"{name}:{length - length // 10 + 1}-{length}"]


def _write_embedded(folder: Path) -> Genomes:
    genes = load_embedded()
    path = folder / "genes.fa"
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(
            f">{name}\n{sequence}\n"
            for name, sequence in zip(genes["id"], genes["sequence"], strict=True)
        )
    parts = zip(genes["id"], genes["split_species"], strict=True)
    test = [name for name, part in parts if part == "test"]
    return Genomes([str(path)], test, "clostridium_mycoplasma")
