"""The reference of variants: a FASTA file or sequences by name, and windows cut from it."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from transformers.utils import logging

from ...data.genomes import open_fasta
from ...models.dna import NUCLEOTIDES

logger = logging.get_logger(__name__)

_LETTERS = frozenset(NUCLEOTIDES)


class Allele(NamedTuple):
    """A change of bases at a place, counted from 0, without the letters that both alleles share."""

    start: int
    ref: str
    alt: str

    @property
    def kind(self) -> str:
        """`snv`, `mnv`, `insertion`, `deletion` or `indel` (bases replaced by more or fewer).

        >>> Allele(3, "", "AC").kind, Allele(3, "AC", "T").kind
        ('insertion', 'indel')
        """
        if len(self.ref) == len(self.alt):
            return "snv" if len(self.ref) == 1 else "mnv"
        if not self.ref:
            return "insertion"
        return "indel" if self.alt else "deletion"


def trim(start: int, ref: str, alt: str) -> Allele:
    """The allele without shared letters at its end, then without those at its start.

    >>> trim(10, "ACG", "ATG")
    Allele(start=11, ref='C', alt='T')
    >>> trim(10, "CAA", "CA")
    Allele(start=11, ref='A', alt='')
    """
    end = 0
    while end < min(len(ref), len(alt)) and ref[-1 - end] == alt[-1 - end]:
        end += 1
    ref, alt = ref[: len(ref) - end], alt[: len(alt) - end]
    begin = 0
    while begin < min(len(ref), len(alt)) and ref[begin] == alt[begin]:
        begin += 1
    return Allele(start + begin, ref[begin:], alt[begin:])


class Window(NamedTuple):
    """Bases around an allele, which both windows share, and the two alleles."""

    before: str
    ref: str
    alt: str
    after: str

    @property
    def reference(self) -> str:
        return self.before + self.ref + self.after

    @property
    def alternate(self) -> str:
        return self.before + self.alt + self.after


class Reference:
    """Sequences by name, of which any part can be read.

    Args:
        source: A FASTA file, plain or packed, or sequences by name.

    >>> reference = Reference({"chr1": "acgtACGT"})
    >>> reference.find("1"), reference.read("chr1", 2, 3)
    ('chr1', 'GTA')
    """

    def __init__(self, source: str | os.PathLike | Mapping[str, str]):
        self._texts: Mapping[str, str] | None = None
        if isinstance(source, Mapping):
            self._texts = source
            self.sizes = {name: len(text) for name, text in source.items()}
        else:
            if not os.path.isfile(source):
                raise ValueError(f"The reference {os.fspath(source)} is not a file.")
            self._reader = open_fasta(os.fspath(source))
            self.sizes = dict(self._reader.sizes)
        self._is_announced = False

    def find(self, chrom: str) -> str | None:
        """The record of a contig, which some files call chr1 and others 1; None if none is."""
        if chrom in self.sizes:
            return chrom
        other = chrom.removeprefix("chr") if chrom.startswith("chr") else f"chr{chrom}"
        if other not in self.sizes:
            return None
        if not self._is_announced:
            self._is_announced = True
            logger.info(f"Contig {chrom} of the variants is {other} in the reference, and so on.")
        return other

    def read(self, name: str, start: int, length: int) -> str:
        """Bases in upper case, with T for U; what is beyond ASCII comes as it is."""
        if length <= 0:
            return ""
        if self._texts is not None:
            text = self._texts[name][start : start + length]
        else:
            text = self._reader.read(name, start, length).tobytes().decode("latin-1")
        return text.upper().replace("U", "T")

    def cut(self, name: str, allele: Allele, size: int) -> Window | None:
        """The window of an allele: the longer of its two sequences has `size` bases.

        The allele is in the middle; near the end of a contig the window is shifted, and a contig
        that is shorter than the window is taken whole. None if a letter is not one of DNA.
        """
        flank = size - max(len(allele.ref), len(allele.alt))
        begin = allele.start - (flank - flank // 2)
        stop = begin + flank + len(allele.ref)
        if begin < 0:
            begin, stop = 0, stop - begin
        if stop > self.sizes[name]:
            begin, stop = max(0, begin - (stop - self.sizes[name])), self.sizes[name]
        text = self.read(name, begin, stop - begin)
        if not _LETTERS.issuperset(text):
            return None
        first = allele.start - begin
        return Window(text[:first], allele.ref, allele.alt, text[first + len(allele.ref) :])
