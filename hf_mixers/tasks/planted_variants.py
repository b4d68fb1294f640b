"""Variants with a known effect: motifs planted in real sequence, which variants disrupt or miss.

Every site has one motif per tissue and, more often than not, a partner motif far from the variant.
A variant has an effect in a tissue if it disrupts the motif of that tissue and the partner is
there, so what changes is not enough to tell: the context matters. A share of the labels is flipped,
so the best possible accuracy is known.
"""

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

MOTIFS = ("TGACTCAG", "CACGTGAC", "GGAAGTGC")
PARTNER = "ATTGGCTAAT"
COLUMNS = ("chr", "pos", "ref", "alt", "tissue", "label", "clean")
# bases of a site beyond its window, so that alleles with a base in front have whole windows
MARGIN = 8
_INDEL = 2
_ATTEMPTS = 50
_CLASSES = ("neutral", "effect")


class PlantedVariant(NamedTuple):
    """A site, a change in its middle and whether that has an effect; `start` counts from 0."""

    site: str
    start: int
    ref: str
    alt: str
    tissue: int
    clean: bool


def plant_variants(
    sequences: Iterable[str],
    folder: str | os.PathLike,
    *,
    count: int = 2000,
    window: int = 512,
    num_tissues: int = 2,
    noise: float = 0.05,
    seed: int = 0,
) -> tuple[Path, Path]:
    """Write `variants.csv` and `sites.fa`, which `load_arena_task("variants", ...)` reads.

    Sites are pieces of the sequences that do not overlap. The column `clean` has the labels without
    noise.

    Args:
        count: Variants, one per site.
        window: Bases around a variant.
        num_tissues: At most the number of `MOTIFS`.
        noise: Share of labels that are flipped.
    """
    if not 1 <= num_tissues <= len(MOTIFS):
        raise ValueError(f"num_tissues={num_tissues} was given: 1 to {len(MOTIFS)} are accepted.")
    smallest = 4 * (len(PARTNER) + sum(map(len, MOTIFS[:num_tissues])))
    if window < smallest:
        raise ValueError(f"window={window} was given: at least {smallest} bases are accepted.")
    if not 0 <= noise < 0.5:
        raise ValueError(f"noise={noise} was given: 0 to 0.5 is accepted.")
    chance = np.random.default_rng(seed)
    pieces = list(_cut_pieces(sequences, window + MARGIN))
    order = chance.permutation(len(pieces))
    made: list[PlantedVariant] = []
    for row in order:
        if len(made) == count:
            break
        planted = _plant(pieces[row], num_tissues, chance)
        if planted is not None:
            made.append(planted)
    if len(made) < count:
        raise ValueError(f"The sequences have {len(made)} sites of {window} bases, not {count}.")
    flips = chance.random(count) < noise
    folder = Path(folder)
    _write(folder, made, flips)
    return folder / "variants.csv", folder / "sites.fa"


def _cut_pieces(sequences: Iterable[str], size: int) -> Iterator[str]:
    """Pieces of known bases that hold no motif."""
    for text in sequences:
        text = text.upper()
        for start in range(0, len(text) - size + 1, size):
            piece = text[start : start + size]
            if set(piece) <= set("ACGT") and not any(m in piece for m in (*MOTIFS, PARTNER)):
                yield piece


def _plant(piece: str, num_tissues: int, chance: np.random.Generator) -> PlantedVariant | None:
    """A variant in a piece; None if the planted motifs do not come out as they should."""
    tissue = int(chance.integers(num_tissues))
    # what stands in the middle: the tissue's own motif, that of another tissue, or nothing
    middle = tissue if chance.random() < 0.7 else int(chance.integers(num_tissues + 1))
    has_partner = bool(chance.random() < 0.7)
    for _ in range(_ATTEMPTS):
        found = _try_to_plant(piece, num_tissues, tissue, middle, has_partner, chance)
        if found is not None:
            return found
    return None


def _try_to_plant(
    piece: str,
    num_tissues: int,
    tissue: int,
    middle: int,
    has_partner: bool,
    chance: np.random.Generator,
) -> PlantedVariant | None:
    center = len(piece) // 2
    motifs = MOTIFS[:num_tissues]
    # the change begins within the motif, and an insertion behind its first base
    offset = int(chance.integers(1, len(MOTIFS[0]) - _INDEL + 1))
    taken = [(center - offset, center - offset + len(MOTIFS[0]))]
    letters = list(piece)
    if middle < num_tissues:
        letters[taken[0][0] : taken[0][1]] = motifs[middle]
    others = [motif for number, motif in enumerate(motifs) if number != middle]
    for word in [*others, *([PARTNER] if has_partner else [])]:
        start = int(chance.integers(MARGIN, len(piece) - MARGIN - len(word)))
        if any(start < end + 2 and begin < start + len(word) + 2 for begin, end in taken):
            return None
        taken.append((start, start + len(word)))
        letters[start : start + len(word)] = word
    site = "".join(letters)
    start, ref, alt = _change(site, center, chance)
    changed = site[:start] + alt + site[start + len(ref) :]
    before = [site.count(word) for word in (*motifs, PARTNER)]
    after = [changed.count(word) for word in (*motifs, PARTNER)]
    lost = [int(number == middle) for number in range(num_tissues)]
    expected = [*(1 - one for one in lost), int(has_partner)]
    if before != [1] * num_tissues + [int(has_partner)] or after != expected:
        return None
    return PlantedVariant(site, start, ref, alt, tissue, bool(lost[tissue] and has_partner))


def _change(site: str, center: int, chance: np.random.Generator) -> tuple[int, str, str]:
    """A change at a place: another base, or bases more or fewer, which have a base in front."""
    kind = chance.random()
    if kind < 0.6:
        ref = site[center]
        return center, ref, str(chance.choice([base for base in "ACGT" if base != ref]))
    front = site[center - 1]
    if kind < 0.8:
        return center - 1, site[center - 1 : center + _INDEL], front
    return center - 1, front, front + "".join(chance.choice(list("ACGT"), _INDEL))


def _write(folder: Path, made: Sequence[PlantedVariant], flips: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "sites.fa", "w", encoding="ascii") as file:
        file.writelines(f">site{number}\n{one.site}\n" for number, one in enumerate(made))
    with open(folder / "variants.csv", "w", newline="", encoding="ascii") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for number, (one, is_flipped) in enumerate(zip(made, flips, strict=True)):
            label = _CLASSES[int(one.clean != is_flipped)]
            place = (f"site{number}", one.start + 1, one.ref, one.alt)
            writer.writerow([*place, f"tissue{one.tissue}", label, _CLASSES[one.clean]])
