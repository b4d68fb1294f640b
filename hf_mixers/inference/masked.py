"""Probabilities of the bases at masked places of sequences."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..models.dna import reverse_complement_scores
from .engine import Engine, Item, Part
from .records import Record

BASES = "ACGT"
# how a masked base is written, besides the token of the tokenizer
MASK = "[MASK]"


class MaskedBase(NamedTuple):
    """A masked place of a sequence, counted from 1, and the probabilities of its bases."""

    id: str
    position: int
    scores: dict[str, float]


def predict_masked(engine: Engine, records: Sequence[tuple[str, str]]) -> list[MaskedBase]:
    """The bases at every `[MASK]` of some sequences, which are packed together.

    Args:
        engine: A masked language model with a DNA tokenizer.
        records: Ids and sequences with `[MASK]` in place of some bases.
    """
    tokenizer = engine.tokenizer
    if tokenizer.mask_token is None or not engine.is_dna:
        name = type(tokenizer).__name__
        raise ValueError(f"Masked bases require a tokenizer of DNA with a mask, got {name}.")
    letters: list[int] = tokenizer.convert_tokens_to_ids(list(BASES))  # type: ignore[assignment]
    items = [_encode(engine, name, text) for name, text in records]

    def forward(inputs: dict[str, Tensor], lengths: list[int]) -> list[np.ndarray]:
        with torch.inference_mode():
            scores = engine.model(**inputs).logits.float()[..., letters].softmax(-1)
        rows = scores[0].split(lengths) if len(scores) == 1 else list(scores)
        return [row[:length].cpu().numpy() for row, length in zip(rows, lengths, strict=True)]

    found: list[MaskedBase] = []
    shift = int(bool(getattr(tokenizer, "add_cls", False)))
    computed = engine.compute(Part(0, items), forward, reverse_complement_scores)
    for item, scores in zip(items, computed, strict=True):
        for place in np.flatnonzero(item.ids == tokenizer.mask_token_id):
            values = dict(zip(BASES, map(float, scores[place]), strict=True))
            found.append(MaskedBase(item.record.id, int(place) + 1 - shift, values))
    return found


def _encode(engine: Engine, name: str, text: str) -> Item:
    """A sequence as ids; one without a mask or with other letters is refused."""
    mask = str(engine.tokenizer.mask_token)
    if mask not in text:
        raise ValueError(f"Sequence {name!r} has no {mask}: it stands for a base to predict.")
    (plain,) = engine.encode([Record(0, name, text.replace(mask, "N"))])
    if plain.ids is None:
        raise ValueError(f"Sequence {name!r} cannot be read: {plain.note}.")
    ids = np.asarray(engine.tokenizer(text)["input_ids"], dtype=np.int64)
    return Item(plain.record, ids, "")
