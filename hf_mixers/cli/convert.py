"""`hf-mixers convert`"""

from pathlib import Path
from typing import Annotated

import typer

from . import options as common


def command(
    source: Annotated[Path, typer.Argument(help="File of weights of the authors' code.")],
    family: Annotated[str, typer.Argument(help="chordmixer or paramixer.")],
    output: Annotated[Path, typer.Argument(help="Folder for the converted model.")],
    pairs: common.Set = None,
) -> None:
    """Convert weights of the authors' code; --set gives the arguments of its constructor."""
    from ..convert import from_original
    from ..recipes.configuration import read_yaml

    arguments = {}
    for pair in pairs or ():
        key, found, text = pair.partition("=")
        if not found:
            raise ValueError(f"--set takes key=value, got {pair!r}.")
        arguments[key] = read_yaml(text)
    model = from_original(str(source), family, **arguments)
    model.save_pretrained(output)
    typer.echo(f"{type(model).__name__}, {model.num_parameters():,} parameters, is in {output}/")
