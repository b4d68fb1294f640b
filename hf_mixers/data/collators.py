"""Examples -> batches: padded or flat, with masking for masked language modelling on both."""

import copy
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

# what is as long as a sequence; the second sequence of a pair has the suffix _2
_CONTENTS = ("input_ids", "input_values", "inputs_embeds")

Example = dict[str, Any]
Collator = Callable[[Sequence[Example]], dict[str, Any]]


class SequenceCollator:
    """Base of the collators: splits examples into sequences and all the rest, which is stacked.

    Args:
        token_labels: `labels` are one per token, laid out like the sequence, instead of one per
            example.
    """

    def __init__(self, token_labels: bool = False):
        self.token_labels = token_labels

    def __call__(self, examples: Sequence[Example]) -> dict[str, Any]:
        if not examples:
            raise ValueError("A batch needs at least one example, got none.")
        names = list(examples[0])
        _check_names(names, examples)
        batch: dict[str, Any] = {}
        # first, because transformers reads the number of examples from the first tensor
        if "labels" in names and not self.token_labels:
            batch["labels"] = _stack("labels", [example["labels"] for example in examples])
        for suffix in ("", "_2"):
            present = [name for name in _CONTENTS if f"{name}{suffix}" in names]
            for name in present:
                values = [_tensor(example[f"{name}{suffix}"]) for example in examples]
                batch |= self.lay_out(name, values, suffix)
        if "labels" in names and self.token_labels:
            values = [_tensor(example["labels"]) for example in examples]
            _check_token_labels(values, examples)
            batch["labels"] = self.lay_out("labels", values, "")["labels"]
        used = {f"{name}{suffix}" for name in _CONTENTS for suffix in ("", "_2")}
        dropped = {"labels", "attention_mask", "attention_mask_2", "length", "id"}
        for name in names:
            if name not in used | dropped:
                batch[name] = _stack(name, [example[name] for example in examples])
        return batch

    def lay_out(self, name: str, values: list[Tensor], suffix: str) -> dict[str, Any]:
        """The sequences of one argument as a batch, with what says where they lie."""
        raise NotImplementedError


class PaddedCollator(SequenceCollator):
    """Batches padded to the longest sequence, with `attention_mask`.

    Args:
        pad_token_id: What stands in the padding of `input_ids`.
        padding_side: `"right"` or `"left"`.
        token_labels: See `SequenceCollator`.

    >>> batch = PaddedCollator()([{"input_ids": [5, 6, 7], "labels": 1}, {"input_ids": [8]}])
    Traceback (most recent call last):
    ...
    ValueError: Every example needs labels, example 1 has none.
    >>> PaddedCollator()([{"input_ids": [5, 6]}, {"input_ids": [8]}])["input_ids"].tolist()
    [[5, 6], [8, 0]]
    """

    def __init__(
        self, pad_token_id: int = 0, padding_side: str = "right", token_labels: bool = False
    ):
        super().__init__(token_labels)
        if padding_side not in ("left", "right"):
            raise ValueError(f"padding_side must be 'left' or 'right', got {padding_side!r}.")
        self.pad_token_id, self.padding_side = pad_token_id, padding_side

    def lay_out(self, name: str, values: list[Tensor], suffix: str) -> dict[str, Any]:
        padding = {"input_ids": self.pad_token_id, "labels": -100}.get(name, 0)
        padded = torch.nn.utils.rnn.pad_sequence(
            values, batch_first=True, padding_value=padding, padding_side=self.padding_side
        )
        if name == "labels":
            return {"labels": padded}
        ones = [torch.ones(len(value), dtype=torch.long) for value in values]
        mask = torch.nn.utils.rnn.pad_sequence(
            ones, batch_first=True, padding_side=self.padding_side
        )
        return {f"{name}{suffix}": padded, f"attention_mask{suffix}": mask}


class FlatCollator(SequenceCollator):
    """Batches laid end to end, `(1, T)`, with the boundaries `cu_seq_lens_q`: no padding at all.

    >>> batch = FlatCollator()([{"input_ids": [5, 6]}, {"input_ids": [8]}])
    >>> batch["input_ids"].tolist(), batch["cu_seq_lens_q"].tolist(), batch["max_length_q"]
    ([[5, 6, 8]], [0, 2, 3], 2)
    """

    def lay_out(self, name: str, values: list[Tensor], suffix: str) -> dict[str, Any]:
        flat = torch.cat(values)[None]
        if name == "labels":
            return {"labels": flat}
        lengths = torch.tensor([0, *map(len, values)], dtype=torch.int32)
        return {
            f"{name}{suffix}": flat,
            f"cu_seq_lens_q{suffix}": lengths.cumsum(0, dtype=torch.int32),
            f"max_length_q{suffix}": int(lengths.max()),
        }


