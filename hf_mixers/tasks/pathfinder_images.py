"""Pathfinder: do two discs lie on the ends of one dashed contour, or of two?

Images are drawn as in the published generator, with tables of dashes in place of whole canvases.
One thing differs: a dash also keeps away from the newest dash of the other contour.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from .pathfinder_dashes import FREE, DashTables, dash_tables, dilate, draw_disc, step
from .pathfinder_settings import Difficulty, PathfinderSettings, pathfinder_settings
from .rows import TaskRows

PixelMode = Literal["ids", "values"]
CLASS_NAMES = ("two contours", "one contour")

_TARGET_TRIES = 200_000
_DISTRACTOR_TRIES = 5
_DASH_TRIES = 3
# an end whose weights have a smaller sum is none
_NO_WAY = 1e-4
# dashes whose zones reach this together overlap
_OVERLAP = 1.8
_LEAST_FREE = 0.01

Place = tuple[int, int]


@dataclass
class Scene:
    """An image and what it was made of.

    Args:
        image: Pixels `(H, W)` in uint8.
        label: 1 if both markers lie on one contour.
        markers: Places (y, x) of the two discs.
        ends: Beginning and end of each of the two contours.
        contours: Dashes of the two target contours, `(2, H, W)` in 0..1.
        distractors: Dashes of all distractors, `(H, W)` in 0..1.
        margin: Distance between dashes.
    """

    image: np.ndarray
    label: int
    markers: tuple[Place, Place]
    ends: tuple[tuple[Place, Place], tuple[Place, Place]]
    contours: np.ndarray
    distractors: np.ndarray
    margin: int


class _Contour:
    """A contour that grows dash by dash; `occupied` is all that it must keep away from."""

    def __init__(self, tables: DashTables, start: Place, angle: float):
        settings = tables.settings
        self.tables, self.angle, self.start = tables, angle, start
        head = _add(start, step(angle, settings.dash_length))
        self.end = head
        self.pivot = _add(head, step(angle + np.pi, settings.dash_length + tables.margin))
        self.dashes = [(tables.stamp(angle, ends_here=False), start)]

    def extend(self, occupied: np.ndarray, chance: np.random.Generator) -> bool:
        """Add a dash if there is a way; `occupied` then has the zone of the one before."""
        tables = self.tables
        turn = tables.turn(self.angle)
        pivot = _add(self.pivot, turn.pivot)
        near = occupied.ravel().take(turn.around + (pivot[0] * tables.width + pivot[1]))
        sums = np.cumsum((1 - near.max(1)) * turn.weights)
        if sums[-1] < _NO_WAY:
            return False
        for _ in range(_DASH_TRIES):
            pick = int(np.searchsorted(sums, chance.random() * sums[-1], side="right"))
            end = _add(pivot, turn.ends[pick])
            stamp = tables.stamp(turn.angles[pick], ends_here=True)
            if (_window(occupied, tables.reach, end) + stamp.zone).max() < _OVERLAP:
                break
        else:
            return False
        self.block_newest(occupied)
        self.dashes.append((stamp, end))
        self.end, self.pivot, self.angle = end, pivot, turn.angles[pick]
        return True

    def block_newest(self, occupied: np.ndarray) -> None:
        """Keep others away from the newest dash."""
        stamp, place = self.dashes[-1]
        _press(occupied, stamp.zone, place)

    def draw(self) -> np.ndarray:
        """All dashes on a canvas."""
        canvas = np.zeros((self.tables.width, self.tables.width), dtype=np.float32)
        for stamp, place in self.dashes:
            _press(canvas, stamp.dash, place)
        return canvas


def draw_scene(settings: PathfinderSettings, chance: np.random.Generator) -> Scene:
    """One image with its label, drawn from random numbers."""
    label, one = int(chance.random() < 0.5), int(chance.random() < 0.5)
    margin = settings.margins[int(chance.random() * len(settings.margins))]
    tables = dash_tables(settings, margin)
    for _ in range(_TARGET_TRIES):
        drawn = _draw_targets(tables, chance)
        if drawn is not None:
            break
    else:
        raise ValueError(f"No image with two contours was found in {_TARGET_TRIES} draws.")
    contours, occupied = drawn
    distractors = _draw_distractors(tables, occupied, chance)
    markers = contours[one].start, contours[one if label else 1 - one].end
    targets = np.stack([contour.draw() for contour in contours])
    canvas = np.maximum(
        settings.target_contrast * targets.max(0), settings.distractor_contrast * distractors
    )
    disc = draw_disc(settings.marker_radius, settings.antialias)
    for place in markers:
        _press(canvas, disc, place)
    edge, size = tables.edge, settings.resolution
    inner = (slice(edge, edge + size), slice(edge, edge + size))
    canvas = canvas[inner]
    low, high = float(canvas.min()), float(canvas.max())
    return Scene(
        image=np.round((canvas - low) * (255 / (high - low))).astype(np.uint8),
        label=label,
        markers=tuple(_add(place, (-edge, -edge)) for place in markers),  # type: ignore[arg-type]
        ends=tuple(  # type: ignore[arg-type]  # two contours with two ends each
            tuple(_add(place, (-edge, -edge)) for place in (contour.start, contour.end))
            for contour in contours
        ),
        contours=targets[:, *inner],
        distractors=distractors[inner],
        margin=margin,
    )


def _draw_targets(
    tables: DashTables, chance: np.random.Generator
) -> tuple[list[_Contour], np.ndarray] | None:
    """Two contours, and what they occupy; or None if one of them found no way."""
    settings = tables.settings
    contours = _begin_targets(tables, chance)
    if contours is None:
        return None
    # each contour keeps away from all dashes but its own newest
    occupied = [tables.border.copy(), tables.border.copy()]
    for number, contour in enumerate(contours):
        contour.block_newest(occupied[1 - number])
    for _ in range(settings.contour_length - 1):
        for number, contour in enumerate(contours):
            if not contour.extend(occupied[number], chance):
                return None
            contour.block_newest(occupied[1 - number])
    return contours, np.maximum(*occupied)


def _begin_targets(tables: DashTables, chance: np.random.Generator) -> list[_Contour] | None:
    settings = tables.settings
    angle = _draw_angle(chance)
    places = tables.starts(angle)
    if len(places) == 0:
        return None
    first = divmod(int(places[int(chance.random() * len(places))]), tables.width)
    away = _draw_angle(chance)
    offset = settings.seed_distance * np.array([np.sin(away), np.cos(away)])
    second = _add(first, tuple(np.round(offset).astype(int).tolist()))
    contours = [_Contour(tables, first, angle), _Contour(tables, second, _draw_angle(chance))]
    inner = range(tables.edge, tables.edge + settings.resolution)
    places = [place for one in contours for place in (one.start, one.end, one.pivot)]
    return contours if all(y in inner and x in inner for y, x in places) else None


def _draw_distractors(
    tables: DashTables, occupied: np.ndarray, chance: np.random.Generator
) -> np.ndarray:
    """Pixels of further contours, as many as find room."""
    settings = tables.settings
    picture = np.zeros_like(occupied)
    for _ in range(settings.num_distractors):
        for _ in range(_DISTRACTOR_TRIES):
            angle = _draw_angle(chance)
            free = ~dilate(occupied > FREE, tables.zone_offsets(angle))
            places = np.flatnonzero(free)
            if len(places) < _LEAST_FREE * settings.resolution**2:
                return picture
            place = divmod(int(places[int(chance.random() * len(places))]), tables.width)
            contour, room = _Contour(tables, place, angle), occupied.copy()
            steps = range(settings.distractor_length - 1)
            if all(contour.extend(room, chance) for _ in steps):
                contour.block_newest(room)
                np.maximum(picture, contour.draw(), out=picture)
                occupied = room
                break
    return picture


def _draw_angle(chance: np.random.Generator) -> float:
    return float(np.deg2rad(int(chance.random() * 360)))


def _add(place: Place, offset: Place) -> Place:
    return place[0] + offset[0], place[1] + offset[1]


def _window(canvas: np.ndarray, reach: int, place: Place) -> np.ndarray:
    y, x = place
    return canvas[y - reach : y + reach + 1, x - reach : x + reach + 1]


def _press(canvas: np.ndarray, stamp: np.ndarray, place: Place) -> None:
    """Combine a canvas with a stamp around a place, by maximum."""
    window = _window(canvas, len(stamp) // 2, place)
    np.maximum(window, stamp, out=window)


class Pathfinder(TaskRows):
    """Images as sequences of pixels, row by row, with `labels`; row `i` depends on seed and `i`.

    `draw(i)` gives the `Scene` of row `i`.

    Args:
        num_examples: Size of the data set.
        settings: How images are drawn.
        seed: Different seeds give different data.
        pixels: `ids` gives shades 0..255 as `input_ids` `(H W,)`; `values` gives them in -1..1 as
            `input_values` `(H W, 1)`.
    """

    def __init__(
        self,
        num_examples: int,
        settings: PathfinderSettings,
        seed: int = 0,
        pixels: PixelMode = "ids",
    ):
        if num_examples < 1:
            raise ValueError(f"num_examples={num_examples} was given: at least 1 is accepted.")
        check_pixel_mode(pixels)
        super().__init__(num_examples)
        self.settings, self.seed, self.pixels = settings, seed, pixels

    def draw(self, row: int) -> Scene:
        return draw_scene(self.settings, np.random.default_rng((self.seed, 3, row)))

    def read(self, row: int) -> dict:
        scene = self.draw(row)
        return {**as_sequence(scene.image, self.pixels), "labels": scene.label}

    def find_lengths(self, rows: np.ndarray) -> np.ndarray:
        return np.full(len(rows), self.settings.resolution**2)


def check_pixel_mode(pixels: str) -> None:
    if pixels not in ("ids", "values"):
        raise ValueError(f"pixels={pixels!r} was given: ids and values are accepted.")


def as_sequence(image: np.ndarray, pixels: PixelMode, mean: float = 127.5, std: float = 127.5):
    """A grey image `(H, W)` as `input_ids` `(H W,)`, or as `input_values` `(H W, 1)`."""
    if pixels == "ids":
        return {"input_ids": image.reshape(-1)}
    return {"input_values": (image.reshape(-1, 1).astype(np.float32) - mean) / np.float32(std)}


def pathfinder(
    num_examples: int,
    resolution: int = 32,
    difficulty: Difficulty = "hard",
    *,
    seed: int = 0,
    pixels: PixelMode = "ids",
    reference_contrast: bool = False,
    reference_distractors: bool = False,
    **changes,
) -> Pathfinder:
    """The Pathfinder task at any resolution, drawn when asked for.

    Args:
        num_examples: Size of the data set.
        resolution: 32 is the arena's Pathfinder, 128 its Path-X.
        difficulty: `easy`, `intermediate` or `hard`.
        seed, pixels: See `Pathfinder`.
        reference_contrast, reference_distractors, changes: See `pathfinder_settings`.

    >>> pathfinder(2, 32, "easy")[1]["input_ids"].shape
    (1024,)
    """
    settings = pathfinder_settings(
        resolution,
        difficulty,
        reference_contrast=reference_contrast,
        reference_distractors=reference_distractors,
        **changes,
    )
    return Pathfinder(num_examples, settings, seed, pixels)
