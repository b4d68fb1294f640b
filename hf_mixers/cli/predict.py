"""`hf-mixers predict`"""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from . import inference_options as common


def command(
    model: common.Model,
    files: common.Files,
    output: common.Output = Path("-"),
    all_scores: Annotated[
        bool, typer.Option("--all-scores", help="A column with the probability of every class.")
    ] = False,
    top: Annotated[int, typer.Option(help="This many classes, most probable first.")] = 1,
    rc_average: common.Average = False,
    shard: common.Shard = "0/1",
    sequence_column: common.Column = "sequence",
    token_budget: common.Budget = 65536,
    device: common.Device = None,
    dtype: common.Dtype = None,
    compile: common.Compile = False,
    strict: common.Strict = False,
    overwrite: common.Overwrite = False,
    attribute: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD", help="gradient_x_input, integrated_gradients or mutagenesis."
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="Class of --attribute.")] = None,
) -> None:
    """Classify the sequences of files: id, length, label, probability, note.

    Models of tables, series or images read such files, prepared as in training.
    """
    from ..inference.loading import count_processes, load_classifier, make_engine
    from ..inference.outputs import choose_format
    from ..inference.predict import PredictionTable
    from ..inference.prepared import load_preparation, make_row_engine
    from ..inference.run import run_to_file
    from ..inference.tracks import LOOK_AHEAD, TrackFormat, add_attributions, name_tracks

    place = common.parse_shard(shard)
    if str(output) == "-":
        if count_processes() > 1:
            raise ValueError("Several processes write to a file: --output FILE.")
    else:
        choose_format(output, (".tsv", ".parquet"))
    placing = {"device": device, "dtype": dtype, "compile": compile}
    settings = {"token_budget": token_budget, "both_strands": rc_average, "strict": strict}
    engine: Any
    if (preparation := load_preparation(model)) is not None:
        engine = make_row_engine(model, preparation, placing, **settings)
    else:
        engine = make_engine(model, None, load_classifier, placing, **settings)
    if attribute is not None:
        _check_attribution(engine, attribute, target, output, compile)
        engine.look_ahead = LOOK_AHEAD[attribute]
    elif target is not None:
        raise ValueError("--target requires --attribute.")
    table = PredictionTable(engine.model.config, top=top, all_scores=all_scores)
    if str(output) == "-":
        with common.keep_output(output) as out:
            records = engine.read(files, shard=place, sequence_column=sequence_column)
            _write(out, engine, records, table)
        return
    said = {"model": model, "dtype": dtype, "top": top, "all_scores": all_scores}
    compute, form = table.rows, None
    if attribute is not None:
        said |= {"attribute": attribute, "target": target}
        compute = add_attributions(table.rows, attribute, target)
        form = TrackFormat(choose_format(output), attribute)
    summary = run_to_file(
        engine,
        files,
        output,
        compute,
        table.columns,
        settings=said,
        format=form,
        shard=place,
        overwrite=overwrite,
        sequence_column=sequence_column,
    )
    common.report(summary, output)
    if attribute is not None:
        track, picture = name_tracks(output, attribute)
        typer.echo(f"Attributions are in {track} and, of the first records, in {picture}")


def _write(out: TextIO, engine: Any, records: Any, table: Any) -> None:
    """Write lines as they are made; the header with the first of them, or where there are none."""
    from ..inference.engine import prefetch
    from ..inference.outputs import format_row
    from ..inference.run import count_items

    header = format_row(table.columns)
    counts: Counter[str] = Counter()
    for part in prefetch(engine.read_parts(records)):
        rows = [format_row(row.values()) for row in table.rows(engine, part)]
        out.writelines([header, *rows])
        header = ""
        counts += count_items(part)
    out.write(header)
    out.flush()
    typer.echo(json.dumps(counts), err=True)


def _check_attribution(
    engine: Any, method: str, target: str | None, output: Path, is_compiled: bool
) -> None:
    from ..inference.attribution import check_method
    from ..inference.engine import Engine

    if str(output) == "-":
        raise ValueError("--attribute writes files next to that of --output FILE.")
    if not isinstance(engine, Engine):
        raise ValueError("--attribute is for models that read DNA.")
    if is_compiled:
        raise ValueError("--attribute and --compile exclude each other.")
    check_method(engine, method, target, 1)
