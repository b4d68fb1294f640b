"""A made reference and made variants of every kind, with a VCF of them that is hard to keep."""

from typing import NamedTuple

import numpy as np

# contigs of a few hundred bases and one that is shorter than a window
SIZES = {"chr1": 700, "chr2": 300, "short": 21}
WINDOW = 24


class Made(NamedTuple):
    chrom: str
    pos: int
    ref: str
    alt: str


def make_reference(seed: int = 0) -> dict[str, str]:
    chance = np.random.default_rng(seed)
    return {
        name: "".join(chance.choice(list("ACGTacgtN"), size, p=[0.2] * 4 + [0.045] * 4 + [0.02]))
        for name, size in SIZES.items()
    }


def write_reference(path, reference: dict[str, str]):
    lines = []
    for name, text in reference.items():
        rows = [text[start : start + 60] for start in range(0, len(text), 60)]
        lines += [f">{name} made", *rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def make_variants(reference: dict[str, str], count: int, seed: int = 1) -> list[Made]:
    """Changes of one base and of several, insertions, deletions and both; ends of contigs too."""
    chance = np.random.default_rng(seed)
    made: list[Made] = []
    kinds = ("snv", "mnv", "insertion", "deletion", "indel")
    while len(made) < count:
        chrom = str(chance.choice(list(SIZES), p=[0.6, 0.3, 0.1]))
        text = reference[chrom].upper()
        kind = kinds[len(made) % len(kinds)]
        width = {"snv": 1, "insertion": 1}.get(kind, int(chance.integers(2, 6)))
        # a tenth right at the ends
        start = int(chance.integers(0, len(text) - width + 1))
        if len(made) % 10 < 2:
            start = (0, len(text) - width)[len(made) % 2]
        ref = text[start : start + width]
        if "N" in ref:
            continue
        alt = _change(chance, kind, ref)
        if alt != ref and not (kind == "indel" and len(alt) == len(ref)):
            made.append(Made(chrom, start + 1, ref, alt))
    return made


def _change(chance: np.random.Generator, kind: str, ref: str) -> str:
    def draw(size: int) -> str:
        return "".join(chance.choice(list("ACGT"), size))

    if kind == "insertion":
        return ref + draw(int(chance.integers(1, 6)))
    if kind == "deletion":
        return ref[0]
    return draw(len(ref) if kind in ("snv", "mnv") else int(chance.integers(1, 7)))


HEADER = """##fileformat=VCFv4.2
##contig=<ID=chr1,length=700>
##contig=<ID=chr2>
##INFO=<ID=DP,Number=1,Type=Integer,Description="Depth; with, signs">
##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">
##ALT=<ID=DEL,Description="Deletion">
##FILTER=<ID=PASS,Description="All filters passed">
#CHROM	POS	ID	REF	ALT	QUAL	FILTER	INFO	FORMAT	S1
"""


def write_vcf(path, variants: list[Made], end: str = "\n"):
    """A VCF of variants with INFO of many forms."""
    infos = (".", "DP=3", "DP=3;FLAG", "UNDECLARED=a b;X=1,2", "DP=7;TEXT=ä")
    lines = HEADER.splitlines()
    for number, one in enumerate(variants):
        info = infos[number % len(infos)]
        lines.append(
            f"{one.chrom}\t{one.pos}\trs{number}\t{one.ref}\t{one.alt}\t.\tPASS\t{info}\tGT\t0/1"
        )
    path.write_bytes((end.join(lines) + end).encode())
    return path


# a line of every kind that has no scores, with the reason; places are of `make_reference`
def bad_lines(reference: dict[str, str]) -> list[tuple[str, str]]:
    base = reference["chr1"][9].upper()
    other = "A" if base != "A" else "C"
    end = len(reference["chr1"])
    made = [
        (f"chr1\t10\t.\t{base}\t*", "spanning_deletion"),
        (f"chr1\t10\t.\t{base}\t.", "no_alternate"),
        (f"chr1\t10\t.\t{base}\t<DEL>", "symbolic_allele"),
        (f"chr1\t10\t.\t{base}\t{base}[chr2:5[", "symbolic_allele"),
        (f"chr1\t10\t.\t{other}\t{base}", "reference_mismatch"),
        (f"chrX\t10\t.\t{base}\t{other}", "unknown_contig"),
        (f"chr1\t0\t.\tN\t{other}", "outside_contig"),
        (f"chr1\t{end + 1}\t.\t{base}\t{other}", "outside_contig"),
        (f"chr1\t10\t.\t{base}\tN", "ambiguous_allele"),
        (f"chr1\t10\t.\t{base}\tX", "malformed_allele"),
        (f"chr1\t10\t.\t{base}\t{base.lower()}", "same_allele"),
        (f"chr1\t10\t.\t{base}\t{base}{'ACGT' * WINDOW}", "allele_too_long"),
    ]
    return [(f"{line}\t.\t.\tDP=1", reason) for line, reason in made]
