"""Windows of genomes for pre-training, drawn at random from FASTA files."""

import math
import os
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

from ..models.dna import NUCLEOTIDES, reverse_complement
from .genomes import find_fasta, open_fasta

logger = logging.get_logger(__name__)

_TRIES = 50
# what a byte of a genome is: a base, an unknown base, or no base at all
_KNOWN, _UNKNOWN, _WRONG = range(3)
_KINDS = np.full(256, _WRONG, dtype=np.uint8)
_KINDS[np.frombuffer((NUCLEOTIDES + NUCLEOTIDES.lower()).encode(), np.uint8)] = _UNKNOWN
_KINDS[np.frombuffer(b"ACGTUacgtu", np.uint8)] = _KNOWN


class Region(NamedTuple):
    """Bases `start` to `end` of a record, counted from 0 and without the last."""

    file: int
    name: str
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def without(self, holes: "Sequence[Region] | None") -> list["Region"]:
        """What is left of it outside of other regions of the same record."""
        rests = [self]
        for hole in holes or ():
            rests = [
                rest
                for one in rests
                for rest in dict.fromkeys(
                    (
                        one._replace(end=min(one.end, hole.start)),
                        one._replace(start=max(one.start, hole.end)),
                    )
                )
                if rest.size > 0
            ]
        return rests