class MaskedLMCollator:
    """Another collator's batches with tokens hidden and `labels` to guess them.

    Of the tokens that may be hidden, each is chosen with `mask_probability`; of the chosen, 80%
    become the mask token, 10% a random one and 10% stay. Special tokens are never chosen. The
    choice depends on `seed`, epoch and content alone: the same batch is masked alike in any
    process, any worker and after resuming, and anew in each epoch of training; evaluations all have
    the same masks, so that they can be compared.

    Args:
        collator: A `PaddedCollator` or `FlatCollator`.
        tokenizer: Names the mask token and the special tokens.
        mask_probability: 0.3 as in the ChordMixer paper; or bounds, between which every sequence
            draws its own.
        mask_span: Tokens are hidden in runs of this length, which may touch; or bounds, between
            which every sequence draws its own. Fewer are hidden at the beginning of a sequence,
            which fewer runs reach. Evaluations hide single tokens, so that their losses can be
            compared.
        mask_frame: Runs begin at multiples of this place in a sequence, as codons do at 3, `[CLS]`
            not counted; lengths of runs are multiples of it.
        maskable_ids: Tokens that are chosen and that replace others; by default A, C, G and T of a
            DNA tokenizer, else all that are not special.
    """

    def __init__(
        self,
        collator: SequenceCollator,
        tokenizer: PreTrainedTokenizerBase,
        mask_probability: float | tuple[float, float] = 0.3,
        maskable_ids: Sequence[int] | None = None,
        seed: int = 0,
        mask_span: int | tuple[int, int] = 1,
        mask_frame: int = 1,
    ):
        low, high = _bounds(mask_probability)
        if not 0 < low <= high <= 1:
            raise ValueError(f"mask_probability must lie in (0, 1], got {mask_probability}.")
        if tokenizer.mask_token_id is None:
            raise ValueError(f"{type(tokenizer).__name__} has no mask token to hide tokens with.")
        self.collator, self.seed = collator, seed
        self.mask_probability = (low, high)
        shortest, longest = _bounds(mask_span)
        in_frame = mask_frame > 0 and not (shortest % mask_frame or longest % mask_frame)
        if not 1 <= shortest <= longest or not in_frame:
            raise ValueError(
                "mask_span must be a length or the shortest and the longest, multiples of"
                f" mask_frame={mask_frame}, got {mask_span}."
            )
        self.mask_span, self.mask_frame = (shortest, longest), mask_frame
        self.mask_token_id = tokenizer.mask_token_id
        self.cls_token_id = -1 if tokenizer.cls_token_id is None else tokenizer.cls_token_id
        if maskable_ids is None:
            maskable_ids = default_maskable_ids(tokenizer)
        self.maskable_ids = torch.tensor(sorted(maskable_ids))
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def for_evaluation(self) -> "MaskedLMCollator":
        """The collator that masks single tokens, alike whatever the epoch."""
        fixed = copy.copy(self)
        fixed.epoch, fixed.mask_span, fixed.mask_frame = 0, (1, 1), 1
        return fixed

    def __call__(self, examples: Sequence[Example]) -> dict[str, Any]:
        contents = [{"input_ids": example["input_ids"]} for example in examples]
        batch = self.collator(contents)
        ids = batch["input_ids"]
        chance = generator_for(self.seed, self.epoch, ids.numpy())
        generator = torch.Generator().manual_seed(int(chance.integers(2**62)))

        allowed = torch.isin(ids, self.maskable_ids)
        if "attention_mask" in batch:
            allowed &= batch["attention_mask"] == 1
        chosen = allowed & self._choose(batch, generator)
        fate = torch.rand(ids.shape, generator=generator)
        picks = torch.randint(len(self.maskable_ids), ids.shape, generator=generator)
        hidden = torch.where(fate < 0.8, self.mask_token_id, self.maskable_ids[picks])
        hidden = torch.where(fate < 0.9, hidden, ids)
        labels = torch.where(chosen, ids, -100)
        return {**batch, "input_ids": torch.where(chosen, hidden, ids), "labels": labels}

    def _choose(self, batch: dict[str, Any], generator: torch.Generator) -> Tensor:
        """Which tokens are hidden, where they may be."""
        shape = batch["input_ids"].shape
        low, high = self.mask_probability
        share = low if low == high else low + (high - low) * _draw(torch.rand, batch, generator)
        shortest, longest = self.mask_span
        if longest == 1:
            return torch.rand(shape, generator=generator) < share
        span, frame = shortest, self.mask_frame
        if longest > shortest:
            count = (longest - shortest) // frame + 1
            span = shortest + frame * _draw(partial(torch.randint, count), batch, generator)
        place, within = torch.arange(shape[1]).expand(shape), self._find_places(batch)
        # a token is hidden unless none of the runs that would reach it begins
        chance = 1 - (1 - torch.as_tensor(share)) ** (frame / torch.as_tensor(span))
        begins = (torch.rand(shape, generator=generator) < chance) & (within >= 0)
        begins &= within % frame == 0
        last = torch.where(begins, place, -longest).cummax(1).values
        return (place - last < span) & (last >= place - within)

    def _find_places(self, batch: dict[str, Any]) -> Tensor:
        """Places of tokens in their sequences, -1 for `[CLS]` and what is padded on the left."""
        ids = batch["input_ids"]
        if "cu_seq_lens_q" not in batch:
            mask = batch["attention_mask"] == 1
            places = mask.cumsum(1) - 1
            has_cls = ((ids == self.cls_token_id) & mask & (places == 0)).any(1, keepdim=True)
            return places - has_cls.long()
        ends = batch["cu_seq_lens_q"].long()
        firsts = ends[:-1].clamp(max=max(0, ids.shape[1] - 1))
        firsts = ends[:-1] + (ids[0, firsts] == self.cls_token_id)
        return (torch.arange(int(ends[-1])) - firsts.repeat_interleave(ends.diff()))[None]


