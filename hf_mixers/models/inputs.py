"""What callers hand to a model, checked once at the border: errors are one sentence."""

import difflib
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.utils import TransformersKwargs

from .border import Border
from .configuration_mixer import MixerConfig
from .packing import Boundaries, use_static_layout


class SequenceBatch(NamedTuple):
    """The inputs of one batch of sequences, named as in every forward of the package."""

    input_ids: Tensor | None = None  # (B, L) token ids
    input_values: Tensor | None = None  # (B, L, F) continuous features
    inputs_embeds: Tensor | None = None  # (B, L, D) embeddings of the caller
    attention_mask: Tensor | None = None  # (B, L), 1 where there is a token
    cu_seq_lens_q: Tensor | None = (
        None  # (number of sequences + 1,) boundaries in a flat (1, T) batch
    )
    max_length_q: int | None = None  # length of the longest sequence of a flat batch
    token_type_ids: Tensor | None = None  # (B, L), for families that read them

    def given(self, suffix: str = "") -> tuple[str, Tensor]:
        """Name and value of the one content argument that was given."""
        contents = {f"{name}{suffix}": getattr(self, name) for name in self._fields[:3]}
        given = [name for name, value in contents.items() if value is not None]
        if len(given) != 1:
            raise ValueError(
                f"Exactly one of {', '.join(contents)} is needed, got "
                f"{' and '.join(given) or 'none of them'}."
            )
        return given[0], contents[given[0]]


def check_batches(
    batches: Sequence[SequenceBatch], config: MixerConfig, border: Border | None = None
) -> list[Boundaries]:
    """Check one batch, or the two of a pair model, whose arguments end in `_2` for the second.

    All that is asked at the `border` is answered here.
    """
    border = Border(config.check_inputs) if border is None else border
    # filled when the questions are answered
    sizes: list[list[int]] = [[] for _ in batches]
    found = [
        check_batch(batch, config, border, into, suffix)
        for batch, into, suffix in zip(batches, sizes, ("", "_2"), strict=False)
    ]
    border.settle()
    if not use_static_layout():
        found = [
            replace(part, sizes=tuple(into)) if into else part
            for part, into in zip(found, sizes, strict=True)
        ]
    return found if len(found) == 1 else check_pair(batches, found)


def check_pair(batches: Sequence[SequenceBatch], boundaries: list[Boundaries]) -> list[Boundaries]:
    """Refuse two batches that do not go together."""
    first, second = boundaries
    names = batches[0].given()[0], batches[1].given("_2")[0]
    if f"{names[0]}_2" != names[1]:
        raise ValueError(
            f"Both sequences of a pair must be given in the same way, got {' and '.join(names)}."
        )
    if count_sequences(first) != count_sequences(second):
        raise ValueError(
            f"A pair needs as many first as second sequences, got {count_sequences(first)} "
            f"and {count_sequences(second)}."
        )
    return [first, second]


def count_sequences(batch: Boundaries) -> int:
    return batch.shape[0] if batch.cu_seq_lens is None else batch.cu_seq_lens.shape[0] - 1


