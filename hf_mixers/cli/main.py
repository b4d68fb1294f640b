"""`hf-mixers`: one command per thing that users do."""

import importlib
from types import ModuleType

import typer

from .process import finish, show_log, with_sentence

# a command is a module of this folder with a function `command`; its name is the command's
COMMANDS = (
    "finetune",
    "pretrain",
    "predict",
    "embed",
    "score-variants",
    "calibrate",
    "info",
    "convert",
    "publish",
)
# a group of commands is a module with an `app` of its own
GROUPS = ("arena",)

app = typer.Typer(
    name="hf-mixers",
    help="Train and use long-sequence mixers on sequences of any lengths.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def load_command(name: str) -> ModuleType:
    """The module of a command; a dash is written as an underscore."""
    return importlib.import_module(f".{name.replace('-', '_')}", __package__)


for _name in COMMANDS:
    app.command(_name, no_args_is_help=_name not in ("finetune", "pretrain"))(
        load_command(_name).command
    )

for _name in GROUPS:
    app.add_typer(load_command(_name).app, name=_name)


def _show_version(is_given: bool) -> None:
    if is_given:
        from .. import __version__

        typer.echo(f"{app.info.name} {__version__}")
        raise typer.Exit


@app.callback()
def _take_options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Options that stand before a command."""


def main() -> None:
    """Entry point of the console script."""
    show_log()
    try:
        with_sentence(lambda: app(prog_name=app.info.name))
    except SystemExit as end:
        # the way in which a command of typer ends, with or without success
        if not end.code:
            finish()
        raise


if __name__ == "__main__":
    main()
