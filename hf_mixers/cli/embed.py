"""`hf-mixers embed`"""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from . import inference_options as common


def command(
    model: common.Model,
    files: common.Files,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A .parquet or .npy file to write.")
    ],
    layer: Annotated[int, typer.Option(help="0 is the embedding, -1 the output.")] = -1,
    pooling: Annotated[str, typer.Option(help="mean, max, first, cls, or none.")] = "mean",
    rc_average: common.Average = False,
    shard: common.Shard = "0/1",
    sequence_column: common.Column = "sequence",
    token_budget: common.Budget = 65536,
    device: common.Device = None,
    dtype: common.Dtype = None,
    compile: common.Compile = False,
    strict: common.Strict = False,
    overwrite: common.Overwrite = False,
) -> None:
    """Write one vector per sequence, or per token with --pooling none (parquet only)."""
    from ..inference.embed import (
        EMBEDDING_COLUMNS,
        TOKEN_LOOK_AHEAD,
        check_pooling,
        embedding_rows,
        vector_size,
    )
    from ..inference.loading import load_encoder, make_engine
    from ..inference.outputs import ArrayFormat, choose_format
    from ..inference.run import run_to_file

    check_pooling(pooling, layer, rc_average)
    choose_format(output, (".parquet",) if pooling == "none" else (".parquet", ".npy"))
    place = common.parse_shard(shard)
    engine = make_engine(
        model,
        None,
        load_encoder,
        {"device": device, "dtype": dtype, "compile": compile},
        token_budget=token_budget,
        both_strands=rc_average,
        strict=strict,
        **({"look_ahead": TOKEN_LOOK_AHEAD} if pooling == "none" else {}),
    )
    summary = run_to_file(
        engine,
        files,
        output,
        # the function checks the pooling
        partial(embedding_rows, layer=layer, pooling=pooling),  # type: ignore[arg-type]
        EMBEDDING_COLUMNS,
        settings={"model": model, "dtype": dtype, "layer": layer, "pooling": pooling},
        shard=place,
        overwrite=overwrite,
        format=ArrayFormat(vector_size(engine, pooling)) if output.suffix == ".npy" else None,
        sequence_column=sequence_column,
    )
    common.report(summary, output)