def _bounds(value: Any) -> tuple[Any, Any]:
    """Two numbers as they are, one as both."""
    if isinstance(value, (int, float)):
        return value, value
    if len(value) != 2:
        raise ValueError(f"One number or two are accepted as bounds, got {value}.")
    return value[0], value[1]


def _draw(
    random: Callable[..., Tensor], batch: dict[str, Any], generator: torch.Generator
) -> Tensor:
    """A random number of each token's sequence."""
    if "cu_seq_lens_q" not in batch:
        return random((len(batch["input_ids"]), 1), generator=generator)
    lengths = batch["cu_seq_lens_q"].diff()
    return random((len(lengths),), generator=generator).repeat_interleave(lengths)[None]


class CausalLMCollator:
    """Another collator's batches with `labels` to predict the next token.

    Labels are the ids, as heads shift them; there is none for padding and for the first token of a
    sequence, which nothing predicts, so that labels count what is predicted.

    Args:
        collator: A `PaddedCollator` or `FlatCollator`.

    >>> batch = CausalLMCollator(FlatCollator())([{"input_ids": [5, 6]}, {"input_ids": [7, 8]}])
    >>> batch["labels"].tolist()
    [[-100, 6, -100, 8]]
    """

    def __init__(self, collator: SequenceCollator):
        self.collator = collator

    def __call__(self, examples: Sequence[Example]) -> dict[str, Any]:
        batch = self.collator([{"input_ids": example["input_ids"]} for example in examples])
        labels = batch["input_ids"].clone()
        if "cu_seq_lens_q" in batch:
            labels[0, batch["cu_seq_lens_q"][:-1].long()] = -100
        else:
            mask = batch["attention_mask"] == 1
            # the first token of a row, on whichever side its padding is
            labels[~mask | (mask.cumsum(1) == 1)] = -100
        return {**batch, "labels": labels}


def generator_for(seed: int, epoch: int, content: np.ndarray) -> np.random.Generator:
    """Random numbers that depend on seed, epoch and content alone."""
    return np.random.default_rng((seed, epoch, zlib.crc32(np.ascontiguousarray(content).data)))


def default_maskable_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """A, C, G and T where the vocabulary has them as DNA's does, else all but special tokens."""
    vocabulary = tokenizer.get_vocab()
    bases = [vocabulary[base] for base in "ACGT" if base in vocabulary]
    if len(bases) == 4 and len(vocabulary) < 32:
        return bases
    return sorted(set(vocabulary.values()) - set(tokenizer.all_special_ids))


def _check_names(names: list[str], examples: Sequence[Example]) -> None:
    for number, example in enumerate(examples):
        if missing := sorted(set(names) - set(example)):
            raise ValueError(f"Every example needs {missing[0]}, example {number} has none.")


def _tensor(value: Any) -> Tensor:
    """Whole numbers as int64 and others as float32, in memory of its own."""
    array = np.asarray(value)
    kind = np.float32 if array.dtype.kind == "f" else np.int64
    return torch.as_tensor(array.astype(kind))


def _stack(name: str, values: list[Any]) -> Tensor:
    tensors = [_tensor(value) for value in values]
    shapes = {tuple(tensor.shape): None for tensor in tensors}
    if len(shapes) > 1:
        first, second, *_ = shapes
        hint = ": token_labels=True is for one per token." if name == "labels" else "."
        raise ValueError(f"{name} of a batch must have one shape, got {first} and {second}{hint}")
    return torch.stack(tensors)


def _check_token_labels(values: list[Tensor], examples: Sequence[Example]) -> None:
    for number, (labels, example) in enumerate(zip(values, examples, strict=True)):
        content = next(example[name] for name in _CONTENTS if name in example)
        if len(labels) != len(content):
            raise ValueError(
                f"Example {number} has {len(labels)} labels for {len(content)} tokens: with "
                "token_labels=True there must be one per token."
            )
