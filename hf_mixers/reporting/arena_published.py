"""Results that publications report for the Long Range Arena, in percent."""

from collections.abc import Mapping
from dataclasses import dataclass

# the columns of the published tables; the average is over the first five
COLUMNS = ("listops", "text", "retrieval", "image", "pathfinder", "pathx")


@dataclass(frozen=True)
class PublishedRow:
    """Accuracies of one model in one publication; None where it has none.

    Args:
        failed: Tasks that were tried and stayed at chance.
        average: As published, where that is not the mean of the scores.
    """

    model: str
    source: str
    scores: tuple[float | None, ...]
    failed: tuple[str, ...] = ()
    average: float | None = None

    def score(self, task: str) -> float | None:
        if task not in COLUMNS:
            return None
        place = COLUMNS.index(task)
        return self.scores[place] if place < len(self.scores) else None


# means of the scores are 51.48; the authors' page has 51.29
_AVERAGES = {("Long Range Arena", "Sinkhorn"): 51.39}


def _rows(
    source: str, table: Mapping[str, tuple[float | None, ...]], failed: tuple[str, ...] = ()
) -> list[PublishedRow]:
    return [
        PublishedRow(model, source, scores, failed, _AVERAGES.get((source, model)))
        for model, scores in table.items()
    ]


_ARENA = {
    "Transformer": (36.37, 64.27, 57.46, 42.44, 71.40),
    "Local attention": (15.82, 52.98, 53.39, 41.46, 66.63),
    "Sparse Transformer": (17.07, 63.58, 59.59, 44.24, 71.71),
    "Longformer": (35.63, 62.85, 56.89, 42.22, 69.71),
    "Linformer": (35.70, 53.94, 52.27, 38.56, 76.34),
    "Reformer": (37.27, 56.10, 53.40, 38.07, 68.50),
    "Sinkhorn": (33.67, 61.20, 53.83, 41.23, 67.45),
    "Synthesizer": (36.99, 61.68, 54.67, 41.61, 69.45),
    "BigBird": (36.05, 64.02, 59.29, 40.83, 74.87),
    "Linear Transformer": (16.13, 65.90, 53.09, 42.34, 75.30),
    "Performer": (18.01, 65.40, 53.82, 42.77, 77.05),
    "TLB (external)": (37.05, 81.88, 76.91, 57.51, 79.06),
}
# of which it is not said how it did on Path-X
_EXTERNAL = {"IGLOO (external)": (39.23, 82.0, 75.5, 47.0, 67.50)}
_CHORDMIXER = {
    "ChordMixer": (60.12, 88.82, 90.17, 89.98, 96.69, 98.63),
    "Nyströmformer": (37.15, 65.52, 79.56, 41.58, 70.94),
    "S4": (59.60, 86.82, 90.90, 88.65, 94.20, 96.35),
    "Mega": (63.14, 90.43, 91.25, 90.44, 96.01, 97.98),
}
_PARAMIXER = {
    "Paramixer (chord)": (39.57, 83.12, None, 45.01, 80.49),
    "Paramixer (cdil)": (37.78, 83.32, None, 46.58, 67.13),
}
_MRSFORMER = {
    "MrsLinformer": (36.93, 57.39, 78.38),
    "MrsLinear": (36.97, 66.57, 81.36),
    "MrsFMM": (37.77, 68.39, 81.65),
    "MrsPerformer": (37.12, 65.20, 78.93),
    "MrsLuna": (37.03, 64.51, 74.54),
}
# its Pathfinder is the intermediate one
_COMBINER = {
    "Combiner (fixed)": (36.65, 64.99, 59.81, 41.67, 88.59),
    "Combiner (axial)": (36.15, 64.36, 56.10, 41.33, 88.43),
    "Transformer (in Combiner's paper)": (36.38, 64.27, 57.46, 42.44, 88.81),
}

PUBLISHED: list[PublishedRow] = [
    *_rows("Long Range Arena", _ARENA, ("pathx",)),
    *_rows("Long Range Arena", _EXTERNAL),
    *_rows("ChordMixer", _CHORDMIXER),
    *_rows("Paramixer", _PARAMIXER),
    *_rows("MrsFormer", _MRSFORMER),
    *_rows("Combiner, Pathfinder intermediate", _COMBINER),
]

# steps per second and GB of memory at 1K, 2K, 3K and 4K bytes of text, batch 32, 4 x 4 TPUv3
SPEED: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "Transformer": ((8.1, 4.9, 2.3, 1.4), (0.85, 2.65, 5.51, 9.48)),
    "Local attention": ((9.2, 8.4, 7.4, 7.4), (0.42, 0.76, 1.06, 1.37)),
    "Linformer": ((9.3, 9.1, 8.5, 7.7), (0.37, 0.55, 0.99, 0.99)),
    "Reformer": ((4.4, 2.2, 1.5, 1.1), (0.48, 0.99, 1.53, 2.28)),
    "Sinkhorn": ((9.1, 7.9, 6.6, 5.3), (0.47, 0.83, 1.13, 1.48)),
    "Synthesizer": ((8.7, 5.7, 6.6, 1.9), (0.65, 1.98, 4.09, 6.99)),
    "BigBird": ((7.4, 3.9, 2.7, 1.5), (0.77, 1.49, 2.18, 2.88)),
    "Linear Transformer": ((9.1, 9.3, 8.6, 7.8), (0.37, 0.57, 0.80, 1.03)),
    "Performer": ((9.5, 9.4, 8.7, 8.0), (0.37, 0.59, 0.82, 1.06)),
}
