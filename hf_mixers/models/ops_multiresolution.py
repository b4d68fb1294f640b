"""Sequences of a pack at coarser scales: groups of tokens pooled, and repeated back.

Paper: MrsFormer: Transformer with Multiresolution-head Attention, ICLR 2023 submission, supplement.
Idea: at scale s the mean of s neighbours stands for them; a head works on n / s such means, and its
  output is repeated for the members of each group. The first rows may be kept out of all groups.
Cost: O(T D) to pool or repeat; attention at scale s has (n / s)^2 scores per sequence of n tokens.
Ours differs in having no padding to pool: the last group of a sequence is the mean of what is left.
From the pack it needs lengths and positions, and its order: neighbours in it have similar lengths,
so they can stand side by side in dense blocks, which is what attention wants.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .neighbours import find_parts
from .packing import Pack, at_least_float32

# scores of a sequence are the square of its length
POWER = 2


class Block(NamedTuple):
    """Sequences side by side at one scale: `(count, width)` coarse rows."""

    count: int  # type: ignore[assignment]  # the method of tuples is not used
    width: int
    is_full: bool  # every sequence has `width` coarse rows


@dataclass(frozen=True)
class Scale:
    """All sequences of a pack at one scale, in blocks of similar lengths laid end to end."""

    scale: int
    blocks: tuple[Block, ...]
    group: Tensor  # (T,) the coarse row of each row
    first: Tensor  # (C,) the first row of each coarse row
    sizes: Tensor  # (C,) rows that a coarse row stands for, 0 if it is padding of its block
    # static packs and accelerators: (C, scale) the rows of each coarse row, of which
    members: Tensor | None
    are_there: Tensor | None  # (C, scale, 1) some are none of its own
    is_static: bool
    is_regular: bool  # coarse rows are `scale` neighbouring rows each, without any padding

    @property
    def rows_of_blocks(self) -> list[int]:
        return [block.count * block.width for block in self.blocks]

    def split(self, rows: Tensor) -> list[Tensor]:
        """Coarse rows `(C, ...)` -> one `(count, width, ...)` per block."""
        parts = rows.split(self.rows_of_blocks) if len(self.blocks) > 1 else [rows]
        return [
            part.unflatten(0, (block.count, block.width))
            for part, block in zip(parts, self.blocks, strict=True)
        ]

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """One `(count, width, ...)` per block -> coarse rows `(C, ...)`."""
        parts = [part.flatten(0, 1) for part in parts]
        return torch.cat(parts) if len(parts) > 1 else parts[0]


def count_groups(length: int, scale: int, num_prefix: int) -> int:
    """Coarse rows of a sequence: its prefix, then groups of `scale` tokens, the last one smaller.

    >>> [count_groups(length, 4, 1) for length in (1, 2, 5, 6)]
    [1, 2, 2, 3]
    """
    return length if length <= num_prefix else num_prefix - (num_prefix - length) // scale


def at_scale(pack: Pack, scale: int, num_prefix: int) -> Scale:
    """The sequences of a pack at one scale, worked out once per pack."""
    note = ("scale", scale, num_prefix)
    if note not in pack.notes:
        pack.notes[note] = _make_scale(pack, scale, num_prefix)
    return pack.notes[note]


def _make_scale(pack: Pack, scale: int, num_prefix: int) -> Scale:
    blocks, is_laid_out = _find_blocks(pack, scale, num_prefix)
    device = pack.lengths.device
    sequences, all_places, bases = [], [], []
    first_sequence = first_row = 0
    for count, width, _ in blocks:
        numbers, places = torch.arange(count, device=device), torch.arange(width, device=device)
        sequences.append((numbers[:, None] + first_sequence + 0 * places).flatten())
        all_places.append((places + 0 * numbers[:, None]).flatten())
        bases.append(numbers * width + first_row)
        first_sequence, first_row = first_sequence + count, first_row + count * width
    sequence, place, base = torch.cat(sequences), torch.cat(all_places), torch.cat(bases)

    behind = (place - num_prefix).clamp(min=0) * scale
    offset = torch.minimum(place, torch.full_like(place, num_prefix)) + behind
    most = torch.where(place < num_prefix, 1, scale)
    sizes = (pack.lengths[sequence] - offset).clamp(min=0).minimum(most)
    # divided before it is clamped: inductor fails on the other order
    behind = ((pack.position - num_prefix) // scale).clamp(min=0)
    inside = torch.minimum(pack.position, torch.full_like(pack.position, num_prefix)) + behind
    # padding of a static pack may lie beyond the groups of its sequence
    group = (base[pack.sequence] + inside).clamp(max=first_row - 1)
    regular = is_laid_out and (scale == 1 or num_prefix == 0)
    if scale > 1:
        regular = regular and not pack.is_static and all(n % scale == 0 for n in pack.sizes)
    first = pack.starts[sequence] + offset
    members = are_there = None
    if not regular and (pack.is_static or device.type != "cpu"):
        steps = torch.arange(scale, device=device)
        members = (first[:, None] + steps).clamp(max=pack.num_rows - 1)
        are_there = (steps < sizes[:, None])[:, :, None]
    return Scale(
        scale, tuple(blocks), group, first, sizes, members, are_there, pack.is_static, regular
    )


def _find_blocks(pack: Pack, scale: int, num_prefix: int) -> tuple[list[Block], bool]:
    """Blocks of sequences next to each other, and whether they are as long as their blocks."""
    if pack.rectangles is not None:
        if scale > 1 and torch.compiler.is_exporting():
            # exporters ask too much about a number of groups that depends on the length
            blocks = [
                Block(r.count, r.width // scale + num_prefix + 2, is_full=False)
                for r in pack.rectangles
            ]
            return blocks, False
        blocks = [
            Block(
                r.count,
                count_groups(r.width, scale, num_prefix),
                is_full=r.is_laid_out and pack.valid is None,
            )
            for r in pack.rectangles
        ]
        return blocks, all(r.is_laid_out for r in pack.rectangles)
    blocks, sizes = [], pack.sizes
    # the partition does not depend on the scale, so queries and keys of two scales match
    for first, end in find_parts(pack, POWER):
        width = count_groups(sizes[first], scale, num_prefix)
        is_full = count_groups(sizes[end - 1], scale, num_prefix) == width
        blocks.append(Block(end - first, width, is_full))
    return blocks, all(block.is_full for block in blocks)


def pool(rows: Tensor, at: Scale) -> Tensor:
    """Means of groups, `(T, D)` -> `(C, D)`; padding of blocks is 0."""
    if at.scale == 1 and at.is_regular:
        return rows
    if at.is_static and at.members is not None:
        # few operations, for compilers to fuse; they derive the gradient themselves
        return (rows[at.members] * at.are_there).sum(1) * _shares(at, rows)
    return _LinearMap.apply(rows, lambda x: _mean_groups(x, at), lambda x: _spread_groups(x, at))


def repeat(coarse: Tensor, at: Scale) -> Tensor:
    """Every row gets the coarse row of its group, `(C, D)` -> `(T, D)`."""
    if at.scale == 1 and at.is_regular:
        return coarse
    if at.is_static and at.members is not None:
        return coarse.index_select(0, at.group)
    return _LinearMap.apply(coarse, lambda x: _take_groups(x, at), lambda x: _sum_groups(x, at))


class _LinearMap(torch.autograd.Function):
    """A linear map and its adjoint, each being the gradient of the other: nothing is scattered."""

    @staticmethod
    def forward(rows, forward, adjoint):
        return forward(rows)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.map, ctx.adjoint = inputs

    @staticmethod
    def backward(ctx, grad):
        return _LinearMap.apply(grad, ctx.adjoint, ctx.map), None, None


def _sum_groups(rows: Tensor, at: Scale) -> Tensor:
    if at.is_regular:
        groups = rows.unflatten(0, (-1, at.scale))
        return groups.sum(1, dtype=at_least_float32(rows.new_empty(0)).dtype).to(rows.dtype)
    if at.members is not None and at.are_there is not None:
        # few launches; a processor is faster with one member of all groups after the other
        groups = rows.index_select(0, at.members.flatten()).unflatten(0, at.members.shape)
        groups = groups * at.are_there.to(rows.dtype)
        return groups.sum(1, dtype=at_least_float32(rows.new_empty(0)).dtype).to(rows.dtype)
    out = at_least_float32(rows.new_zeros(at.first.shape[0], rows.shape[1]))
    last_row = rows.shape[0] - 1
    for member in range(at.scale):
        part = rows.index_select(0, (at.first + member).clamp(max=last_row))
        out.addcmul_(part, (at.sizes > member)[:, None].to(part.dtype))
    return out.to(rows.dtype)


def _take_groups(coarse: Tensor, at: Scale) -> Tensor:
    if at.is_regular:
        return coarse[:, None].expand(-1, at.scale, -1).reshape(-1, coarse.shape[1])
    return coarse.index_select(0, at.group)


def _mean_groups(rows: Tensor, at: Scale) -> Tensor:
    sums = _sum_groups(rows, at)
    return sums if at.scale == 1 else sums * _shares(at, sums)


def _spread_groups(coarse: Tensor, at: Scale) -> Tensor:
    return _take_groups(coarse if at.scale == 1 else coarse * _shares(at, coarse), at)


def _shares(at: Scale, like: Tensor) -> Tensor:
    return at.sizes.clamp(min=1)[:, None].to(like.dtype).reciprocal()
