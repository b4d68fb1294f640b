"""Time series of the UEA and UCR archives."""

import os

import numpy as np
from datasets import Dataset

from ..batches import Padding
from ..rows import TaskRows
from ..sources import complete_parts, find_path
from ..task import Task, TaskKind

_WHERE = (
    "UEA sets are <name>_TRAIN.ts and <name>_TEST.ts of"
    " https://www.timeseriesclassification.com/aeon-toolkit/Archives/Multivariate2018_ts.zip."
)


class SeriesRows(TaskRows):
    """Series `(L, F)` with classes."""

    def __init__(self, rows: Dataset):
        super().__init__(len(rows))
        self.table = rows

    def read(self, row: int) -> dict:
        stored = self.table[row]
        values = np.asarray(stored["input_values"], dtype=np.float32)
        return {"input_values": values, "labels": int(stored["labels"])}

    def find_labels(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.table["labels"][:])[rows]

    def find_lengths(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.table["length"][:])[rows]


def load(
    path: str | os.PathLike,
    *,
    set_name: str | None = None,
    validation_fraction: float = 0.2,
    data_seed: int = 0,
    padding: Padding = "none",
    reference_validation: bool = False,
) -> Task:
    """Series with every channel at mean 0 and deviation 1 of the training part.

    Args:
        path: A folder with the two `.ts` files, or what else `load_time_series` of
            `hf_mixers.data.other` reads.
        set_name: Which set, where there are several.
        validation_fraction, data_seed, padding, reference_validation: As for IMDb.
    """
    from ...data.other import SeriesScaler, load_time_series

    folder = find_path(path, _WHERE)
    try:
        found = load_time_series(folder, set_name)
    except ValueError as error:
        raise ValueError(f"{error} {_WHERE}") from error
    names = found["train"].features["label"].names
    found, notes = complete_parts(
        found,
        "label",
        reference_validation=reference_validation,
        fraction=validation_fraction,
        seed=data_seed,
    )
    scaled = SeriesScaler.fit(found["train"]).apply(found)
    parts = {part: SeriesRows(rows) for part, rows in scaled.items()}
    return Task(
        "uea",
        parts,
        inputs="values",
        input_features=parts["train"][0]["input_values"].shape[1],
        max_length=max(int(part.lengths.max()) for part in parts.values()),
        class_names=tuple(names),
        padding=padding,
        notes=notes,
    )


TASK = TaskKind("uea", "classes of time series, UEA and UCR archives", _WHERE, load=load)
