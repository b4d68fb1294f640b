"""Dashes, discs and turns of Pathfinder contours, made once per size and direction.

Coordinates are (y, x); the direction `angle` is (sin, cos) of it. Places are whole pixels, so that
everything that hangs on a place is a table of offsets from it.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from .pathfinder_settings import PathfinderSettings

# a pixel of a mask that is darker than this is free
FREE = 0.3
_TINY = 1e-9


@dataclass(frozen=True)
class Stamp:
    """Pixels around a place: of a dash, and of the zone in which no other dash may lie."""

    dash: np.ndarray  # (2 R + 1, 2 R + 1) in 0..1
    zone: np.ndarray


@dataclass(frozen=True)
class Turn:
    """Where a contour of one direction can go on from its pivot.

    Args:
        pivot: Offset of the next pivot.
        ends: Offsets (n, 2) of possible ends from the next pivot.
        angles: Directions (n,) in which these lie.
        weights: How likely they are (n,), by the angle of the turn.
        around: Offsets (n, m) of the pixels near each end, in a flat canvas.
    """

    pivot: tuple[int, int]
    ends: list[tuple[int, int]]
    angles: list[float]
    weights: np.ndarray
    around: np.ndarray


def step(angle: float, distance: float) -> tuple[int, int]:
    """Offset of the pixel at a distance, rounded up."""
    return (
        math.ceil(distance * math.sin(angle) - _TINY),
        math.ceil(distance * math.cos(angle) - _TINY),
    )


def disc_offsets(radius: float) -> np.ndarray:
    """Offsets (n, 2) of the pixels within a radius."""
    reach = int(radius)
    grid = np.mgrid[-reach : reach + 1, -reach : reach + 1].reshape(2, -1).T
    return grid[(grid**2).sum(1) <= radius**2 + _TINY]


def dilate(marked: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Marked pixels, and those of which some offset leads to a marked one.

    The edge of the array, as wide as the farthest offset, stays as it is.
    """
    reach = int(np.abs(offsets).max(initial=0))
    found = marked.copy()
    inner = tuple(slice(reach, size - reach) for size in marked.shape)
    for y, x in offsets:
        shifted = marked[
            reach + y : marked.shape[0] - reach + y, reach + x : marked.shape[1] - reach + x
        ]
        found[inner] |= shifted
    return found


