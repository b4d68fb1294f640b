"""Options that several commands share, and what becomes of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ..auto import FAMILIES
from ..recipes.configuration import Configuration, save_run
from ..recipes.path import take_folder

Files = Annotated[list[Path] | None, typer.Argument(help="Files, folders or globs.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder of the run.")]
Model = Annotated[
    str, typer.Option("--model", "-m", help="A family for a new model, or a folder or Hub name.")
]
Epochs = Annotated[float | None, typer.Option(help="Passes over the training data.")]
LearningRate = Annotated[float | None, typer.Option(help="Peak learning rate.")]
Tokens = Annotated[int | None, typer.Option(help="Most tokens in a training step.")]
Seed = Annotated[int | None, typer.Option(help="Seed of the run, not of the split.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Delete an earlier run in the output folder.")
]
Smoke = Annotated[bool, typer.Option("--smoke", help="A run of seconds, to see that it works.")]
Config = Annotated[
    Path | None, typer.Option(help="YAML of settings, such as the run.yaml of an earlier run.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any other setting; may be repeated."),
]


def resolve(
    configuration: Configuration,
    output: Path,
    given: Mapping[str, Any],
    *,
    config: Path | None,
    pairs: list[str] | None,
    resume: bool,
    model: str | None = None,
) -> tuple[Any, Any]:
    """Options and arguments of a run: the file first, then options, then `--set`.

    The result is saved in the folder of the run.

    Args:
        given: Values by `section.name`; None was not given.
        model: A family for a new model, or a checkpoint, in place of what the file says.
    """
    if config is not None:
        configuration.read(config)
    for key, value in given.items():
        if value is not None:
            configuration.put(key, value)
    if model is not None:
        if model not in FAMILIES and "/" not in model and not Path(model).exists():
            raise ValueError(
                f"{model!r} is neither a family ({', '.join(FAMILIES)}) nor a folder; a model on"
                " the Hub has a name such as org/model."
            )
        configuration.put("model.family" if model in FAMILIES else "model.checkpoint", model)
        if model in FAMILIES:
            configuration.put("model.checkpoint", None)
    configuration.put_all(pairs or ())
    configuration.put("training.output_dir", str(output))
    if resume:
        configuration.put("training.resume_from_checkpoint", "true")
    options, arguments = configuration.build()
    # before anything is written there
    take_folder(arguments)  # type: ignore[arg-type]  # recipes have arguments of this kind
    save_run(output / "run.yaml", options, arguments)
    return options, arguments
