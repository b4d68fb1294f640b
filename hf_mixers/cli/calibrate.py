"""`hf-mixers calibrate`"""

from pathlib import Path
from typing import Annotated

import typer

from . import inference_options as common


def command(
    model: common.Model,
    reference: Annotated[str, typer.Argument(help="FASTA file of the genome.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A .json file to write.")],
    window: Annotated[int, typer.Option(help="Bases of a window, as for the variants.")] = 512,
    sites: Annotated[int, typer.Option(help="Most sites of a 5-mer.")] = 100,
    regions: Annotated[Path | None, typer.Option(help="BED file of neutral regions.")] = None,
    exclude: Annotated[Path | None, typer.Option(help="BED file of what to leave out.")] = None,
    seed: Annotated[int, typer.Option(help="Which sites are drawn.")] = 0,
    token_budget: common.Budget = 65536,
    device: common.Device = None,
    dtype: common.Dtype = None,
    compile: common.Compile = False,
    overwrite: common.Overwrite = False,
) -> None:
    """Find what ratios neutral changes of a genome have, for score-variants --calibration."""
    from ..inference.calibrate import calibrate

    if output.suffix != ".json":
        raise ValueError(f"{output} must end in .json.")
    if output.exists() and not overwrite:
        raise ValueError(f"{output} is there already: --overwrite writes it again.")
    table = calibrate(
        model,
        reference,
        window=window,
        sites=sites,
        regions=regions,
        exclude=exclude,
        seed=seed,
        token_budget=token_budget,
        device=device,
        dtype=dtype,
        compile=compile,
    )
    table.save(output)
    typer.echo(f"{len(table.means):,} means of {table.settings['drawn']:,} sites are in {output}")
