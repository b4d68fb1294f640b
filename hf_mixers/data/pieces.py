"""Long sequences as pieces, so that few of them are many examples to learn from."""

from itertools import pairwise

import numpy as np
from datasets import Dataset

from ..models.dna import reverse_complement


def cut_sequences(
    dataset: Dataset,
    longest: int,
    shortest: int = 100,
    seed: int = 0,
    column: str = "sequence",
    rounds: int = 1,
    most: int | None = None,
) -> Dataset:
    """Every sequence longer than `longest` as pieces, end to end; the others as they are.

    Lengths of pieces are log-uniform. What is left at the end and shorter than `shortest` stays
    with the piece before it, so nothing is lost, unless `most` is given: then so many pieces of a
    sequence are kept, drawn at random, so that long sequences do not outnumber short ones. An `id`
    gets the place of the piece, `:first-last`, the first letter being 1; other columns are
    repeated. All that happens `rounds` times, each time with other cuts: an epoch of the result is
    as long as so many epochs, and shows no piece twice but the sequences that need no cut.

    >>> whole = Dataset.from_dict({"id": ["a", "b"], "sequence": ["ACGT" * 5, "GG"]})
    >>> pieces = cut_sequences(whole, longest=9, shortest=6)
    >>> "".join(pieces["sequence"][:-1]), pieces["id"][-1]
    ('ACGTACGTACGTACGTACGT', 'b')
    >>> len(cut_sequences(whole, longest=9, shortest=6, most=1))
    2
    """
    if not 1 <= shortest <= longest:
        raise ValueError(
            f"shortest={shortest} and longest={longest} were given: 1 <= shortest <= longest is"
            " accepted."
        )
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}.")
    if most is not None and most < 1:
        raise ValueError(f"most must be at least 1, got {most}.")
    chance = np.random.default_rng(seed)
    rows, texts, ids = [], [], []
    names = dataset["id"][:] if "id" in dataset.column_names else [None] * len(dataset)
    sequences = list(enumerate(zip(dataset[column], names, strict=True)))
    for row, (text, name) in sequences * rounds:
        if len(text) <= longest:
            pieces = [(0, len(text))]
        else:
            pieces = _draw_pieces(len(text), shortest, longest, chance)
        kept = pieces
        if most is not None and len(pieces) > most:
            kept = [pieces[i] for i in sorted(chance.choice(len(pieces), most, replace=False))]
        for start, end in kept:
            rows.append(row)
            texts.append(text[start:end])
            ids.append(name if len(pieces) == 1 else f"{name}:{start + 1}-{end}")
    return _make_rows(dataset, column, rows, texts, ids)


def draw_reads(
    dataset: Dataset, length: int, *, count: int = 1, seed: int = 0, column: str = "sequence"
) -> Dataset:
    """Pieces of a length from random places of every sequence, of either strand, as reads are.

    A shorter sequence is read whole. An `id` gets the place, `:first-last`, and the strand.

    >>> genome = Dataset.from_dict({"id": ["a"], "sequence": ["AAAAAAAACCCCCCCC"]})
    >>> reads = draw_reads(genome, 4, count=3)
    >>> reads["sequence"][:], reads["id"][0]
    (['GGGG', 'GGGG', 'AAAA'], 'a:12-15(-)')
    """
    if length < 1 or count < 1:
        raise ValueError(f"length={length} and count={count} were given: each is at least 1.")
    chance = np.random.default_rng(seed)
    rows, texts, ids = [], [], []
    names = dataset["id"][:] if "id" in dataset.column_names else [None] * len(dataset)
    for row, (text, name) in enumerate(zip(dataset[column], names, strict=True)):
        for _ in range(count):
            start = int(chance.integers(max(1, len(text) - length + 1)))
            read, is_turned = text[start : start + length], chance.random() < 0.5
            rows.append(row)
            texts.append(reverse_complement(read) if is_turned else read)
            strand = "-" if is_turned else "+"
            ids.append(f"{name}:{start + 1}-{start + len(read)}({strand})")
    return _make_rows(dataset, column, rows, texts, ids)


def _make_rows(
    dataset: Dataset, column: str, rows: list[int], texts: list[str], ids: list
) -> Dataset:
    """Rows of a data set by their numbers, with other sequences and ids."""
    changed = {column: texts, "id": ids, "length": [len(text) for text in texts]}
    others = {name: dataset[name][:] for name in dataset.column_names if name not in changed}
    columns = {
        name: changed[name] if name in changed else [others[name][row] for row in rows]
        for name in dataset.column_names
    }
    return Dataset.from_dict(columns, features=dataset.features)


def _draw_pieces(
    length: int, shortest: int, longest: int, chance: np.random.Generator
) -> list[tuple[int, int]]:
    """Starts and ends of pieces that cover `length` letters."""
    ends = [0]
    while ends[-1] < length:
        drawn = int(np.exp(chance.uniform(np.log(shortest), np.log(longest + 1))))
        ends.append(min(ends[-1] + drawn, length))
        if length - ends[-1] < shortest:
            ends[-1] = length
    return list(pairwise(ends))
