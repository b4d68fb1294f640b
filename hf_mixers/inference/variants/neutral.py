"""Sites of a reference that stand for neutral ones: an equal number of every 5-mer, at random."""

import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...data.records import open_plain_or_gzip
from .reference import Reference

CONTEXT = 5
NUM_CONTEXTS = 4**CONTEXT
_CHUNK = 1 << 20
_OTHER = 4

_CODES = np.full(256, _OTHER, dtype=np.int16)
for _code, _letters in enumerate(("Aa", "Cc", "Gg", "TtUu")):
    _CODES[[ord(letter) for letter in _letters]] = _code

Regions = Mapping[str, Sequence[tuple[int, int]]]


class Sites(NamedTuple):
    """Contigs and places of sites, counted from 0, and how frequent every 5-mer is."""

    contigs: list[str]
    starts: np.ndarray
    contexts: np.ndarray
    frequencies: np.ndarray


def name_context(code: int) -> str:
    """The letters of a 5-mer.

    >>> name_context(0), name_context(27)
    ('AAAAA', 'AACGT')
    """
    return "".join("ACGT"[code >> 2 * place & 3] for place in reversed(range(CONTEXT)))


def draw_sites(
    reference: Reference,
    count: int,
    seed: int = 0,
    regions: Regions | None = None,
    excluded: Regions | None = None,
) -> Sites:
    """At most `count` sites of every 5-mer, all sites with the same probability.

    One pass over the reference, which keeps the sites with the smallest random numbers.

    Args:
        regions: Where sites may lie, by contig; anywhere by default.
        excluded: Where they may not lie.
    """
    names = list(reference.sizes)
    # contig, place, 5-mer and random number of the sites that are kept
    kept: list[np.ndarray] = [np.empty(0, dtype=np.int64) for _ in range(3)]
    keys = np.empty(0)
    highest = np.ones(NUM_CONTEXTS)
    frequencies = np.zeros(NUM_CONTEXTS, dtype=np.int64)
    for contig, name in enumerate(names):
        for number, (starts, contexts) in enumerate(
            _read_contexts(reference, name, regions, excluded)
        ):
            frequencies += np.bincount(contexts, minlength=NUM_CONTEXTS)
            drawn = np.random.default_rng((seed, contig, number)).random(len(starts))
            chosen = drawn < highest[contexts]
            fresh = (np.full(chosen.sum(), contig), starts[chosen], contexts[chosen])
            kept = [np.concatenate(pair) for pair in zip(kept, fresh, strict=True)]
            keys = np.concatenate([keys, drawn[chosen]])
            order = _keep_smallest(kept[2], keys, count)
            kept, keys = [column[order] for column in kept], keys[order]
            counts = np.bincount(kept[2], minlength=NUM_CONTEXTS)
            largest = np.zeros(NUM_CONTEXTS)
            np.maximum.at(largest, kept[2], keys)
            highest = np.where(counts < count, 1.0, largest)
    contigs, starts, contexts = kept
    order = np.lexsort((starts, contigs))
    return Sites([names[c] for c in contigs[order]], starts[order], contexts[order], frequencies)


def _keep_smallest(contexts: np.ndarray, keys: np.ndarray, count: int) -> np.ndarray:
    """Rows of the `count` smallest keys of every 5-mer."""
    order = np.lexsort((keys, contexts))
    firsts = np.searchsorted(contexts[order], np.arange(NUM_CONTEXTS))
    return order[np.arange(len(order)) - firsts[contexts[order]] < count]


def _read_contexts(
    reference: Reference, name: str, regions: Regions | None, excluded: Regions | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Places and 5-mers of a contig, a part at a time; those with other letters are left out."""
    half, size = CONTEXT // 2, reference.sizes[name]
    for begin in range(half, size - half, _CHUNK):
        length = min(_CHUNK, size - half - begin)
        text = reference.read(name, begin - half, length + 2 * half)
        # letters beyond ASCII are no bases, and "?" is none
        codes = _CODES[np.frombuffer(text.encode("ascii", "replace"), np.uint8)]
        contexts, is_known = np.zeros(length, dtype=np.int64), np.ones(length, dtype=bool)
        for place in range(CONTEXT):
            column = codes[place : place + length]
            contexts = contexts * 4 + column
            is_known &= column != _OTHER
        if regions is not None:
            is_known &= _cover(regions.get(name, ()), begin, length)
        if excluded is not None:
            is_known &= ~_cover(excluded.get(name, ()), begin, length)
        rows = is_known.nonzero()[0]
        yield rows + begin, contexts[rows]


def _cover(intervals: Sequence[tuple[int, int]], begin: int, length: int) -> np.ndarray:
    """Which of the places from `begin` on lie in one of the sorted intervals."""
    covered = np.zeros(length, dtype=bool)
    last = bisect_left(intervals, (begin + length, 0))
    for start, end in intervals[:last]:
        if end > begin:
            covered[max(0, start - begin) : end - begin] = True
    return covered


def read_regions(path: str | os.PathLike, reference: Reference) -> Regions:
    """Intervals of a BED file by contig of the reference, joined where they overlap."""
    found: dict[str, list[tuple[int, int]]] = {}
    with open_plain_or_gzip(os.fspath(path)) as lines:
        for number, line in enumerate(lines, 1):
            fields = line.decode("latin-1").split()
            if not fields or fields[0].startswith(("#", "track", "browser")):
                continue
            if len(fields) < 3 or not (fields[1].isdigit() and fields[2].isdigit()):
                raise ValueError(f"{path}, line {number} is not a contig, a start and an end.")
            name = reference.find(fields[0])
            if name is None:
                raise ValueError(f"{path}, line {number}: the reference has no {fields[0]!r}.")
            found.setdefault(name, []).append((int(fields[1]), int(fields[2])))
    if not found:
        raise ValueError(f"{path} holds no regions.")
    return {name: _join(sorted(intervals)) for name, intervals in found.items()}


def _join(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in intervals:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
