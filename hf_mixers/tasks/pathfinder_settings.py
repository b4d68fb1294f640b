"""Settings of the Pathfinder images of the Long Range Arena, by resolution and difficulty."""

from dataclasses import dataclass, replace
from typing import Literal

Difficulty = Literal["easy", "intermediate", "hard"]
# dashes of a target contour
DIFFICULTIES = {"easy": 6, "intermediate": 9, "hard": 14}


@dataclass(frozen=True)
class PathfinderSettings:
    """How Pathfinder images are drawn; lengths are in pixels.

    Args:
        resolution: Height and width of an image.
        contour_length: Dashes of each of the two target contours.
        distractor_length: Dashes of each distractor.
        num_distractors: Distractors, as far as there is room.
        padding: Border that stays empty.
        seed_distance: Distance between the first dashes of the two contours.
        dash_length, dash_width: Size of a dash.
        margins: Distances between dashes; one is drawn for each image.
        marker_radius: Radius of the discs at two ends.
        antialias: How many times larger the canvas is on which dashes are drawn.
        continuity: How straight contours are; 0 lets them turn by any angle.
        target_contrast, distractor_contrast: Brightness of dashes, that of markers being 1.
    """

    resolution: int
    contour_length: int
    distractor_length: int
    num_distractors: int
    padding: int
    seed_distance: int
    dash_length: int
    dash_width: float
    margins: tuple[int, ...]
    marker_radius: float
    antialias: int = 2
    continuity: float = 1.8
    target_contrast: float = 1.0
    distractor_contrast: float = 1.0

    def __post_init__(self):
        if self.contour_length < 1 or self.distractor_length < 1 or self.num_distractors < 0:
            raise ValueError(
                f"contour_length={self.contour_length}, distractor_length={self.distractor_length}"
                f" and num_distractors={self.num_distractors} were given: contours have at least"
                " one dash, and the number is not negative."
            )
        width = self.dash_width * self.antialias
        if self.dash_length < 1 or width < 1 or width != int(width):
            raise ValueError(
                f"dash_length={self.dash_length}, dash_width={self.dash_width} and"
                f" antialias={self.antialias} were given: a dash has at least length 1, and its"
                " width times antialias is a whole number."
            )
        if not self.margins or min(self.margins) < 1 or self.padding < 1:
            raise ValueError(
                f"margins={self.margins} and padding={self.padding} were given: both are at least"
                " 1 pixel."
            )
        if self.resolution <= 4 * self.seed_distance + 2:
            raise ValueError(
                f"resolution={self.resolution} was given with seed_distance={self.seed_distance}:"
                " more than 4 times that distance is needed, as contours begin twice that distance"
                " from every side."
            )


@dataclass(frozen=True)
class _Preset:
    """One column of the published table: sizes, and the published contrasts."""

    padding: int
    seed_distance: int
    dash_length: int
    dash_width: float
    margins: tuple[int, ...]
    marker_radius: float
    continuity: float
    num_dashes: int  # of all distractors together
    snake_contrast: float
    paddle_contrast: float


_PRESETS = {
    32: _Preset(1, 7, 2, 0.5, (1,), 1.5, 1.0, 20, 2.0, 0.75),
    64: _Preset(1, 12, 5, 1.0, (1,), 2.5, 1.8, 22, 0.8, 1.0),
    128: _Preset(1, 20, 5, 1.5, (2, 3), 3.0, 1.8, 35, 0.9, 1.0),
    256: _Preset(22, 27, 5, 2.0, (3,), 5.0, 1.8, 30, 1.0, 1.0),
}


def pathfinder_settings(
    resolution: int = 32,
    difficulty: Difficulty = "hard",
    *,
    reference_contrast: bool = False,
    reference_distractors: bool = False,
    **changes,
) -> PathfinderSettings:
    """The settings of the arena for 32, 64, 128 and 256 pixels; scaled from the nearest for others.

    Args:
        difficulty: `easy`, `intermediate` or `hard`: contours of 6, 9 or 14 dashes.
        reference_contrast: Contrasts as the published parameters read literally. At 32 pixels
            distractors are then brighter than targets, so that brightness tells them apart.
        reference_distractors: As many distractors at every difficulty as at the easy one, as the
            published script counts them.
        changes: Other fields of `PathfinderSettings`.

    >>> pathfinder_settings(32, "hard").contour_length, pathfinder_settings(128).margins
    (14, (2, 3))
    """
    if difficulty not in DIFFICULTIES:
        raise ValueError(
            f"difficulty={difficulty!r} was given: {', '.join(DIFFICULTIES)} are accepted."
        )
    if resolution < 32:
        raise ValueError(f"resolution={resolution} was given: at least 32 pixels are accepted.")
    nearest = min(_PRESETS, key=lambda known: abs(known - resolution))
    preset = _PRESETS[nearest]
    contour_length = DIFFICULTIES[difficulty]
    distractor_length = contour_length // 3
    counted = DIFFICULTIES["easy"] // 3 if reference_distractors else distractor_length
    scale = resolution / nearest
    settings = PathfinderSettings(
        resolution=resolution,
        contour_length=contour_length,
        distractor_length=distractor_length,
        num_distractors=preset.num_dashes // counted,
        padding=max(1, round(preset.padding * scale)),
        seed_distance=int(preset.seed_distance * scale),
        dash_length=max(2, round(preset.dash_length * scale)),
        dash_width=max(1, round(2 * preset.dash_width * scale)) / 2,
        margins=tuple(max(1, round(margin * scale)) for margin in preset.margins),
        marker_radius=preset.marker_radius * scale,
        continuity=preset.continuity,
    )
    if reference_contrast:
        settings = replace(
            settings,
            target_contrast=preset.snake_contrast * preset.paddle_contrast,
            distractor_contrast=preset.snake_contrast,
        )
    try:
        return replace(settings, **changes)
    except TypeError as error:
        names = ", ".join(PathfinderSettings.__dataclass_fields__)
        unknown = ", ".join(sorted(changes.keys() - PathfinderSettings.__dataclass_fields__.keys()))
        raise ValueError(f"{unknown} was given: {names} are accepted.") from error
