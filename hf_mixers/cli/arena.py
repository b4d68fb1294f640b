"""`hf-mixers arena`"""

from pathlib import Path
from typing import Annotated, Any

import typer

from . import options as common

app = typer.Typer(
    help="Run, tabulate and look into tasks of the Long Range Arena.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

TaskName = Annotated[str, typer.Option("--task", "-t", help="Task; see arena tasks.")]
Data = Annotated[
    Path | None, typer.Option("--data", "-d", help="Official files; without: made from a seed.")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="Option of the task; may be repeated."),
]


@app.command()
def run(
    task: Annotated[
        str | None, typer.Option("--task", "-t", help="Task, default listops; see arena tasks.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="A family (default chordmixer) or transformers type."),
    ] = None,
    data: Data = None,
    task_options: Options = None,
    output: common.Output = "runs/arena",  # type: ignore[assignment]
    protocol: Annotated[
        str | None,
        typer.Option(
            help="Published settings: lra, chordmixer[_paper], paramixer, mrsformer, combiner."
        ),
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="The family's published model of the task.")
    ] = False,
    parameters: Annotated[
        int | None, typer.Option(help="Choose the width that gives this many parameters.")
    ] = None,
    self_pretrain: Annotated[
        bool, typer.Option("--self-pretrain", help="First predict tokens of the task's inputs.")
    ] = False,
    steps: Annotated[int | None, typer.Option(help="Training steps.")] = None,
    epochs: common.Epochs = None,
    learning_rate: common.LearningRate = None,
    batch_size: Annotated[int | None, typer.Option(help="Examples in a step.")] = None,
    tokens: common.Tokens = None,
    results: Annotated[
        Path | None, typer.Option(help="File that the result is appended to, for arena table.")
    ] = None,
    seed: common.Seed = None,
    resume: common.Resume = False,
    smoke: common.Smoke = False,
    config: common.Config = None,
    pairs: common.Set = None,
) -> None:
    """Train and evaluate a model on a task, from scratch or self-pretrained."""
    from ..recipes.arena import ArenaArguments, ArenaOptions, ArenaTaskOptions, run_arena
    from ..recipes.arena_protocols import protocol_values
    from ..recipes.configuration import Configuration
    from ..recipes.options import parse_settings

    configuration = Configuration(ArenaOptions, ArenaArguments)
    if config is not None:
        configuration.read(config)
    asked = configuration.values["task"]
    if protocol is not None:
        name = task or asked.get("task", ArenaTaskOptions.task)
        from_files = data is not None or asked.get("path") is not None
        for key, value in protocol_values(protocol, name, from_files=from_files).items():
            configuration.put(key, value)
    chosen = {**parse_settings(asked.get("options")), **_read_pairs(task_options)}
    given = {
        "task.task": task,
        "task.path": data and str(data),
        "task.options": chosen or None,
        "model.family": model,
        "model.protocol": protocol,
        "model.published": published or None,
        "model.parameters": parameters,
        "pretraining.self_pretrain": self_pretrain or None,
        # a number of steps comes before epochs, also that of a protocol
        "training.max_steps": -1 if steps is None and epochs is not None else steps,
        "training.num_train_epochs": epochs,
        "training.learning_rate": learning_rate,
        "training.per_device_train_batch_size": batch_size,
        "training.train_token_budget": tokens,
        "training.seed": seed,
        "evaluation.results": results and str(results),
        "evaluation.smoke": smoke or None,
    }
    if batch_size is not None and tokens is None:
        configuration.put("training.train_token_budget", None)
    run_arena(
        *common.resolve(configuration, output, given, config=None, pairs=pairs, resume=resume)
    )


@app.command()
def tasks(
    task: Annotated[str | None, typer.Argument(help="Show the options of this task.")] = None,
) -> None:
    """List the tasks, or the options of one."""
    from ..tasks import TASKS, task_options
    from ..tasks.registry import find_task

    if task is None:
        for kind in TASKS.values():
            made = "files or made from a seed" if kind.make else "files"
            typer.echo(f"{kind.name.ljust(16)}{kind.summary} ({made})")
        return
    asked = find_task(task)
    typer.echo(f"{asked.summary}\n{asked.where}")
    for from_files, title in ((True, "read from files"), (False, "made from a seed")):
        if asked.load if from_files else asked.make:
            options = task_options(task, from_files=from_files)
            typer.echo(f"\n{title}:")
            for name in sorted(options):
                typer.echo(f"  {name}={options[name]}")


