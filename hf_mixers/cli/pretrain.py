"""`hf-mixers pretrain`"""

from typing import Annotated

import typer

from . import options as common


def command(
    genomes: common.Files = None,
    output: common.Output = "runs/pretrain",  # type: ignore[assignment]
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="A family for a new model, or a folder or Hub name."),
    ] = None,
    held_out: Annotated[
        list[str] | None,
        typer.Option(help="Record for evaluation only, or part of one as name:first-last."),
    ] = None,
    window: Annotated[
        tuple[int, int] | None, typer.Option(help="Bases of the shortest and longest window.")
    ] = None,
    windows: Annotated[int | None, typer.Option(help="Training windows of an epoch.")] = None,
    mask: Annotated[float | None, typer.Option(help="Share of the bases to predict.")] = None,
    epochs: common.Epochs = None,
    learning_rate: common.LearningRate = None,
    tokens: common.Tokens = None,
    seed: common.Seed = None,
    resume: common.Resume = False,
    overwrite: common.Overwrite = False,
    smoke: common.Smoke = False,
    config: common.Config = None,
    pairs: common.Set = None,
) -> None:
    """Pre-train a masked language model on genomes in FASTA files (default: the embedded genes)."""
    from ..recipes import PretrainArguments, PretrainOptions, pretrain
    from ..recipes.configuration import Configuration

    given = {
        "data.genomes": [str(path) for path in genomes] if genomes else None,
        "data.held_out": held_out,
        "data.window": window and list(window),
        "data.num_windows": windows,
        "data.mask_probability": mask,
        "data.smoke": smoke or None,
        "training.num_train_epochs": epochs,
        "training.learning_rate": learning_rate,
        "training.train_token_budget": tokens,
        "training.seed": seed,
        "training.overwrite": overwrite or None,
    }
    configuration = Configuration(PretrainOptions, PretrainArguments)
    options, arguments = common.resolve(
        configuration, output, given, config=config, pairs=pairs, resume=resume, model=model
    )
    pretrain(options, arguments)
