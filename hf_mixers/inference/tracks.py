"""Attributions as tracks of a genome browser and as a picture."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..reporting.atomic import write_atomically
from ..reporting.plots import COLOURS, new_figure, save_figure
from .attribution import Attribution, attribute_part
from .engine import Engine, prefetch
from .records import Record

# bases up to which a picture names every one
_MOST_LETTERS = 120
# records of a picture
_MOST_PANELS = 8


def write_attributions(
    engine: Engine,
    records: Iterable[Record],
    output: Path,
    method: Any,
    target: str | None = None,
) -> tuple[Path, Path]:
    """Write a track of every record and a picture of the first, next to an output of `predict`.

    They are called like the output, with the method and `.bedgraph` or `.png` behind it.
    """
    track = output.with_name(f"{output.name}.{method}.bedgraph")
    picture = track.with_suffix(".png")
    first: list[Attribution] = []
    with write_atomically(track) as draft, open(draft, "w", encoding="utf-8") as file:
        write_header(file, method)
        for part in prefetch(engine.read_parts(records)):
            for one in attribute_part(engine, part, method, target):
                write_track(file, one)
                if one.values is not None and len(first) < _MOST_PANELS:
                    first.append(one)
    draw_tracks(first, picture, method)
    return track, picture


def write_header(file: TextIO, method: str) -> None:
    """The first line of a bedGraph file."""
    file.write(f'track type=bedGraph name="{method}" description="{method} per base"\n')


def write_track(file: TextIO, one: Attribution) -> None:
    """Lines of bedGraph, one per base, counted from 0; none for a record without values.

    >>> import io
    >>> text = io.StringIO()
    >>> write_track(text, Attribution("s1", "AC", "cat", 1.0, np.array([0.5, -2]), None, ""))
    >>> text.getvalue()
    's1\\t0\\t1\\t0.5\\ns1\\t1\\t2\\t-2\\n'
    """
    if one.values is not None:
        name = "_".join(one.id.split())
        file.writelines(
            f"{name}\t{place}\t{place + 1}\t{value:.6g}\n" for place, value in enumerate(one.values)
        )


def draw_tracks(tracks: Sequence[Attribution], path: str | Path, method: str) -> Path:
    """A picture with a panel per record; changes of single bases are a panel of their own."""
    shown = [one for one in tracks if one.values is not None]
    if not shown:
        raise ValueError("There are no attributions to draw.")
    heights = [height for one in shown for height in ([2, 1] if one.effects is not None else [2])]
    figure = new_figure(10, max(2.4, 0.9 * sum(heights)))
    panels = iter(np.atleast_1d(figure.subplots(len(heights), height_ratios=heights)))
    for one in shown:
        axes, values = next(panels), one.values
        places = np.arange(1, len(values) + 1)
        colours = np.where(values < 0, COLOURS[1], COLOURS[0])
        if len(values) <= 2000:
            axes.bar(places, values, 1.0, color=colours)
        else:
            axes.plot(places, values, linewidth=0.6, color=COLOURS[0])
        axes.axhline(0, color="0.5", linewidth=0.5)
        axes.set(xlim=(0.5, len(values) + 0.5), ylabel=method.replace("_", " "))
        axes.set_title(f"{one.id}: {one.target}, score {one.score:.3g}", fontsize=9)
        if len(values) <= _MOST_LETTERS:
            axes.set_xticks(places, list(one.sequence[: len(values)].upper()), fontsize=7)
        if one.effects is not None:
            _draw_effects(next(panels), one.effects)
    return save_figure(figure, Path(path))


def _draw_effects(axes, effects: np.ndarray) -> None:
    """Changes of the score as an image, a row per base."""
    limit = max(float(np.abs(effects).max()), 1e-12)
    extent = (0.5, len(effects) + 0.5, 3.5, -0.5)
    options = {"cmap": "PuOr", "vmin": -limit, "vmax": limit, "extent": extent}
    image = axes.imshow(effects.T, aspect="auto", interpolation="nearest", **options)
    axes.set_yticks(range(4), list("ACGT"), fontsize=7)
    axes.figure.colorbar(image, ax=axes, label="change")
