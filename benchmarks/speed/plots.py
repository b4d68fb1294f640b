"""Plots of the measurements, drawn from their CSV files alone."""

from collections.abc import Callable
from pathlib import Path

from hf_mixers.reporting.plots import COLOURS, line_look, new_figure, save_figure

from ..tables import Row, find_rows, read_tables
from .measures.base import tokens_per_second

# panels: mode, column, what the axis says
_PANELS = (
    ("forward", "median_s", "Forward, seconds"),
    ("training", "median_s", "Training step, seconds"),
    ("training", "peak_mib", "Training step, peak MiB"),
)


def draw_all(folder: Path, images: Path) -> list[Path]:
    """A plot for each table of a folder that has one, in the folder `images`."""
    tables = read_tables(folder)
    return [
        draw(tables[command], images / f"{command}.png")
        for command, draw in DRAWERS.items()
        if find_rows(tables.get(command, []), status="ok")
    ]


def draw_peers(rows: list[Row], path: Path) -> Path:
    """Time and memory over length, a line per network; what failed has no point."""
    figure = new_figure(12.5, 4.2)
    for axes, (mode, column, label) in zip(figure.subplots(1, 3), _PANELS, strict=True):
        chosen = find_rows(rows, mode=mode)
        _draw_lines(axes, chosen, lambda row, column=column: row[column])
        axes.set_yscale("log")
        axes.set_ylabel(label)
    figure.axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle("One sequence, equal number of parameters")
    return save_figure(figure, path)


def draw_scaling(rows: list[Row], path: Path) -> Path:
    """Time per token and block over length: a flat line is growth as N log N."""
    figure = new_figure(9.0, 4.0)
    for axes, mode in zip(figure.subplots(1, 2), ("forward", "training"), strict=True):
        chosen = find_rows(rows, mode=mode)
        _draw_lines(axes, chosen, lambda row: 1e9 * row["median_s"] / row["token_blocks"])
        axes.set_ylim(bottom=0)
        axes.set_title(mode)
    figure.axes[0].set_ylabel("Nanoseconds per token and block")
    figure.axes[0].legend(frameon=False)
    return save_figure(figure, path)


def draw_memory(rows: list[Row], path: Path) -> Path:
    """Peak memory of the training step, a bar per way of keeping activations."""
    chosen = find_rows(rows, task="training step")
    bars = {row["network"]: row["peak_mib"] / 1024 for row in find_rows(chosen, status="ok")}
    return _draw_bars(bars, f"Training step on {chosen[0]['length']:,} tokens, peak GiB", path)


def draw_throughput(rows: list[Row], path: Path) -> Path:
    """Real tokens per second, a bar per network and layout."""
    chosen = find_rows(rows, status="ok")
    bars = {f"{row['network']}, {row['layout']}": tokens_per_second(row) for row in chosen}
    return _draw_bars(bars, "Training on genes, real tokens per second", path)


def _draw_lines(axes, rows: list[Row], value: Callable[[Row], float | None]) -> None:
    for number, network in enumerate(dict.fromkeys(row["network"] for row in rows)):
        found = find_rows(rows, network=network, status="ok")
        points = [(row["length"], value(row)) for row in found if value(row) is not None]
        if points:
            axes.plot(*zip(*points, strict=True), label=network, **line_look(number))
    axes.set_xscale("log", base=2)
    axes.set_xlabel("Tokens")


def _draw_bars(bars: dict[str, float], label: str, path: Path) -> Path:
    figure = new_figure(7.0, 1.2 + 0.42 * len(bars))
    axes = figure.subplots()
    drawn = axes.barh(list(bars), list(bars.values()), color=COLOURS[0])
    texts = [f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in bars.values()]
    axes.bar_label(drawn, texts, padding=3)
    axes.margins(x=0.12)
    axes.set_axisbelow(True)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    return save_figure(figure, path)


DRAWERS = {
    "peers": draw_peers,
    "scaling": draw_scaling,
    "memory": draw_memory,
    "throughput": draw_throughput,
}