def check_batch(
    batch: SequenceBatch, config: MixerConfig, border: Border, sizes: list[int], suffix: str = ""
) -> Boundaries:
    """How a batch divides into sequences, or a `ValueError` if the model cannot read it.

    What needs a look at the values (lengths, ids) is asked at the `border`; the lengths go into
    `sizes`. It is skipped while compiling and exporting.
    """
    name, content = batch.given(suffix)
    for part in (name, f"attention_mask{suffix}", f"cu_seq_lens_q{suffix}"):
        check_tensor(part, getattr(batch, part.removesuffix("_2")))
    _check_content(name.removesuffix("_2"), name, content, config, border)
    shape = (content.shape[0], content.shape[1])
    mask, boundaries = batch.attention_mask, batch.cu_seq_lens_q
    if mask is not None and boundaries is not None:
        raise ValueError(
            f"attention_mask{suffix} and cu_seq_lens_q{suffix} say the same thing twice: pass the "
            "mask with padded input or the boundaries with flat input, not both."
        )
    if boundaries is not None:
        _check_boundaries(boundaries, batch.max_length_q, shape, suffix, border, sizes)
        boundaries = boundaries.to(content.device, non_blocking=True).long()
        return Boundaries(shape, content.device, cu_seq_lens=boundaries, longest=batch.max_length_q)
    if batch.max_length_q is not None:
        raise ValueError(
            f"max_length_q{suffix} describes flat input: pass it together with "
            f"cu_seq_lens_q{suffix}."
        )
    if not use_static_layout() and 0 in shape:
        raise ValueError(
            f"{name} has shape {tuple(content.shape)}: every sequence needs at least one token."
        )
    if mask is not None:
        mask = _check_mask(mask.to(content.device), shape, suffix, border, sizes)
    elif not use_static_layout():
        sizes += [shape[1]] * shape[0]
    return Boundaries(shape, content.device, mask=mask)


# what transformers hands to any model and mixers have no use for
_UNUSED = {*TransformersKwargs.__annotations__, "return_loss", "token_type_ids", "use_cache"}
# what hints at boundaries inside a row without naming them
_HINTS = ("cu_seq_lens_k", "max_length_k", "position_ids", "seq_idx")


def check_extras(
    extras: dict, batches: Sequence[SequenceBatch], own_arguments: Sequence[str] = ()
) -> None:
    """Refuse arguments that a model does not have, and hints at boundaries where there are none.

    Args:
        extras: What was given besides the arguments of every model and the `own_arguments` of the
            family, which are named to callers who misspell them.
    """
    for name in extras:
        plain = name.removesuffix("_2")
        if plain not in _UNUSED:
            hint = _hint(name, len(batches), own_arguments)
            raise ValueError(f"{name} is not an argument of this model{hint}")
        batch = batches[-1] if name != plain else batches[0]
        if plain in _HINTS and extras[name] is not None and batch.cu_seq_lens_q is None:
            raise ValueError(
                f"{name} does not say where sequences end: pass flat input with cu_seq_lens_q, "
                "or padded input with attention_mask."
            )


def _hint(name: str, num_batches: int, own_arguments: Sequence[str]) -> str:
    """The end of the sentence about an unknown argument."""
    if num_batches == 1 and name.removesuffix("_2") in SequenceBatch._fields:
        return ": only models of sequence pairs read a second sequence."
    if name == "labels":
        return ": it has no head and no loss."
    suffixes = ("", "_2")[:num_batches]
    known = [f"{field}{suffix}" for field in SequenceBatch._fields for suffix in suffixes]
    # heads take these before the trunk looks; `task_ids` are for pairs
    known += ["labels", "output_hidden_states", *["task_ids"][: num_batches - 1], *own_arguments]
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f", did you mean {close[0]}?" if close else "."


def _check_content(
    kind: str, name: str, content: Tensor, config: MixerConfig, border: Border
) -> None:
    wanted = {
        "input_ids": ("(B, L)", None),
        "input_values": ("(B, L, F)", config.input_features),
        "inputs_embeds": ("(B, L, D)", config.hidden_size),
    }
    layout, width = wanted[kind]
    if content.dim() != layout.count(",") + 1:
        raise ValueError(f"{name} must have shape {layout}, got {tuple(content.shape)}.")
    if kind == "input_ids":
        if config.input_features is not None:
            raise ValueError(
                f"This model reads input_values of {config.input_features} features "
                f"(config.input_features), got {name}."
            )
        if config.main_input != "input_ids":
            raise ValueError(f"This model reads {config.main_input}, got {name}.")
        ask_ids(border, name, content, config.vocab_size, " (config.vocab_size)")
        return
    if kind == "input_values" and config.main_input not in ("input_ids", "input_values"):
        raise ValueError(f"This model reads {config.main_input}, got {name}.")
    if kind == "input_values" and width is None:
        raise ValueError(
            f"This model reads input_ids, got {name}: build it with "
            f"config.input_features={content.shape[-1]} to read them."
        )
    if content.shape[-1] != width:
        raise ValueError(
            f"{name} must have {width} features in its last dimension, got {tuple(content.shape)}."
        )
    if not content.is_floating_point():
        raise ValueError(f"{name} must hold floating-point numbers, got {content.dtype}.")


