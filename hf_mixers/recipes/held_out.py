"""Which genomes a language model is trained on, and which records are kept for its evaluation."""

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
    files: list[str] | None, held_out: list[str] | None, shortest: int, folder: Path
) -> Genomes:
    """The genomes to train on, by default the embedded genes with the test species held out.

    Args:
        shortest: Bases of the shortest window, which records held out by us must have.
        folder: Where the embedded genes are written as FASTA.
    """
    if files is None:
        return _write_embedded(folder)
    records = record_names(files)
    held_out = held_out or choose_held_out(records, shortest)
    total = sum(length for _, length in records)
    names = ", ".join(held_out) if len(held_out) <= 10 else f"{len(held_out):,} records"
    logger.info(f"{len(records):,} records, {total:,} bases; held out: {names}")
    if set(held_out) >= {record for record, _ in records}:
        raise ValueError("All records are held out: nothing is left to train on.")
    return Genomes(files, held_out, ", ".join(Path(file).name for file in files))


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
