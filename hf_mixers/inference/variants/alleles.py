"""What of a record can be scored: a window per alternate allele, or why there is none."""

from typing import NamedTuple

from ...models.dna import NUCLEOTIDES
from .records import VariantRecord
from .reference import Allele, Reference, Window, trim

_BASES = frozenset("ACGT")
_LETTERS = frozenset(NUCLEOTIDES)

# every reason that an output may name
REASONS = {
    "malformed_line": "not the eight columns of a VCF, or a position that is not a number",
    "no_alternate": "the allele is '.'",
    "spanning_deletion": "ALT is '*'",
    "symbolic_allele": "ALT is <...> or a breakend",
    "malformed_allele": "an allele has letters that are not of DNA",
    "ambiguous_allele": "an allele has letters for several bases, such as N",
    "same_allele": "REF and ALT are equal",
    "unknown_contig": "the reference does not have the contig, with or without chr",
    "outside_contig": "the position is before the start or behind the end of the contig",
    "reference_mismatch": "REF is not what the reference has there",
    "reference_letter": "the window has letters that are not of DNA",
    "allele_too_long": "an allele is longer than half the window",
    "score_not_chosen": "none of the chosen scores is for this kind of allele",
    "not_finite": "the model gave a value that is not a number",
}


class Target(NamedTuple):
    """An alternate allele as it was written, and its window or the reason why there is none."""

    alt: str
    allele: Allele | None
    window: Window | None
    context: str
    reason: str


def find_targets(record: VariantRecord, reference: Reference, size: int) -> list[Target]:
    """One target per alternate allele; one with an empty allele for a record without any."""
    problem, name = record.problem, None
    if not problem:
        problem, name = _check_site(record, reference)
    if problem or name is None:
        return [Target(alt, None, None, "", problem) for alt in record.alts or ("",)]
    return [_find_target(record, alt, reference, name, size) for alt in record.alts]


def _check_site(record: VariantRecord, reference: Reference) -> tuple[str, str | None]:
    """Why the site of a record cannot be scored, and the name of its contig."""
    ref = record.ref.upper().replace("U", "T")
    if not _LETTERS.issuperset(ref) or not ref:
        return "malformed_allele", None
    name = reference.find(record.chrom)
    if name is None:
        return "unknown_contig", None
    if not 1 <= record.pos <= reference.sizes[name] - len(ref) + 1:
        return "outside_contig", None
    if reference.read(name, record.pos - 1, len(ref)) != ref:
        return "reference_mismatch", None
    return "", name


def _find_target(
    record: VariantRecord, alt: str, reference: Reference, name: str, size: int
) -> Target:
    reason = _check_alternate(alt)
    if reason:
        return Target(alt, None, None, "", reason)
    letters = [text.upper().replace("U", "T") for text in (record.ref, alt)]
    allele = trim(record.pos - 1, *letters)
    if not allele.ref and not allele.alt:
        reason = "same_allele"
    elif not _BASES.issuperset(allele.ref + allele.alt):
        reason = "ambiguous_allele"
    elif max(len(allele.ref), len(allele.alt)) > max(1, size // 2):
        reason = "allele_too_long"
    if reason:
        return Target(alt, None, None, "", reason)
    window = reference.cut(name, allele, size)
    if window is None:
        return Target(alt, None, None, "", "reference_letter")
    context = reference.read(name, allele.start - 2, 5) if allele.start >= 2 else ""
    return Target(alt, allele, window, context, "")


def _check_alternate(alt: str) -> str:
    """Why an alternate allele cannot be scored, whatever the reference is."""
    if alt in ("*", "."):
        return "spanning_deletion" if alt == "*" else "no_alternate"
    if any(mark in alt for mark in "<[]") or (len(alt) > 1 and "." in (alt[0], alt[-1])):
        return "symbolic_allele"
    if not alt or not _LETTERS.issuperset(alt.upper().replace("U", "T")):
        return "malformed_allele"
    return ""
