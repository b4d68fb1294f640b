"""Batches of a task: flat, padded to the longest, or padded to one length."""

from typing import Any, Literal

import torch
from torch import Tensor

from ..data.collators import FlatCollator, PaddedCollator, SequenceCollator

Padding = Literal["none", "batch", "max"]
PADDINGS = ("none", "batch", "max")


class TaskCollator(SequenceCollator):
    """Examples -> batches.

    Args:
        padding: `none` lays sequences end to end, `batch` pads to the longest of a batch, `max` to
            `length`; padding is masked.
        pad_token_id: Id of padding.
        length: Width of a batch for `max`.
        zero_is_padding: Mask every id 0 wherever it stands, as the published code does. A sequence
            of nothing else keeps its first.
        reads_padding: Mask nothing, so that padding is read like other tokens; for models that
            lay all tokens side by side.

    >>> collator = TaskCollator("max", length=4)
    >>> collator([{"input_ids": [5, 6], "labels": 1}])["attention_mask"].tolist()
    [[1, 1, 0, 0]]
    """

    def __init__(
        self,
        padding: Padding = "none",
        pad_token_id: int = 0,
        length: int | None = None,
        zero_is_padding: bool = False,
        reads_padding: bool = False,
    ):
        super().__init__()
        check_padding(padding)
        if padding == "max" and length is None:
            raise ValueError("padding='max' was given without a length.")
        if padding == "none" and zero_is_padding:
            raise ValueError("zero_is_padding was given with padding='none': batch and max mask.")
        self.length = length if padding == "max" else None
        self.zero_is_padding, self.reads_padding = zero_is_padding, reads_padding
        self.inner: Any = FlatCollator() if padding == "none" else PaddedCollator(pad_token_id)

    def lay_out(self, name: str, values: list[Tensor], suffix: str) -> dict[str, Any]:
        batch = self.inner.lay_out(name, values, suffix)
        if self.length is not None:
            batch = self._widen(batch, name)
        if self.reads_padding and f"attention_mask{suffix}" in batch:
            batch[f"attention_mask{suffix}"].fill_(1)
        if self.zero_is_padding and name == "input_ids":
            batch[f"attention_mask{suffix}"] = _mask_zeros(batch[f"input_ids{suffix}"])
        return batch

    def _widen(self, batch: dict[str, Tensor], name: str) -> dict[str, Tensor]:
        wide = {}
        for key, rows in batch.items():
            missing = self.length - rows.shape[1]
            if missing < 0:
                raise ValueError(
                    f"A sequence has {rows.shape[1]} tokens: padding='max' is for {self.length}."
                )
            value = self.inner.pad_token_id if key.startswith("input_ids") else 0
            wide[key] = torch.cat(
                [rows, rows.new_full((len(rows), missing, *rows.shape[2:]), value)], 1
            )
        return wide


def check_padding(padding: str) -> None:
    if padding not in PADDINGS:
        raise ValueError(f"padding={padding!r} was given: {', '.join(PADDINGS)} are accepted.")


def _mask_zeros(ids: Tensor) -> Tensor:
    mask = (ids > 0).long()
    mask[mask.sum(1) == 0, 0] = 1
    return mask
