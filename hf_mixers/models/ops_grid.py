"""Sequences of a pack as grids: rows of `segment` tokens, for attention that works on segments.

A sequence of n tokens is a grid of ceil(n / segment) rows; its last row may be partly absent.
Sequences of similar lengths stand side by side in dense blocks, which is what attention wants. A
block whose sequences are shorter than a segment is only as wide as the longest of them, so that
many short sequences cost what their tokens cost.

From the pack it needs lengths and positions, and its order: neighbours have similar lengths.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .neighbours import find_parts
from .packing import Pack

# scores of a sequence are this power of its length, for segments of about its square root
POWER = 1.5


class GridBlock(NamedTuple):
    """Sequences side by side: `(count, rows, width)` slots, of which each may hold a token."""

    count: int  # type: ignore[assignment]  # the method of tuples is not used
    rows: int
    width: int
    is_full: bool  # every slot holds a token

    @property
    def num_slots(self) -> int:
        return self.count * self.rows * self.width


@dataclass(frozen=True)
class Grid:
    """All sequences of a pack as grids, block after block; `S` slots in all."""

    blocks: tuple[GridBlock, ...]
    source: Tensor  # (S,) the row of the pack in each slot; any row where there is no token
    nearest: Tensor  # (S,) the same, or the last token of the sequence where there is none
    present: Tensor  # (S,) slots that hold a token
    slot: Tensor  # (T,) the slot of each row
    is_same: bool  # slots are the rows of the pack, in their order
    is_static: bool
    # static packs: for every block its part of `source` as `(count, rows, width)`, of `present`,
    # and where its rows of the pack are in it; exporters cannot divide a dimension
    places: tuple[tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]], ...] = ()

    def spread(self, rows: Tensor) -> list[Tensor]:
        """Rows `(T, ...)` -> one `(count, rows, width, ...)` per block, 0 without a token."""
        if self.is_same:
            return self.split(rows)
        if self.is_static:
            ones = [1] * (rows.dim() - 1)
            return [
                torch.where(present.view(*present.shape, *ones), rows[source], 0)
                for source, present, _ in self.places
            ]
        return self.split(_Spread.apply(rows, self))

    def spread_nearest(self, rows: Tensor) -> list[Tensor]:
        """The same with the sequence's last token in its empty slots."""
        return self.split(rows if self.is_same else rows.index_select(0, self.nearest))

    def split(self, slots: Tensor) -> list[Tensor]:
        """Slots `(S, ...)` -> one `(count, rows, width, ...)` per block."""
        sizes = [block.num_slots for block in self.blocks]
        parts = slots.split(sizes) if len(sizes) > 1 else [slots]
        return [
            part.unflatten(0, block[:3]) for part, block in zip(parts, self.blocks, strict=True)
        ]

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """One `(count, rows, width, ...)` per block -> rows `(T, ...)`."""
        if self.is_static:
            found = [part[home] for part, (*_, home) in zip(parts, self.places, strict=True)]
            return torch.cat(found) if len(found) > 1 else found[0]
        parts = [part.flatten(0, 2) for part in parts]
        slots = torch.cat(parts) if len(parts) > 1 else parts[0]
        if self.is_same:
            return slots
        return _Join.apply(slots, self)

    def presence(self) -> list[Tensor | None]:
        """Slots that hold a token, `(count, rows, width)` per block; None where all do."""
        if self.is_static:
            parts = [present for _, present, _ in self.places]
        else:
            parts = self.split(self.present)
        return [
            None if block.is_full else part for part, block in zip(parts, self.blocks, strict=True)
        ]


