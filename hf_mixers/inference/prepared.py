"""Rows of tables, series and images for models that were saved with their preparation.

Examples of this project write `preparation.json` next to a model: what brought the rows of the
training part to the form that the model reads. New files get the same treatment here.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError
from torch import Tensor
from transformers import AutoModelForImageClassification, PreTrainedModel

from ..data import FlatCollator, PaddedCollator
from ..data.other import PixelScaler, SeriesScaler, TableEncoder
from ..data.other.unlabelled import (
    IMAGE_ENDINGS,
    SERIES_ENDINGS,
    TABLE_ENDINGS,
    list_files,
    read_image_file,
    read_series_file,
    read_table_frame,
)
from .engine import Part
from .loading import PICTURE_CLASSIFIER, load_classifier, load_model

FILE = "preparation.json"
# a name of each class that no other has
_SIGNS = {"quantiles": TableEncoder, "read_as": PixelScaler, "std": SeriesScaler}
_ENDINGS = {
    TableEncoder: TABLE_ENDINGS,
    PixelScaler: IMAGE_ENDINGS,
    SeriesScaler: SERIES_ENDINGS,
}
# rows of a part
_ROWS = 1024

Preparation = TableEncoder | PixelScaler | SeriesScaler


class Row(NamedTuple):
    """A row as the model reads it, or a note why it does not."""

    number: int
    id: str
    inputs: dict[str, Any] | None
    length: int
    note: str = ""


class RowItem(NamedTuple):
    """A row of a part, with the names that results are made from."""

    record: Row

    @property
    def length(self) -> int:
        return self.record.length

    @property
    def tokens(self) -> int:
        return 0 if self.record.inputs is None else self.record.length

    @property
    def note(self) -> str:
        return self.record.note


def load_preparation(checkpoint: str) -> Preparation | None:
    """What prepares rows for a model; None for models of letters.

    >>> load_preparation("/no/folder") is None
    True
    """
    found = Path(checkpoint) / FILE
    if not Path(checkpoint).is_dir():
        try:
            found = Path(hf_hub_download(checkpoint, FILE))
        except (HfHubHTTPError, OSError, ValueError):
            # a repository without such a file, or none at all: loading the model will tell
            return None
    if not found.is_file():
        return None
    content = json.loads(found.read_text(encoding="utf-8"))
    for name, kind in _SIGNS.items():
        if name in content:
            return kind(**content)
    raise ValueError(f"{found} is not the preparation of a table, of series or of images.")


def make_row_engine(
    checkpoint: str, preparation: Preparation, options: dict[str, Any], **settings: Any
) -> "RowEngine":
    """An engine for rows, with the model of a checkpoint on a device."""
    is_picture = isinstance(preparation, PixelScaler) and preparation.read_as == "picture"
    if is_picture:
        model = load_model(
            checkpoint, AutoModelForImageClassification, "classify", PICTURE_CLASSIFIER, **options
        )
    else:
        model = load_classifier(checkpoint, **options)
    return RowEngine(model, preparation, device=model.device, **settings)


@dataclass
class RowEngine:
    """A model with what prepares its rows; takes the place of `Engine` in `run_to_file`.

    Args:
        token_budget: Most tokens in a batch: columns, steps or patches.
        strict: A row that cannot be read is an error instead of a note.
    """

    model: PreTrainedModel
    preparation: Preparation
    token_budget: int = 65536
    strict: bool = False
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    both_strands: bool = False
    look_ahead: int = _ROWS

    def __post_init__(self):
        if self.token_budget < 1:
            raise ValueError(f"token_budget={self.token_budget} was given: at least 1 is accepted.")
        if self.both_strands:
            raise ValueError("Both strands require sequences of DNA, got a model of other rows.")
        config = self.model.config
        is_flat = getattr(config, "pooling", None) == "flat"
        self.fixed_length = config.max_position_embeddings if is_flat else None
        self.limit = getattr(config, "length_limit", None)
        self.is_sequence = isinstance(self.preparation, SeriesScaler) or (
            isinstance(self.preparation, PixelScaler) and self.preparation.read_as != "picture"
        )
        self.collate = FlatCollator() if self.is_sequence else PaddedCollator()

    def watch_frame(self, part: Any) -> None:
        """Nothing: rows have no reading frame."""

    def find_files(self, sources: Sequence[str]) -> list[str]:
        """The files that sources stand for, of the kind that the model was trained on."""
        return list_files(list(sources), _ENDINGS[type(self.preparation)])

    def estimate_tokens(self, sources: Sequence[str]) -> None:
        """Not known before the files are read."""

    def read(
        self, sources: Sequence[str], *, shard: tuple[int, int] = (0, 1), **_: Any
    ) -> Iterator[Row]:
        """Prepared rows of files; every n-th from the i-th on."""
        rows = (row for file in self.find_files(sources) for row in self._read_file(file))
        for number, row in enumerate(rows):
            if number % shard[1] == shard[0]:
                yield self._check(row._replace(number=number))

    def _read_file(self, file: str) -> Iterator[Row]:
        if isinstance(self.preparation, TableEncoder):
            yield from self._read_table(file, self.preparation)
        elif isinstance(self.preparation, SeriesScaler):
            for number, values in enumerate(read_series_file(file), 1):
                yield self._prepare_series(f"{Path(file).name}:{number}", values)
        else:
            yield from self._read_images(file, self.preparation)

    def _read_table(self, file: str, encoder: TableEncoder) -> Iterator[Row]:
        frame = read_table_frame(file)
        features = [*encoder.quantiles, *encoder.categories]
        has_ids = "id" in frame and "id" not in features
        ids = frame["id"] if has_ids else range(1, len(frame) + 1)
        if absent := [name for name in features if name not in frame]:
            raise ValueError(f"{file} has no column {absent[0]!r}: it has {', '.join(frame)}.")
        rows = Dataset.from_pandas(frame[features], preserve_index=False)
        for name, inputs in zip(ids, encoder.encode(rows), strict=True):
            yield Row(0, str(name), inputs, len(features))

    def _prepare_series(self, name: str, values: np.ndarray) -> Row:
        channels = len(self.preparation.mean)  # type: ignore[union-attr]
        if values.ndim != 2 or values.shape[1] != channels or len(values) == 0:
            return Row(0, name, None, len(values), f"not a series of {channels} channels")
        if np.isinf(values).any():
            return Row(0, name, None, len(values), "infinite value")
        scaled = self.preparation.scale(values)  # type: ignore[union-attr]
        return Row(0, name, {"input_values": scaled}, len(scaled))

    def _read_images(self, file: str, scaler: PixelScaler) -> Iterator[Row]:
        size = self.model.config.image_size if scaler.read_as == "picture" else None
        key = {"picture": "pixel_values", "values": "input_values", "ids": "input_ids"}
        try:
            for name, image in read_image_file(file, size, len(scaler.mean)):
                length = image.shape[1] * image.shape[2]
                yield Row(0, name, {key[scaler.read_as]: scaler.scale(image)}, length)
        except ValueError as error:
            # an array has many images, which one note would hide
            if file.lower().endswith(".npz"):
                raise
            # without the name of the file, so that equal notes are counted together
            note = str(error).removeprefix(f"{file} ").split(":")[0]
            yield Row(0, file, None, 0, note)

    def _check(self, row: Row) -> Row:
        """The row with the length that the model reads, or with a note."""
        if row.inputs is not None and self.is_sequence:
            (name, values) = next(iter(row.inputs.items()))
            if self.fixed_length is not None and len(values) != self.fixed_length:
                note = "cut" if len(values) > self.fixed_length else "padded"
                ends = [(0, max(0, self.fixed_length - len(values))), *[(0, 0)] * (values.ndim - 1)]
                fitted = np.pad(values[: self.fixed_length], ends)
                row = row._replace(inputs={name: fitted}, note=note)
            elif self.limit is not None and len(values) > self.limit:
                row = row._replace(inputs=None, note=f"longer than {self.limit} tokens")
        if row.inputs is None and self.strict:
            raise ValueError(f"Row {row.id!r} cannot be read: {row.note}.")
        return row

    def read_parts(
        self, records: Iterable[Row], wanted: Callable[[int], bool] = lambda number: True
    ) -> Iterator[Part]:
        """Parts of up to `look_ahead` rows, in their order."""
        stream, number = iter(records), 0
        while group := list(islice(stream, self.look_ahead)):
            if wanted(number):
                items: Any = [RowItem(row) for row in group]
                yield Part(number, items)
            number += 1

    def restore(self, outputs: np.ndarray) -> np.ndarray:
        """Outputs of a regression in the units of its target."""
        if isinstance(self.preparation, TableEncoder) and self.preparation.target_mean is not None:
            return self.preparation.unscale_target(outputs)
        return outputs

    def compute(
        self, part: Part, forward: Callable[[dict[str, Tensor], list[int]], list[Any]]
    ) -> list[Any]:
        """Results of a part, None for rows that cannot be read."""
        rows: list[Row] = [item.record for item in part.items]  # type: ignore[misc]
        results: list[Any] = [None] * len(rows)
        for batch in self._make_batches(rows):
            inputs = self.collate([rows[place].inputs for place in batch])
            tensors = {
                name: value.to(self.device) if isinstance(value, Tensor) else value
                for name, value in inputs.items()
            }
            found = forward(tensors, [rows[place].length for place in batch])
            for place, result in zip(batch, found, strict=True):
                results[place] = result
        return results

    def _make_batches(self, rows: Sequence[Row]) -> Iterator[list[int]]:
        batch: list[int] = []
        tokens = 0
        for place, row in enumerate(rows):
            if row.inputs is None:
                continue
            if batch and tokens + row.length > self.token_budget:
                yield batch
                batch, tokens = [], 0
            batch.append(place)
            tokens += row.length
        if batch:
            yield batch
