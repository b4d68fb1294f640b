"""`hf-mixers info`"""

import json
from typing import Annotated

import typer


def command(
    checkpoint: Annotated[str, typer.Argument(help="Folder or Hub name of a model.")],
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Describe a checkpoint: family, sizes, lengths, labels, tokenizer, training, results."""
    from ..reporting.describe import describe_checkpoint

    found = describe_checkpoint(checkpoint)
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    width = max(map(len, found))
    for name, value in found.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        typer.echo(f"{name.ljust(width)}  {text}")
