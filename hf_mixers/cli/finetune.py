"""`hf-mixers finetune`"""

from typing import Annotated

import typer

from . import options as common

# where labels or groups come from, by what stands before the colon
LABELS = {"column": "label_column", "pattern": "label_pattern", "table": "label_table"}
GROUPS = {"column": "group_column", "pattern": "group_pattern", "table": "group_table"}


def command(
    data: common.Files = None,
    output: common.Output = "runs/finetune",  # type: ignore[assignment]
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="A family for a new model, or a folder or Hub name."),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(help="folder, genus, ... or column:NAME, pattern:REGEX, table:FILE."),
    ] = None,
    problem: Annotated[
        str | None, typer.Option(help="What labels are: classes, regression or multi_label.")
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="Never divided by the split: column:NAME, pattern:REGEX, table:FILE."),
    ] = None,
    split_column: Annotated[
        str | None, typer.Option(help="Column that names the part: train, val or test.")
    ] = None,
    epochs: common.Epochs = None,
    learning_rate: common.LearningRate = None,
    tokens: common.Tokens = None,
    baselines: Annotated[
        str | None, typer.Option(help="Compared with on the same split: kmer, cnn, or none.")
    ] = None,
    report_on: Annotated[
        str | None, typer.Option(help="test, or validation while settings are being chosen.")
    ] = None,
    seed: common.Seed = None,
    resume: common.Resume = False,
    overwrite: common.Overwrite = False,
    smoke: common.Smoke = False,
    config: common.Config = None,
    pairs: common.Set = None,
) -> None:
    """Train on labelled DNA and compare with baselines (default: the embedded genes)."""
    from ..recipes import FinetuneArguments, FinetuneOptions, finetune
    from ..recipes.configuration import Configuration

    given = {
        "data.data": [str(path) for path in data] if data else None,
        "data.problem": problem,
        "split.split_column": split_column,
        "training.num_train_epochs": epochs,
        "training.learning_rate": learning_rate,
        "training.train_token_budget": tokens,
        "training.seed": seed,
        "training.overwrite": overwrite or None,
        "evaluation.baselines": baselines and baselines.split(","),
        "evaluation.report_on": report_on,
        "evaluation.smoke": smoke or None,
        **_find_source(labels, "data", LABELS, "label_from"),
        **_find_source(groups, "split", GROUPS),
    }
    configuration = Configuration(FinetuneOptions, FinetuneArguments)
    options, arguments = common.resolve(
        configuration, output, given, config=config, pairs=pairs, resume=resume, model=model
    )
    finetune(options, arguments)


def _find_source(
    text: str | None, section: str, sources: dict[str, str], otherwise: str | None = None
) -> dict[str, str]:
    """The setting that a text such as `column:genus` stands for."""
    if text is None:
        return {}
    kind, found, value = text.partition(":")
    if found and kind in sources:
        return {f"{section}.{sources[kind]}": value}
    if otherwise is not None and not found:
        return {f"{section}.{otherwise}": text}
    accepted = ", ".join(f"{name}:..." for name in sources)
    raise ValueError(f"{text!r} was given: {accepted} are accepted.")
