"""`hf-mixers publish`"""

from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[Path, typer.Argument(help="Folder of a run or of a saved model.")],
    repository: Annotated[str, typer.Argument(help="owner/name on the Hub.")],
    with_code: Annotated[
        bool, typer.Option("--with-code", help="Add the source, for readers without hf_mixers.")
    ] = False,
    endpoint: Annotated[
        bool, typer.Option("--endpoint", help="Add handler.py for Inference Endpoints.")
    ] = False,
    private: Annotated[
        bool, typer.Option("--private", help="Create a private repository.")
    ] = False,
    licence: Annotated[
        str | None, typer.Option("--license", help="Licence for the card, such as apache-2.0.")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Branch to push to.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be uploaded, and upload nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before uploading.")] = False,
) -> None:
    """Upload a model, its card and its results to the Hub; nothing else of the folder."""
    from ..publish import choose_files, find_licence, publish_folder

    files = choose_files(folder)
    typer.echo(f"Files of {folder} for {repository}:")
    for path in files.published:
        typer.echo(f"  {path.name}  {path.stat().st_size:,} bytes")
    if files.left_out:
        typer.echo(f"Left out: {', '.join(path.name for path in files.left_out)}")
    if endpoint:
        typer.echo("Added for Inference Endpoints: handler.py, requirements.txt")
    if dry_run:
        return
    if not yes:
        if licence is None and find_licence(folder) is None:
            licence = typer.prompt("Licence, such as apache-2.0 (empty: none)", "").strip() or None
        typer.confirm("Upload these files?", abort=True)
    url = publish_folder(
        folder,
        repository,
        with_code=with_code,
        endpoint=endpoint,
        private=private or None,
        licence=licence,
        revision=revision,
    )
    typer.echo(url)
