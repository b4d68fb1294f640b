"""Plots of recorded trainings, drawn from their JSON files alone."""

from pathlib import Path

from hf_mixers.reporting.plots import line_look, new_figure, plot_by_length, save_figure

from .tables import ADDING, BY_LENGTH, CLASSIFIERS, Record, read_records


def draw_trainings(folder: Path, images: Path) -> list[Path]:
    """Plots of what is recorded in a folder, in the folder `images`."""
    records = read_records(folder)
    plots = [
        plot_by_length(
            records[name]["test"],
            images / f"{name}.png",
            metric,
            title=f"{CLASSIFIERS[name]}, test part",
        )
        for name, metric in BY_LENGTH.items()
        if name in records
    ]
    if runs := {title: records[name] for name, title in ADDING.items() if name in records}:
        plots.append(draw_adding(runs, images / "adding.png"))
    return plots


def draw_adding(runs: dict[str, Record], path: Path) -> Path:
    """Training loss and validation score of the adding problem over epochs, a line per run."""
    figure = new_figure(9.5, 3.8)
    panels = {
        "loss": ("Training loss", {"marker": "", "linewidth": 1.0}),
        "eval_within_tolerance": ("Validation, share within 0.04", {}),
    }
    for axes, (column, (label, changes)) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        for number, (title, run) in enumerate(runs.items()):
            points = [(row["epoch"], row[column]) for row in run["history"] if column in row]
            if points:
                look = line_look(number) | changes
                axes.plot(*zip(*points, strict=True), label=title, **look)
        axes.set_xlabel("Epoch")
        axes.set_ylabel(label)
    figure.axes[0].set_yscale("log")
    figure.axes[0].legend(frameon=False, title="Base length")
    figure.suptitle("Adding problem")
    return save_figure(figure, path)
