"""A million short records: loaded from FASTA, compared with each other and split by group.

1,000,000 records of 100 bases, one in ten a copy of an earlier one, of 1,000 species and 10 classes
that the headers name. The file is written before; its cache is new.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

from hf_mixers.data import load_sequences
from hf_mixers.data.parts import SplitOptions, make_parts

from ..interleaved import Case, Group
from ..isolated import Built
from ..options import Options

COUNT, LETTERS = 1_000_000, 100
SPECIES, CLASSES = 1000, 10


def make_groups(options: Options) -> list[Group]:
    count = 1000 if options.smoke else COUNT
    labels = {"network": "load and split", "records": count, "letters": LETTERS}
    case = Case(labels, build, {"count": count, "seed": options.seed})
    return [Group([case], repeats=0, time_limit=3600)]


def build(count: int, seed: int) -> Built:
    """Loading and splitting of a file that is written here."""
    # lives as long as the process that measures
    folder = tempfile.TemporaryDirectory()
    file = write_records(Path(folder.name) / "records.fa", count, seed)

    def step() -> dict[str, float]:
        start = time.perf_counter()
        rows = load_sequences(
            file, label_pattern=r"class=(\w+)", cache_dir=Path(folder.name) / "cache"
        )
        loaded = time.perf_counter()
        make_parts(rows, SplitOptions(group_pattern=r"species=(\w+)"))
        return {"load_s": loaded - start, "split_s": time.perf_counter() - loaded}

    return Built(step, {})


def write_records(path: Path, count: int, seed: int) -> Path:
    """A FASTA file of random records, one in ten a copy."""
    chance = np.random.default_rng(seed)
    letters = np.frombuffer(b"ACGT", np.uint8)
    lines = letters[chance.integers(4, size=(count, LETTERS))]
    species = chance.integers(SPECIES, size=count)
    # copies are of the same species: others would join all species to one group
    copies, sources = chance.permutation(count)[: count // 5].reshape(2, -1)
    lines[copies], species[copies] = lines[sources], species[sources]
    with open(path, "wb") as file:
        for number, line in enumerate(lines):
            name = f">r{number} species=s{species[number]} class=c{species[number] % CLASSES}\n"
            file.write(name.encode() + line.tobytes() + b"\n")
    return path