class _Spread(torch.autograd.Function):
    """Rows to slots; every row has one slot, so the gradient is gathered, not scattered."""

    @staticmethod
    def forward(rows: Tensor, grid: Grid) -> Tensor:
        slots = rows.index_select(0, grid.source)
        return slots.masked_fill_(~grid.present.view(-1, *[1] * (rows.dim() - 1)), 0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.grid = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return _Join.apply(grad, ctx.grid), None


class _Join(torch.autograd.Function):
    """Slots to rows, the adjoint of `_Spread`."""

    @staticmethod
    def forward(slots: Tensor, grid: Grid) -> Tensor:
        return slots.index_select(0, grid.slot)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.grid = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return _Spread.apply(grad, ctx.grid), None


def grid_of(pack: Pack, segment: int | None) -> Grid:
    """The sequences of a pack as grids, worked out once per pack; None: one row each."""
    note = ("grid", segment)
    if note not in pack.notes:
        pack.notes[note] = _make_grid(pack, segment)
    return pack.notes[note]


def _make_grid(pack: Pack, segment: int | None) -> Grid:
    blocks = _find_blocks(pack, segment)
    device = pack.lengths.device
    sequence, position, base = [], [], []
    first_sequence = first_slot = 0
    for block in blocks:
        size = block.rows * block.width
        numbers = torch.arange(block.count, device=device)
        places = torch.arange(size, device=device)
        sequence.append((numbers[:, None] + first_sequence + 0 * places).flatten())
        position.append((places + 0 * numbers[:, None]).flatten())
        base.append(numbers * size + first_slot)
        first_sequence, first_slot = first_sequence + block.count, first_slot + block.count * size
    sequence, position, base = torch.cat(sequence), torch.cat(position), torch.cat(base)
    starts, lengths = pack.starts[sequence], pack.lengths[sequence]
    # padding of a static pack may lie beyond the slots of its sequence
    slot = (base[pack.sequence] + pack.position).clamp(max=first_slot - 1)
    source = (starts + position).clamp(max=pack.num_rows - 1)
    nearest = starts + torch.minimum(position, (lengths - 1).clamp(min=0))
    is_same = not pack.is_static and all(block.is_full for block in blocks)
    places = _places(pack, blocks) if pack.is_static else ()
    return Grid(
        tuple(blocks), source, nearest, position < lengths, slot, is_same, pack.is_static, places
    )


def _places(pack: Pack, blocks: Sequence[GridBlock]) -> tuple:
    """What the blocks of a static pack hold, without dividing a dimension."""
    found = []
    first = first_row = 0
    for block, (count, longest, is_laid_out) in zip(blocks, pack.rectangles, strict=True):
        device = pack.lengths.device
        sequence = torch.arange(count, device=device)[:, None, None] + first
        number = torch.arange(block.rows, device=device)[:, None]
        position = number * block.width + torch.arange(block.width, device=device)
        source = (pack.starts[sequence] + position).clamp(max=pack.num_rows - 1)
        present = position < pack.lengths[sequence]
        # a rectangle that is not laid out is all of a flat batch
        num_rows = count * longest if is_laid_out else pack.num_rows - first_row
        rows = slice(None) if len(blocks) == 1 else slice(first_row, first_row + num_rows)
        # padding of a static pack may lie beyond the slots of its sequence
        place = pack.position[rows].clamp(max=block.rows * block.width - 1)
        home = pack.sequence[rows] - first, place // block.width, place % block.width
        found.append((source, present, home))
        first, first_row = first + count, first_row + num_rows
    return tuple(found)


def _find_blocks(pack: Pack, segment: int | None) -> list[GridBlock]:
    if pack.rectangles is not None:
        blocks = []
        for count, longest, is_laid_out in pack.rectangles:
            if segment is not None and torch.compiler.is_exporting():
                # exporters ask too much about a number of rows that depends on the length, and may
                # be 1
                blocks.append(GridBlock(count, longest // segment + 2, segment, is_full=False))
                continue
            rows, width = _shape(longest, segment)
            is_full = is_laid_out and pack.valid is None and rows * width == longest
            blocks.append(GridBlock(count, rows, width, is_full))
        return blocks
    blocks, sizes = [], pack.sizes
    for first, end in find_parts(pack, POWER):
        rows, width = _shape(sizes[first], segment)
        blocks.append(GridBlock(end - first, rows, width, rows * width == sizes[end - 1]))
    return blocks


def _shape(longest: int, segment: int | None) -> tuple[int, int]:
    if segment is None or longest <= segment:
        return 1, longest
    return (longest + segment - 1) // segment, segment