def check_tensor(name: str, value: Any) -> None:
    """Refuse lists, arrays and other things that are not tensors; `None` is nothing at all."""
    if value is not None and not isinstance(value, Tensor):
        kind = type(value)
        kind = (
            kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        )
        raise ValueError(f"{name} must be a torch tensor, got a {kind}: torch.as_tensor makes one.")


def ask_ids(border: Border, name: str, ids: Tensor, limit: int, why: str = "") -> None:
    """Refuse ids that are not whole numbers in `0..limit - 1`, once the border is settled."""
    if ids.is_floating_point() or ids.dtype == torch.bool:
        raise ValueError(f"{name} must hold integers, got {ids.dtype}.")

    def check(bounds: list[int]) -> None:
        low, high = bounds
        if low < 0 or high >= limit:
            raise ValueError(f"{name} must lie in 0..{limit - 1}{why}, got {low} to {high}.")

    border.ask_bounds(ids, check)


def _check_mask(
    mask: Tensor, shape: tuple[int, int], suffix: str, border: Border, sizes: list[int]
) -> Tensor:
    if tuple(mask.shape) != shape:
        raise ValueError(
            f"attention_mask{suffix} must have shape {shape} like the input, got "
            f"{tuple(mask.shape)}."
        )
    chosen = mask != 0
    if use_static_layout():
        return chosen
    others = chosen & (mask != 1)

    def refuse() -> None:
        raise ValueError(
            f"attention_mask{suffix} must hold only 0 and 1, got {mask[others][0].item()}."
        )

    def take(lengths: list[int]) -> None:
        # looked for in any case: they are here, and nothing can be computed for no token
        if 0 in lengths:
            raise ValueError(
                f"Every sequence needs at least one token, but row {lengths.index(0)} of "
                f"attention_mask{suffix} is all 0."
            )
        sizes.extend(lengths)

    border.ask_if(others, refuse)
    border.ask(chosen.sum(1), take)
    return chosen


def _check_boundaries(
    boundaries: Tensor,
    max_length: int | None,
    shape: tuple[int, int],
    suffix: str,
    border: Border,
    sizes: list[int],
) -> None:
    name = f"cu_seq_lens_q{suffix}"
    if shape[0] != 1:
        raise ValueError(
            f"{name} goes with flat input of shape (1, T), got input of shape {shape}."
        )
    is_whole = not boundaries.is_floating_point() and boundaries.dtype != torch.bool
    if boundaries.dim() != 1 or boundaries.shape[0] < 2 or not is_whole:
        raise ValueError(
            f"{name} must be a vector of integers 0 = c_0 < c_1 < ... < c_B = T, got "
            f"{boundaries.dtype} of shape {tuple(boundaries.shape)}."
        )

    def take(places: list[int]) -> None:
        if places[0] != 0 or places[-1] != shape[1]:
            raise ValueError(
                f"{name} must run from 0 to the number of tokens {shape[1]}, "
                f"got {places[0]} to {places[-1]}."
            )
        steps = [end - start for start, end in pairwise(places)]
        if min(steps) < 1:
            raise ValueError(
                f"Every sequence needs at least one token, but {name} does not grow at sequence "
                f"{steps.index(min(steps))}."
            )
        if max_length is not None and max(steps) > max_length:
            raise ValueError(
                f"max_length_q{suffix}={max_length} is below the longest sequence of {name}, "
                f"{max(steps)} tokens."
            )
        sizes.extend(steps)

    if not use_static_layout():
        border.ask(boundaries, take)
