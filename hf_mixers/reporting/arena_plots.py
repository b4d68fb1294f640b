"""Pictures of arena results: score against speed and memory, spans, activation maps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .arena_table import name_model, name_task

_SMALLEST, _LARGEST = 60, 1500


def plot_tradeoff(results: Sequence[Mapping[str, Any]], path: Path, task: str) -> None:
    """Score over training steps per second, circles as large as the memory (figure 3 of LRA).

    Args:
        results: What `read_results` gives; runs of other tasks are left out.
        task: As `name_task` says it.
    """
    import matplotlib.pyplot as plt

    runs = [
        entry
        for entry in results
        if name_task(entry) == task and entry.get("seconds_per_step") and entry.get("memory_mb")
    ]
    if not runs:
        raise ValueError(f"No run of the task {task!r} has a time per step and a peak memory.")
    memory = np.array([entry["memory_mb"] for entry in runs])
    sizes = _SMALLEST + (_LARGEST - _SMALLEST) * memory / memory.max()
    figure, axes = plt.subplots(figsize=(7, 5))
    names = sorted({name_model(entry) for entry in runs})
    colours = dict(zip(names, plt.cm.tab10(np.linspace(0, 1, 10))[: len(names)], strict=False))
    for entry, size in zip(runs, sizes, strict=True):
        name, speed = name_model(entry), 1 / entry["seconds_per_step"]
        axes.scatter(
            speed, 100 * entry["score"], s=size, alpha=0.6, color=colours.get(name, "grey")
        )
        label = f"{name}\n{entry['memory_mb']:,.0f} MB"
        axes.annotate(label, (speed, 100 * entry["score"]), ha="center", va="center", fontsize=7)
    axes.set_xlabel("training steps per second")
    axes.set_ylabel(f"{task}: score in %")
    axes.margins(0.2)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def plot_reach(curves: Mapping[str, np.ndarray], path: Path) -> None:
    """Share of influence by distance from the token that is influenced.

    Args:
        curves: By name, the influence of tokens at distance 0, 1, 2, ..., with sum 1.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for name, curve in curves.items():
        axes.plot(np.arange(1, len(curve) + 1), np.cumsum(curve), label=name)
    axes.set_xscale("log")
    axes.set_xlabel("tokens at most this far away, and one")
    axes.set_ylabel("share of the influence")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def plot_maps(examples: Sequence[Mapping[str, np.ndarray]], path: Path) -> None:
    """Inputs, and outputs of the first and last block, as in figure 8 of ChordMixer.

    Args:
        examples: Each with `values` `(N, 2)`, `first` and `last` `(N, D)`.
    """
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(
        3,
        len(examples),
        figsize=(5 * len(examples), 6),
        squeeze=False,
        height_ratios=[1, 4, 4],
    )
    for column, example in zip(grid.T, examples, strict=True):
        values = example["values"]
        column[0].imshow(values[:, :1].T, aspect="auto", cmap="RdGy", vmin=-1, vmax=1)
        for place in np.flatnonzero(values[:, 1]):
            for axes in column:
                axes.axvline(place, color="tab:blue", linewidth=0.8, linestyle=":")
        column[0].set_title(f"{len(values):,} steps")
        for axes, name in zip(column[1:], ("first", "last"), strict=True):
            limit = np.abs(example[name]).max()
            axes.imshow(example[name].T, aspect="auto", cmap="seismic", vmin=-limit, vmax=limit)
            axes.set_ylabel(f"channels after the {name} block")
        for axes in column:
            axes.set_yticks([])
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
