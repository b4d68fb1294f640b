"""Scores of variants from any source, one alternate allele at a time, in its order."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..engine import prefetch
from ..loading import load_masked_lm, make_engine
from .alleles import Target, find_targets
from .calibration import Calibration
from .records import VariantRecord, read_variants
from .reference import Reference
from .scoring import ScoreName, Scorer


class AlleleScore(NamedTuple):
    """What a model says of an alternate allele.

    Args:
        pos: Counted from 1, as in the source.
        kind: `snv`, `mnv`, `insertion`, `deletion` or `indel`; empty where there is no score.
        scores: Numbers by name, see `FIELDS`; None where there is no score.
        reason: Why there is no score, see `REASONS`; empty where there is one.
    """

    chrom: str
    pos: int
    ref: str
    alt: str
    kind: str
    scores: dict[str, float] | None
    reason: str


class VariantPart(NamedTuple):
    """Records that are scored together, and what of each can be scored."""

    number: int
    records: list[VariantRecord]
    targets: list[list[Target]]


def score_variants(
    model: str | PreTrainedModel,
    variants: str | os.PathLike | Iterable[Any],
    reference: str | os.PathLike | Mapping[str, str],
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    window: int = 512,
    scores: Sequence[ScoreName] = get_args(ScoreName),
    passes: int = 8,
    calibration: Calibration | str | os.PathLike | None = None,
    token_budget: int = 65536,
    shard: tuple[int, int] = (0, 1),
    strict: bool = False,
    **options: Any,
) -> Iterator[AlleleScore]:
    """Scores of every alternate allele of a source, in its order.

    Args:
        model: A masked language model with `DnaTokenizer`, or its folder or Hub name.
        variants: A VCF (plain, gzip or bgzip), a table with columns chrom, pos, ref and alt, or an
            iterable of such tuples or mappings. Positions count from 1.
        reference: A FASTA file, or sequences by name.
        tokenizer: That of a model which is given as such.
        window, scores, passes: See `Scorer`.
        calibration: A table of `calibrate`, or its file.
        token_budget: Most tokens in a batch.
        shard: `(i, n)` scores every n-th record, from the i-th on.
        strict: An allele that cannot be scored is an error instead of a reason.
        options: See `load_masked_lm` (`device`, `dtype`, `compile`).
    """
    scorer = make_scorer(
        model,
        tokenizer,
        options,
        window=window,
        scores=scores,
        passes=passes,
        calibration=calibration,
        token_budget=token_budget,
    )
    if options:
        raise ValueError(f"{sorted(options)[0]} is not an option of score_variants.")
    records = take_shard(read_variants(variants), shard)
    return _stream(scorer, read_parts(scorer, records, Reference(reference), strict), strict)


def _stream(scorer: Scorer, parts: Iterator[VariantPart], strict: bool) -> Iterator[AlleleScore]:
    """Scores one by one; the next part is read while one is computed."""
    found: Any = prefetch(parts)  # type: ignore[arg-type]
    for part in found:
        for alleles in score_part(scorer, part, strict):
            yield from alleles


def make_scorer(
    model: str | PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None,
    options: dict[str, Any],
    *,
    token_budget: int,
    window: int = 512,
    calibration: Calibration | str | os.PathLike | None = None,
    **settings: Any,
) -> Scorer:
    """A scorer for a model or a checkpoint; takes the options of the model out of `options`."""
    if isinstance(calibration, (str, os.PathLike)):
        calibration = Calibration.load(calibration)
    engine = make_engine(model, tokenizer, load_masked_lm, options, token_budget=token_budget)
    if engine.model.get_output_embeddings() is None:
        raise ValueError(f"{type(engine.model).__name__} does not predict masked bases.")
    return Scorer(engine, window, calibration=calibration, **settings)


def take_shard(records: Iterator[VariantRecord], shard: tuple[int, int]) -> Iterator[VariantRecord]:
    """Every n-th record, from the i-th on."""
    index, count = shard
    if not 0 <= index < count:
        raise ValueError(f"shard={index}/{count} was given: 0/n to n-1/n are accepted.")
    return (record for record in records if record.number % count == index)


def read_parts(
    scorer: Scorer,
    records: Iterable[VariantRecord],
    reference: Reference,
    strict: bool = False,
    wanted: Callable[[int], bool] = lambda number: True,
) -> Iterator[VariantPart]:
    """Parts of about `LOOK_AHEAD` batches, in the order of the records.

    What a part holds depends on the records and the settings alone, so a run that goes on finds
    the same parts.
    """
    for number, group in enumerate(_group(scorer, records)):
        if wanted(number):
            targets = [find_targets(record, reference, scorer.size) for record in group]
            part = VariantPart(number, group, targets)
            if strict:
                _refuse_reasons(part)
            yield part


def _group(scorer: Scorer, records: Iterable[VariantRecord]) -> Iterator[list[VariantRecord]]:
    group: list[VariantRecord] = []
    tokens = 0
    for record in records:
        group.append(record)
        tokens += 1 + sum(scorer.cost(len(record.ref), len(alt)) for alt in record.alts)
        if tokens >= scorer.engine.look_ahead * scorer.engine.token_budget:
            yield group
            group, tokens = [], 0
    if group:
        yield group


def _refuse_reasons(part: VariantPart) -> None:
    for record, targets in zip(part.records, part.targets, strict=True):
        for target in targets:
            if target.reason:
                _refuse(record, target.alt, target.reason)


def _refuse(record: VariantRecord, alt: str, reason: str) -> None:
    what = f" ({record.chrom}:{record.pos} {record.ref[:20]}>{alt[:20]})" if record.chrom else ""
    raise ValueError(f"{record.place}{what} cannot be scored: {reason}.")


def score_part(scorer: Scorer, part: VariantPart, strict: bool = False) -> list[list[AlleleScore]]:
    """Scores of the alleles of every record of a part."""
    flat = [target for targets in part.targets for target in targets]
    numbers = iter(scorer.score(flat))
    found = []
    for record, targets in zip(part.records, part.targets, strict=True):
        alleles = [_make_score(record, target, next(numbers)) for target in targets]
        for one in alleles if strict else ():
            if one.reason:
                _refuse(record, one.alt, one.reason)
        found.append(alleles)
    return found


def _make_score(
    record: VariantRecord, target: Target, scores: dict[str, float] | None
) -> AlleleScore:
    reason, kind = target.reason, ""
    if scores is not None and not scores:
        scores, reason = None, "score_not_chosen"
    elif scores is not None and not all(map(math.isfinite, scores.values())):
        scores, reason = None, "not_finite"
    if scores is not None and target.allele is not None:
        kind = target.allele.kind
    return AlleleScore(record.chrom, record.pos, record.ref, target.alt, kind, scores, reason)