class GenomeWindows(Dataset):
    """Random windows of genomes, from new places in every epoch, with lengths known in advance.

    A window is decided by seed, epoch and index alone, so workers and restarts agree. Plain FASTA
    is read by random access with a small index that pyfaidx writes next to the file, or into the
    cache of Hugging Face where the folder is read-only; gzip is unpacked once into the cache of
    `datasets`, one byte per base.

    Args:
        files: FASTA files, folders or glob patterns.
        tokenizer: Tokenizer with one token per base.
        length: Bases of a window, or the bounds between which lengths are drawn log-uniformly.
        num_windows: Windows of an epoch.
        seed: Seed of all draws.
        max_unknown: Largest share of letters other than A, C, G, T; other windows are drawn again.
        reverse_complement: Reverse-complement each window with probability 0.5.
        records: Names of the records to use, or of parts `name:first-last`, the first base being
            1; all if None.
        exclude: The same to leave out, such as a chromosome held out for evaluation.
        sample_by: `bases` draws every start with the same probability, which suits genomes;
            `records` draws every record that is long enough with the same probability, which suits
            collections of genes, contigs or transcripts.

    Items have `input_ids` (the smallest unsigned integers that hold the vocabulary) and `length`
    (in tokens); `lengths` has those of all windows.

    >>> from hf_mixers import DnaTokenizer
    >>> path = getfixture("tmp_path") / "genome.fa"
    >>> _ = path.write_text(">one\\n" + "ACGT" * 50 + "\\n")
    >>> windows = GenomeWindows(path, DnaTokenizer(), length=(8, 32), num_windows=4)
    >>> windows[0]["length"] == len(windows[0]["input_ids"]) == int(windows.lengths[0])
    True
    """

    def __init__(
        self,
        files: str | os.PathLike | Sequence[str | os.PathLike],
        tokenizer: PreTrainedTokenizerBase,
        length: int | tuple[int, int],
        num_windows: int,
        *,
        seed: int = 0,
        max_unknown: float = 0.1,
        reverse_complement: bool = False,
        records: Collection[str] | None = None,
        exclude: Collection[str] | None = None,
        sample_by: Literal["bases", "records"] = "bases",
    ):
        if sample_by not in ("bases", "records"):
            raise ValueError(f"sample_by={sample_by!r} was given: bases and records are accepted.")
        bounds = (length, length) if isinstance(length, int) else tuple(length)
        if len(bounds) != 2 or not 1 <= bounds[0] <= bounds[1]:
            raise ValueError(f"length={length} was given: 1 <= low <= high is accepted.")
        low, high = bounds
        if num_windows < 1:
            raise ValueError(f"num_windows={num_windows} was given: at least 1 is accepted.")
        if not 0 <= max_unknown <= 1:
            raise ValueError(f"max_unknown={max_unknown} was given: 0 to 1 is accepted.")
        self._extra = _check_tokenizer(tokenizer)
        self._tokenizer = tokenizer
        self._dtype = np.min_scalar_type(len(tokenizer) - 1)
        self._files = find_fasta(files)
        self._readers: list[Any] = [None] * len(self._files)
        self._regions = _choose_regions(self._list_records(), records, exclude)
        self._sizes = np.array([region.size for region in self._regions])
        # longest first, so that those with room for a window are the first ones
        self._by_size = np.argsort(-self._sizes, kind="stable")
        self._sample_by = sample_by
        longest = int(self._sizes.max())
        if low > longest:
            raise ValueError(
                f"Windows of {low} bases were asked for, but the longest record has {longest}."
            )
        if high > longest:
            logger.warning(f"Windows have at most {longest} bases, as the longest record has.")
        short = self._sizes[self._sizes < low]
        if len(short):
            logger.warning(
                f"{len(short)} of {len(self._sizes)} records, {short.sum()} of"
                f" {self._sizes.sum()} bases, are left out: shorter than {low} bases."
            )
        self._bounds = low, min(high, longest)
        self._num_windows, self._seed, self._max_unknown = num_windows, seed, max_unknown
        self._turns = reverse_complement
        self.epoch = 0
        self._bases = self._draw_lengths()
        # if the longest window has a place, so have shorter ones
        self._draw_text(self._bounds[1], np.random.default_rng(seed))

    def set_epoch(self, epoch: int) -> None:
        """Draw windows from other places; their lengths stay, as batches count on them."""
        self.epoch = epoch

    def _draw_lengths(self) -> np.ndarray:
        low, high = self._bounds
        uniform = np.random.default_rng(self._seed).random(self._num_windows)
        # the upper end is one above, so that rounding down reaches the last length as well
        drawn = np.exp(math.log(low) + uniform * (math.log(high + 1) - math.log(low)))
        return np.clip(drawn.astype(np.int64), low, high)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of every window, without reading any."""
        return self._bases + self._extra

    def __len__(self) -> int:
        return self._num_windows

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"Window {index} was asked for, of {len(self)}.")
        index = int(index) % len(self)
        generator = np.random.default_rng([self._seed, self.epoch, index])
        text = self._draw_text(int(self._bases[index]), generator).tobytes().decode()
        if self._turns and generator.random() < 0.5:
            text = reverse_complement(text)
        ids = self._tokenizer([text], return_tensors="np", return_attention_mask=False)["input_ids"]
        ids = np.asarray(ids[0], dtype=self._dtype)
        return {"input_ids": ids, "length": len(ids)}

    def __getstate__(self) -> dict[str, Any]:
        # open files stay here; a worker opens its own
        return self.__dict__ | {"_readers": [None] * len(self._files)}

    def _list_records(self) -> list[Region]:
        return [
            Region(number, name, 0, size)
            for number in range(len(self._files))
            for name, size in self._open(number).sizes.items()
        ]

    def _open(self, number: int):
        if self._readers[number] is None:
            self._readers[number] = open_fasta(self._files[number])
        return self._readers[number]

    def _read(self, region: int, start: int, length: int) -> np.ndarray:
        """Bytes of a window; a letter that is no base is an error."""
        number, name, offset, _ = self._regions[region]
        start += offset
        text = self._open(number).read(name, start, length)
        wrong = np.flatnonzero(_KINDS[text] == _WRONG)
        if len(wrong):
            raise ValueError(
                f"{self._files[number]}: record {name!r} has {chr(text[wrong[0]])!r} at position"
                f" {start + wrong[0]}: {NUCLEOTIDES} and U are accepted."
            )
        return text

    def _draw_text(self, length: int, generator: np.random.Generator) -> np.ndarray:
        """Bytes of a random window with few enough unknown bases."""
        starts = np.maximum(self._sizes - length + 1, 0)
        ends = np.cumsum(starts)
        for _ in range(_TRIES):
            if self._sample_by == "records":
                region = int(self._by_size[generator.integers(np.count_nonzero(starts))])
                place = int(generator.integers(starts[region]))
            else:
                place = int(generator.integers(ends[-1]))
                region = int(np.searchsorted(ends, place, side="right"))
                place -= int(ends[region] - starts[region])
            text = self._read(region, place, length)
            if (_KINDS[text] == _UNKNOWN).sum() <= self._max_unknown * length:
                return text
        # chance found none, so all places are looked at
        for region in generator.permutation(np.flatnonzero(starts)):
            size = int(self._sizes[region])
            unknown = _KINDS[self._read(int(region), 0, size)] == _UNKNOWN
            sums = np.concatenate([[0], np.cumsum(unknown)])
            fitting = np.flatnonzero(sums[length:] - sums[:-length] <= self._max_unknown * length)
            if len(fitting):
                return self._read(int(region), int(generator.choice(fitting)), length)
        raise ValueError(
            f"{', '.join(self._files[:3])}: no window of {length} bases has at most"
            f" {self._max_unknown:.0%} unknown bases."
        )


def _choose_regions(
    known: list[Region],
    records: Collection[str] | None,
    exclude: Collection[str] | None,
) -> list[Region]:
    for argument, given in (("records", records), ("exclude", exclude)):
        if isinstance(given, str):
            raise ValueError(f"{argument}={given!r} was given: a list of names is accepted.")
    by_name: dict[str, list[Region]] = defaultdict(list)
    for region in known:
        by_name[region.name].append(region)
    chosen = known
    if records is not None:
        found = (_find_regions(by_name, text, "records") for text in records)
        chosen = list(dict.fromkeys(region for regions in found for region in regions))
    holes: dict[tuple[int, str], list[Region]] = defaultdict(list)
    for text in exclude or ():
        for hole in _find_regions(by_name, text, "exclude"):
            holes[hole.file, hole.name].append(hole)
    chosen = [
        rest for region in chosen for rest in region.without(holes.get((region.file, region.name)))
    ]
    if not chosen:
        raise ValueError("No record is left after records and exclude.")
    return chosen


def _find_regions(by_name: Mapping[str, list[Region]], text: str, argument: str) -> list[Region]:
    """The records with a name, or their part if it is written `name:first-last`."""
    if text in by_name:
        return by_name[text]
    name, _, place = text.rpartition(":")
    bounds = re.fullmatch(r"([\d,]+)-([\d,]+)", place)
    if name not in by_name or bounds is None:
        raise ValueError(f"{argument} names {text!r}, which is in none of the files.")
    first, last = (int(number.replace(",", "")) for number in bounds.groups())
    for region in by_name[name]:
        if not 1 <= first <= last <= region.end:
            raise ValueError(
                f"{argument} names {text!r}, but {name!r} has the bases 1 to {region.end}."
            )
    return [region._replace(start=first - 1, end=last) for region in by_name[name]]


def _check_tokenizer(tokenizer: PreTrainedTokenizerBase) -> int:
    """How many special tokens are added; an error if a base is not one token."""
    extra = tokenizer.num_special_tokens_to_add()
    count = len(tokenizer("ACGTACGT")["input_ids"])
    if count != 8 + extra:
        raise ValueError(
            f"The tokenizer makes {count - extra} tokens of 8 bases: one token per base is needed."
        )
    return extra
