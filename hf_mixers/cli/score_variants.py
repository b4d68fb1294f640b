"""`hf-mixers score-variants`"""

from pathlib import Path
from typing import Annotated

import typer

from . import inference_options as common


def command(
    model: common.Model,
    variants: Annotated[str, typer.Argument(help="VCF (plain, gzip, bgzip), table, or -.")],
    reference: Annotated[str, typer.Option("--reference", "-r", help="FASTA of the genome.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .vcf, .vcf.gz, .tsv, .parquet file, or -.")
    ] = Path("-"),
    window: Annotated[int, typer.Option(help="Bases of a window.")] = 512,
    scores: Annotated[str, typer.Option(help="Which, by comma.")] = "llr,pllr,distance",
    passes: Annotated[int, typer.Option(help="Of a pseudo-likelihood; 0: one per base.")] = 8,
    calibration: Annotated[Path | None, typer.Option(help="Table of hf-mixers calibrate.")] = None,
    prefix: Annotated[str, typer.Option(help="Start of the keys in INFO.")] = "HFM",
    shard: common.Shard = "0/1",
    token_budget: common.Budget = 65536,
    device: common.Device = None,
    dtype: common.Dtype = None,
    compile: common.Compile = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at an allele that cannot be scored.")
    ] = False,
    overwrite: common.Overwrite = False,
) -> None:
    """Score the alternate alleles of a VCF or table (chrom, pos, ref, alt)."""
    from ..inference.loading import count_processes
    from ..inference.variants.run import open_source, score_to_file
    from ..inference.variants.score import make_scorer

    place = common.parse_shard(shard)
    if str(output) == "-" and count_processes() > 1:
        raise ValueError("Several processes write to a file: --output FILE.")
    settings = {
        "model": Path(model).name,
        "window": window,
        "scores": scores,
        "passes": passes,
        "calibration": None if calibration is None else calibration.name,
        "dtype": dtype,
    }
    with common.keep_output(output) as out:
        scorer = make_scorer(
            model,
            None,
            {"device": device, "dtype": dtype, "compile": compile},
            token_budget=token_budget,
            window=window,
            calibration=calibration,
            scores=[name.strip() for name in scores.split(",")],
            passes=passes,
        )
        if str(output) == "-":
            opened = open_source(scorer, variants, output, settings, prefix)
            summary = _write(out, scorer, opened, reference, place, strict)
        else:
            summary = score_to_file(
                scorer,
                variants,
                reference,
                output,
                settings=settings,
                shard=place,
                strict=strict,
                overwrite=overwrite,
                prefix=prefix,
            )
        _report(summary, output)


def _write(out, scorer, opened, reference, place, strict):
    """Write lines as they are made."""
    from ..inference.outputs import format_row
    from ..inference.variants.reference import Reference
    from ..inference.variants.run import VariantSummary
    from ..inference.variants.score import read_parts, score_part, take_shard

    writer, records = opened
    parts = read_parts(scorer, take_shard(records, place), Reference(reference), strict)
    is_vcf = hasattr(writer, "header")
    start = b"".join(writer.header) if is_vcf else format_row(writer.columns).encode()
    out.buffer.write(start)
    summary = VariantSummary()
    for part in parts:
        for record, alleles in zip(part.records, score_part(scorer, part, strict), strict=True):
            summary.add(alleles, scorer.calibration is not None)
            for row in writer.rows(record, alleles):
                out.buffer.write(row["line"] if is_vcf else format_row(row.values()).encode())
    out.buffer.flush()
    return summary


def _report(summary, output: Path) -> None:
    """Say what was scored, and what was not and why."""
    scored = ", ".join(f"{count:,} {kind}" for kind, count in summary.alleles.items())
    typer.echo(f"{summary.records:,} records are in {output}; scored: {scored or 'none'}")
    if summary.reasons:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in summary.reasons.items())
        typer.echo(f"not scored: {reasons}")
    if summary.without_calibration:
        typer.echo(f"{summary.without_calibration:,} alleles have a 5-mer without neutral sites")
