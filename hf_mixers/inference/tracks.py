"""Attributions as tracks of a genome browser and as a picture."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..reporting.files import write_json
from ..reporting.plots import COLOURS, new_figure, save_figure
from .attribution import Attribution, attribute_part
from .engine import Engine, Part
from .outputs import Format

# bases up to which a picture names every one
_MOST_LETTERS = 120
# records of a picture
_MOST_PANELS = 8
# the name of an attribution among the values of a row
ATTRIBUTION = "attribution"
# batches of tokens in a part, so that a stopped run loses little; 0 makes every record one
LOOK_AHEAD = {"gradient_x_input": 2, "integrated_gradients": 1, "mutagenesis": 0}


class TrackFormat:
    """Rows of predictions in their own format, and next to them tracks and a picture.

    They are called like the output, with the method and `.bedgraph` or `.png` behind it.

    Args:
        inner: How the rows are written, without their attributions.
        method: Of the attributions.
    """

    def __init__(self, inner: Format, method: str):
        self.inner, self.method = inner, method

    def write_part(self, path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
        found = [row[ATTRIBUTION] for row in rows]
        # before the rows, as a part is complete with them
        with open(path.with_suffix(".track"), "w", encoding="utf-8") as file:
            for one in found:
                write_track(file, one)
        first = [one for one in found if one.values is not None][:_MOST_PANELS]
        write_json(path.with_suffix(".first.json"), [_to_lists(one) for one in first])
        kept = [{name: row[name] for name in row if name != ATTRIBUTION} for row in rows]
        self.inner.write_part(path, kept)

    def join(self, parts: Sequence[Path], target: Path, name: Path) -> None:
        track, picture = name_tracks(name, self.method)
        # among the parts, where nothing is left of a run that is stopped here
        draft = parts[0].with_name(track.name)
        with open(draft, "w", encoding="utf-8") as file:
            write_header(file, self.method)
            for part in parts:
                with open(part.with_suffix(".track"), encoding="utf-8") as source:
                    shutil.copyfileobj(source, file)
        os.replace(draft, track)
        if first := list(islice(_read_first(parts), _MOST_PANELS)):
            os.replace(draw_tracks(first, draft.with_suffix(".png"), self.method), picture)
        self.inner.join(parts, target, name)


def name_tracks(output: Path, method: str) -> tuple[Path, Path]:
    """The track and the picture of an output."""
    track = output.with_name(f"{output.name}.{method}.bedgraph")
    return track, track.with_suffix(".png")


def add_attributions(
    rows: Callable[[Engine, Part], list[dict[str, Any]]], method: Any, target: str | None = None
) -> Callable[[Engine, Part], list[dict[str, Any]]]:
    """The same rows, each with its attribution for `TrackFormat`."""

    def compute(engine: Engine, part: Part) -> list[dict[str, Any]]:
        found = attribute_part(engine, part, method, target)
        pairs = zip(rows(engine, part), found, strict=True)
        return [row | {ATTRIBUTION: one} for row, one in pairs]

    return compute


def _to_lists(one: Attribution) -> dict[str, Any]:
    arrays = {"values": one.values, "effects": one.effects}
    lists = {name: None if value is None else value.tolist() for name, value in arrays.items()}
    return one._asdict() | lists


def _read_first(parts: Sequence[Path]) -> Iterator[Attribution]:
    """The first attributions of every part."""
    for part in parts:
        text = part.with_suffix(".first.json").read_text(encoding="utf-8")
        for content in json.loads(text):
            one = Attribution(**content)
            effects = None if one.effects is None else np.array(one.effects)
            yield one._replace(values=np.array(one.values), effects=effects)


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
