"""A whole run over variants: resumable, in one process or several, with counts at the end."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from ...reporting.environment import run_environment
from ...reporting.files import write_json
from ..engine import prefetch
from ..loading import join_processes
from ..memory import HeapTrimmer
from ..outputs import PartedOutput
from ..records import STDIN
from ..run import stamp_source
from .outputs import PREFIX, TableWriter, VcfFormat, VcfWriter, check_target, is_vcf
from .records import VariantRecord, find_kind, read_names, read_table, read_vcf
from .reference import Reference
from .score import AlleleScore, VariantPart, read_parts, score_part, take_shard
from .scoring import Scorer


@dataclass
class VariantSummary:
    """What a run did.

    Args:
        records: Lines or rows.
        alleles: Alternate alleles that have scores, by kind.
        reasons: Alleles, or records without any, that have none, by reason.
        without_calibration: Alleles with a ratio whose 5-mer the calibration does not have.
    """

    records: int = 0
    alleles: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    without_calibration: int = 0
    tokens: int = 0
    seconds: float = 0.0
    processes: int = 1

    def add(self, alleles: list[AlleleScore], is_calibrated: bool) -> None:
        """Count the alleles of a record."""
        self.records += 1
        for one in alleles:
            counts = self.reasons if one.reason else self.alleles
            key = one.reason or one.kind
            counts[key] = counts.get(key, 0) + 1
            scores = one.scores or {}
            self.without_calibration += (
                is_calibrated and "llr" in scores and "calibrated" not in scores
            )

    def merge(self, other: Mapping[str, Any]) -> None:
        """Add the counts of another part."""
        self.records += other["records"]
        self.tokens += other["tokens"]
        self.without_calibration += other["without_calibration"]
        for name in ("alleles", "reasons"):
            counts = Counter(getattr(self, name)) + Counter(other[name])
            setattr(self, name, dict(sorted(counts.items())))


def open_source(
    scorer: Scorer, source: str, target: Path, settings: Mapping[str, Any], prefix: str = PREFIX
) -> tuple[VcfWriter | TableWriter, Iterator[VariantRecord]]:
    """What writes the results of a source, and its records."""
    from ... import __version__

    if find_kind(source) == "table":
        records = read_table(source)
        return TableWriter(scorer.fields, read_names(source)), records
    vcf = read_vcf(source)
    if str(target) == STDIN or is_vcf(target):
        return VcfWriter(vcf.header, scorer.fields, __version__, settings, prefix), vcf.records
    return TableWriter(scorer.fields), vcf.records


def score_to_file(
    scorer: Scorer,
    source: str,
    reference: str,
    target: str | Path,
    *,
    settings: Mapping[str, Any],
    shard: tuple[int, int] = (0, 1),
    strict: bool = False,
    overwrite: bool = False,
    prefix: str = PREFIX,
) -> VariantSummary:
    """Write a VCF or a table with scores; a run that was stopped goes on where it was.

    Started by `accelerate launch` or `torchrun`, the processes share the parts.

    Args:
        source: A VCF or a table, see `score_variants`.
        settings: What the scores depend on, for the header and the summary.
        strict: An allele that cannot be scored is an error instead of a reason.
        prefix: What the keys in INFO start with.
    """
    target, state = Path(target), join_processes(scorer.engine.device)
    check_target(source, target)
    places = Reference(reference)
    writer, records = open_source(scorer, source, target, settings, prefix)
    run = {
        **settings,
        **scorer.describe(),
        "prefix": prefix,
        "strict": strict,
        "shard": list(shard),
        "sources": [stamp_source(one) for one in (source, reference)],
    }
    form = VcfFormat(writer.header) if isinstance(writer, VcfWriter) else None
    output = PartedOutput(target, run, writer.columns, form)
    done = output.share(state, overwrite=overwrite, resume=source != STDIN)

    def is_mine(number: int) -> bool:
        return number not in done and number % state.num_processes == state.process_index

    begin = time.perf_counter()
    parts = read_parts(scorer, take_shard(records, shard), places, strict, is_mine)
    is_hidden = None if state.is_main_process else True
    with output.keep_parts(), tqdm(unit=" variants", disable=is_hidden) as bar:
        found: Any = prefetch(parts)  # type: ignore[arg-type]
        trim = HeapTrimmer()
        for part in found:
            _write_part(scorer, part, writer, output, strict)
            bar.update(len(part.records))
            trim()
    state.wait_for_everyone()
    seconds = round(time.perf_counter() - begin, 3)
    summary = VariantSummary(seconds=seconds, processes=state.num_processes)
    if state.is_main_process:
        if not output.done():
            # a VCF, or a shard, may have no records
            output.write(0, [])
        for path in sorted(output.folder.glob("counts-*.json")):
            summary.merge(json.loads(path.read_text(encoding="utf-8")))
        with output.keep_parts():
            output.join()
        said = {**settings, "strict": strict, "shard": "/".join(map(str, shard))}
        output.end(_tell(summary, scorer, source, reference, said))
    state.wait_for_everyone()
    return summary


def _write_part(
    scorer: Scorer,
    part: VariantPart,
    writer: VcfWriter | TableWriter,
    output: PartedOutput,
    strict: bool,
) -> None:
    """Write the rows of a part behind its counts, so that no part is without them."""
    counts, rows, tokens = VariantSummary(), list[dict[str, Any]](), scorer.tokens
    scored = score_part(scorer, part, strict)
    for record, alleles in zip(part.records, scored, strict=True):
        counts.add(alleles, scorer.calibration is not None)
        rows += writer.rows(record, alleles)
    counts.tokens = scorer.tokens - tokens
    write_json(output.folder / f"counts-{part.number:06d}.json", asdict(counts))
    output.write(part.number, rows)


def _tell(
    summary: VariantSummary,
    scorer: Scorer,
    source: str,
    reference: str,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """What the summary of a run says."""
    return {
        **asdict(summary),
        "input": os.path.basename(source),
        "reference": os.path.basename(reference),
        "settings": {**settings, "token_budget": scorer.engine.token_budget},
        "model": type(scorer.engine.model).__name__,
        "environment": run_environment(),
    }