@app.command()
def make(
    output: Annotated[Path, typer.Argument(help="Folder for the parquet files.")],
    task: TaskName = "listops",
    task_options: Options = None,
    processes: Annotated[int, typer.Option(help="Processes that make examples.")] = 1,
) -> None:
    """Make a task from a seed and write it to parquet files, which --data takes."""
    from ..tasks import load_arena_task, write_task

    options: dict[str, Any] = _read_pairs(task_options)
    made = load_arena_task(task, **options)
    write_task(made, output, num_processes=processes, description=options)
    sizes = ", ".join(f"{part} {len(rows):,}" for part, rows in made.parts.items())
    typer.echo(f"{task}: {sizes} in {output}/")


@app.command()
def table(
    results: Annotated[list[Path], typer.Argument(help="Files that arena run --results wrote.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for table and pictures.")
    ] = None,
    published: Annotated[
        bool, typer.Option("--published/--no-published", help="Show published rows, too.")
    ] = True,
) -> None:
    """Make the arena table and the pictures of score, speed and memory."""
    from ..reporting.arena_published import PUBLISHED
    from ..reporting.arena_results import read_results
    from ..reporting.arena_table import arena_table, costs_table, name_task

    found = read_results(list(results))
    text = f"{arena_table(found, PUBLISHED if published else [])}\n\n{costs_table(found)}\n"
    typer.echo(text)
    if output is None:
        return
    from ..reporting.arena_plots import plot_tradeoff

    output.mkdir(parents=True, exist_ok=True)
    (output / "arena.md").write_text(text, "utf-8")
    for task in sorted({name_task(entry) for entry in found}):
        if any(name_task(e) == task and e.get("seconds_per_step") for e in found):
            file = task.replace(", ", "_").replace(" ", "_").replace(",", "")
            plot_tradeoff(found, output / f"tradeoff_{file}.png", task)
    typer.echo(f"Table and pictures are in {output}/")


@app.command()
def span(
    run_folder: Annotated[Path, typer.Argument(help="Folder of a finished arena run.")],
    data: Annotated[
        Path | None, typer.Option("--data", "-d", help="Files that the run was trained on.")
    ] = None,
    samples: Annotated[int, typer.Option(help="Sequences; the arena takes 1000.")] = 100,
    queries: Annotated[int, typer.Option(help="Tokens of each, for the gradient.")] = 8,
) -> None:
    """Measure how far a trained model looks: attention span and receptive field."""
    from ..recipes.arena_span import measure_spans

    found = measure_spans(run_folder, data, num_samples=samples, num_queries=queries)
    attention, gradient = found["attention"], found["gradient"]
    if attention is not None:
        typer.echo(f"required attention span: {attention['span']:.1f} tokens")
    typer.echo(
        f"receptive field by gradient: mean distance {gradient['span']:.1f}, 95% of the influence"
        f" within {gradient['reach']:.1f}, {gradient['coverage']:.0%} of the tokens"
    )


@app.command()
def maps(
    run_folder: Annotated[Path, typer.Argument(help="Folder of a finished run of task adding.")],
    lengths: Annotated[
        list[int] | None, typer.Option("--length", help="Steps; default: 40, 240 and 1006.")
    ] = None,
) -> None:
    """Draw the activation maps of a trained adding model."""
    from ..recipes.arena_span import MAP_LENGTHS, draw_maps

    draw_maps(run_folder, lengths or MAP_LENGTHS)
    typer.echo(f"{run_folder / 'maps.png'}")


def _read_pairs(pairs: list[str] | None) -> dict[str, Any]:
    """Options of a task from texts `key=value`, where the value is read as YAML."""
    from yaml import YAMLError

    from ..recipes.configuration import read_yaml

    found = {}
    for pair in pairs or ():
        key, is_pair, text = pair.partition("=")
        if not is_pair:
            raise ValueError(f"--option takes key=value, got {pair!r}.")
        try:
            found[key.strip()] = read_yaml(text)
        except YAMLError as error:
            raise ValueError(f"--option {pair}: the value is not YAML.") from error
    return found