class DashTables:
    """All stamps and turns for one margin."""

    def __init__(self, settings: PathfinderSettings, margin: int):
        self.settings, self.margin = settings, margin
        self.reach = math.ceil(settings.dash_length + margin + settings.dash_width + 3)
        # canvases are wider than images, so that no stamp and no turn leaves them
        farthest = 2 * settings.dash_length + 5 * margin + 3
        self.edge = max(farthest, self.reach + 1, math.ceil(settings.marker_radius) + 3)
        self.width = settings.resolution + 2 * self.edge
        self._stamps: dict[tuple[float, bool], Stamp] = {}
        self._turns: dict[float, Turn] = {}
        self._starts: dict[float, np.ndarray] = {}

    def stamp(self, angle: float, *, ends_here: bool) -> Stamp:
        """A dash in a direction that ends, or begins, in the middle."""
        key = (angle, ends_here)
        if key not in self._stamps:
            self._stamps[key] = self._draw(angle, -1 if ends_here else 1)
        return self._stamps[key]

    def _draw(self, angle: float, sign: int) -> Stamp:
        from PIL import Image, ImageDraw

        scale, size = self.settings.antialias, 2 * self.reach + 1
        middle = (self.reach + 0.5) * scale - 0.5
        length = sign * self.settings.dash_length * scale
        canvas = Image.new("L", (size * scale, size * scale))
        ends = [(middle, middle)]
        ends.append((middle + length * math.cos(angle), middle + length * math.sin(angle)))
        ends = [(round(x), round(y)) for x, y in ends]
        width = int(self.settings.dash_width * scale)
        ImageDraw.Draw(canvas).line(ends, fill=255, width=width)
        line = np.asarray(canvas) > 0
        wide = dilate(line, disc_offsets(self.margin * scale))
        return Stamp(*(_shrink(array, size) for array in (line, wide)))

    def turn(self, angle: float) -> Turn:
        """Where a contour of this direction can go on."""
        if angle not in self._turns:
            self._turns[angle] = self._find_turn(angle)
        return self._turns[angle]

    def _find_turn(self, angle: float) -> Turn:
        settings = self.settings
        ends, angles, weights = [], [], []
        for end, direction in self._ring:
            turned = abs((direction - angle + math.pi) % (2 * math.pi) - math.pi)
            weight = math.cos(min(settings.continuity * turned, math.pi / 2)) ** 2
            if weight > _TINY:
                ends.append(end)
                angles.append(direction)
                weights.append(weight)
        near = disc_offsets(self.margin) @ (self.width, 1)
        around = (np.array(ends) @ (self.width, 1))[:, None] + near
        pivot = step(angle, settings.dash_length + 2 * self.margin)
        return Turn(pivot, ends, angles, np.array(weights), around)

    @cached_property
    def _ring(self) -> list[tuple[tuple[int, int], float]]:
        """Pixels at the distance of a dash and a margin, one for each pixel of the circle."""
        radius = self.settings.dash_length + self.margin
        count = math.ceil(2 * math.pi * radius)
        angles = [2 * math.pi * number / count for number in range(count)]
        pixels = {(round(radius * math.sin(a)), round(radius * math.cos(a))) for a in angles}
        return [((y, x), math.atan2(y, x)) for y, x in sorted(pixels)]

    def zone_offsets(self, angle: float) -> np.ndarray:
        """Offsets (n, 2), from its beginning, of the zone of a dash."""
        zone = self.stamp(angle, ends_here=False).zone
        return np.argwhere(zone > FREE) - self.reach

    @cached_property
    def border(self) -> np.ndarray:
        """Occupied pixels of an empty image: the canvas around it and its padding."""
        canvas = np.ones((self.width, self.width), dtype=np.float32)
        start = self.edge + self.settings.padding
        canvas[start : self.width - start, start : self.width - start] = 0
        return canvas

    def starts(self, angle: float) -> np.ndarray:
        """Flat places at which the first contour can begin in this direction."""
        if angle not in self._starts:
            free = ~dilate(self.border > FREE, self.zone_offsets(angle))
            far = self.edge + 2 * self.settings.seed_distance
            inner = np.zeros_like(free)
            inner[far : self.width - far, far : self.width - far] = True
            self._starts[angle] = np.flatnonzero(free & inner)
        return self._starts[angle]


@lru_cache(maxsize=32)
def dash_tables(settings: PathfinderSettings, margin: int) -> DashTables:
    """Tables that all images of the same settings share."""
    return DashTables(settings, margin)


@lru_cache(maxsize=32)
def draw_disc(radius: float, antialias: int) -> np.ndarray:
    """A disc (2 R + 1, 2 R + 1) in 0..1."""
    from PIL import Image, ImageDraw

    reach = math.ceil(radius) + 1
    size = 2 * reach + 1
    canvas = Image.new("L", (size * antialias, size * antialias))
    middle, wide = (reach + 0.5) * antialias - 0.5, radius * antialias
    box = [middle - wide, middle - wide, middle + wide, middle + wide]
    ImageDraw.Draw(canvas).ellipse(box, fill=255)
    return _shrink(np.asarray(canvas) > 0, size)


def _shrink(pixels: np.ndarray, size: int) -> np.ndarray:
    from PIL import Image

    picture = Image.fromarray(pixels.astype(np.float32), mode=None)
    small = np.asarray(picture.resize((size, size), Image.Resampling.LANCZOS))
    return np.clip(small, 0, 1)
