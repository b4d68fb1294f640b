"""The residual branch of a ChordMixer block in cache-sized chunks: the fast twin of its modules.

Paper: Khalitov et al., ChordMixer, ICLR 2023, equations 1 to 3.
Idea: rows pass rotation, both products and the GELU chunk by chunk, so that what lies between them
  stays in the cache; the backward pass computes it again from the input of the block. The rotation
  is turned around by rotating back, a gather as well.
Cost: the two products and little else. Memory: the input of the block for the backward pass, one
  more `(T, D)` matrix while it runs, and a few chunks. Small batches also keep the hidden layer:
  there it is cheaper to store than to compute again.
Ours: the authors' code stores every step. From the pack it needs the ragged layout.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .ops_chord import chord_offsets
from .packing import Pack, at_least_float32

# rows that pass together: few enough for the cache, or enough to keep an accelerator busy
CHUNK_ROWS = {"cpu": 4096}
CHUNK_ROWS_ELSEWHERE = 131_072
# up to how many rows the hidden layer is kept for the backward pass
KEPT_ROWS = 32_768
# up to how many numbers the places that a rotation reads from are kept for the next block
KEPT_PLACES = 1 << 22

gelu = torch.nn.functional.gelu
gelu_in_place = torch.ops.aten.gelu_
gelu_backward = torch.ops.aten.gelu_backward


def chunks(num_rows: int, device: torch.device) -> Iterator[slice]:
    """Slices that cover all rows."""
    step = CHUNK_ROWS.get(device.type, CHUNK_ROWS_ELSEWHERE)
    for first in range(0, num_rows, step):
        yield slice(first, min(num_rows, first + step))


class Rotation:
    """The rotation of a ragged pack, some rows at a time: `rows` is part of `ops_chord.rotate`."""

    def __init__(self, pack: Pack, num_tracks: int, inverse: bool = False):
        self.pack, self.num_tracks, self.inverse = pack, num_tracks, inverse
        self.ends = list(accumulate(pack.sizes))
        self.offsets = chord_offsets(num_tracks)
        self._tables: tuple[Tensor, ...] | None = None
        self._places: dict[tuple[int, int], Tensor] = {}

    @classmethod
    def of(cls, pack: Pack, num_tracks: int, inverse: bool = False) -> "Rotation":
        """The rotation that an earlier block has used, if there is one."""
        key = cls, num_tracks, inverse
        if key not in pack.notes:
            pack.notes[key] = cls(pack, num_tracks, inverse)
        return pack.notes[key]

    def rows(self, hidden: Tensor, rows: slice, out: Tensor) -> Tensor:
        """Rows of the rotated `hidden`, written to the first rows of `out`."""
        out = out[: rows.stop - rows.start]
        number = bisect_right(self.ends, rows.start)
        if hidden.device.type == "cpu" and rows.stop <= self.ends[number]:
            self._copy_slices(hidden, rows, number, out)
        else:
            tracks = hidden.view(hidden.shape[0] * self.num_tracks, -1)
            torch.index_select(tracks, 0, self._index(rows), out=out.view(-1, tracks.shape[1]))
        return out

    def _index(self, rows: slice) -> Tensor:
        key = rows.start, rows.stop
        if key in self._places:
            return self._places[key]
        places = self._find_places(rows)
        if self.pack.num_rows * self.num_tracks <= KEPT_PLACES:
            self._places[key] = places
        return places

    def _copy_slices(self, hidden: Tensor, rows: slice, number: int, out: Tensor) -> None:
        """Rows of one sequence: each track comes from one stretch of rows, or two at its end."""
        size = self.pack.sizes[number]
        begin = self.ends[number] - size
        sequence = hidden[begin : begin + size]
        width = hidden.shape[1] // self.num_tracks
        for track, offset in enumerate(self.offsets):
            columns = slice(track * width, (track + 1) * width)
            source, target = sequence[:, columns], out[:, columns]
            first = (rows.start - begin + (-offset if self.inverse else offset)) % size
            before_end = min(size - first, len(target))
            target[:before_end].copy_(source[first : first + before_end])
            if before_end < len(target):
                target[before_end:].copy_(source[: len(target) - before_end])

    def _find_places(self, rows: slice) -> Tensor:
        """For each row and track of `rows`, its place in the `(T * num_tracks)` pieces of tracks.

        The sum of position and shift stays below twice the length, so a sign bit takes the place of
        a division.
        """
        if self._tables is None:
            self._tables = self._make_tables()
        shifts, starts, positions, lengths = self._tables
        sequence = self.pack.sequence[rows]
        index = shifts.index_select(0, sequence).add_(positions[rows, None])
        wrapped = (index >> (8 * index.element_size() - 1)).bitwise_and_(lengths[rows, None])
        return index.add_(wrapped).add_(starts.index_select(0, sequence)[:, None]).view(-1)

    def _make_tables(self) -> tuple[Tensor, ...]:
        """Everything in pieces of tracks, and shifts less the length of their sequence."""
        pack, tracks = self.pack, self.num_tracks
        small = pack.num_rows * tracks < 2**31
        dtype = torch.int32 if small else torch.int64
        offsets = torch.tensor(self.offsets, device=pack.lengths.device)
        lengths = pack.lengths[:, None]
        shifts = (-offsets if self.inverse else offsets) % lengths - lengths
        shifts = shifts * tracks + torch.arange(tracks, device=offsets.device)
        parts = shifts, pack.starts * tracks, pack.position * tracks, pack.row_lengths * tracks
        return tuple(part.to(dtype) for part in parts)


@dataclass(frozen=True)
class BranchSettings:
    """What a branch does besides its weights."""

    num_tracks: int
    rotate_first: bool
    norm_eps: float


class Branch:
    """`F(x)`: norm, then rotate and mix in either order, for one block and one pack.

    Args:
        weights: Of the first and second layer and of the layer norm, each a weight and a bias; the
            last two may be `None` for no norm.
        dtype: What the products are computed in.
    """

    def __init__(
        self, settings: BranchSettings, pack: Pack, weights: tuple[Tensor | None, ...], dtype
    ):
        self.settings, self.pack, self.dtype = settings, pack, dtype
        self.w1, self.b1, self.w2, self.b2 = (weight.to(dtype) for weight in weights[:4])
        self.norm = None if weights[4] is None else weights[4:]

    def add(
        self,
        source: Tensor,
        residual: Tensor,
        out: Tensor,
        sign: int = 1,
        scratch: Tensor | None = None,
        kept: Tensor | None = None,
    ) -> Tensor:
        """`out = residual + sign * F(source)`; `out` may be `residual`, or `source` if `scratch`.

        Args:
            scratch: `(T, D)` to work in; made if one is needed (`needs_scratch`) and not given.
            kept: `(T, h)` that takes the hidden layer before its GELU.
        """
        rotation = Rotation.of(self.pack, self.settings.num_tracks)
        if self.needs_scratch and scratch is None:
            scratch = torch.empty_like(source)
        if self.settings.rotate_first:
            if self.norm is not None:
                source, _, _ = self._normalise_all(source, scratch)
            rotated = self._chunk_buffer(source)
            for rows in self._chunks():
                hidden = self._activated(rotation.rows(source, rows, rotated), rows, kept)
                self._add_product(hidden, residual[rows], out[rows], sign)
            return out
        for rows in self._chunks():
            hidden = self._activated(self._normalise(source[rows])[0], rows, kept)
            scratch[rows] = torch.addmm(self.b2, hidden, self.w2.t())
        rotated = self._chunk_buffer(source)
        for rows in self._chunks():
            mixed = rotation.rows(scratch, rows, rotated)
            torch.add(residual[rows], mixed, alpha=sign, out=out[rows])
        return out

    @property
    def needs_scratch(self) -> bool:
        return self.norm is not None or not self.settings.rotate_first

    def backward(
        self,
        source: Tensor,
        grad: Tensor,
        base: Tensor | None,
        out: Tensor,
        kept: Tensor | None = None,
    ) -> "Grads":
        """`out = base + dF(source)^T grad`, and the gradients of the weights."""
        rotation = Rotation.of(self.pack, self.settings.num_tracks)
        back = Rotation.of(self.pack, self.settings.num_tracks, inverse=True)
        grads = Grads(self)
        buffer, second_buffer = self._chunk_buffer(source), self._chunk_buffer(source)
        if not self.settings.rotate_first:
            for rows in self._chunks():
                normal, mean, rstd = self._normalise(source[rows])
                of_mixed = back.rows(grad, rows, buffer)
                inner = self._mix_backward(normal, of_mixed, rows, kept, grads) @ self.w1
                inner = self._norm_backward(inner, source[rows], mean, rstd, grads)
                _add(base, inner, rows, out)
            return grads
        normal, mean, rstd = source, None, None
        if self.norm is not None:
            normal, mean, rstd = self._normalise_all(source, torch.empty_like(source))
        inner = torch.empty_like(source)
        for rows in self._chunks():
            rotated = rotation.rows(normal, rows, buffer)
            hidden = self._mix_backward(rotated, grad[rows], rows, kept, grads)
            if hidden.dtype == inner.dtype:
                torch.mm(hidden, self.w1, out=inner[rows])
            else:
                inner[rows] = hidden @ self.w1
        for rows in self._chunks():
            part = back.rows(inner, rows, second_buffer)
            if self.norm is not None:
                part = self._norm_backward(part, source[rows], mean[rows], rstd[rows], grads)
            _add(base, part, rows, out)
        return grads

    def _chunks(self) -> Iterator[slice]:
        return chunks(self.pack.num_rows, self.pack.sequence.device)

    def _chunk_buffer(self, like: Tensor) -> Tensor:
        first = next(self._chunks(), slice(0, 0))
        return like.new_empty(first.stop, like.shape[1])

    def _hidden(self, values: Tensor) -> Tensor:
        """The hidden layer before its GELU."""
        return torch.addmm(self.b1, values.to(self.dtype), self.w1.t())

    def _activated(self, values: Tensor, rows: slice, kept: Tensor | None) -> Tensor:
        """The hidden layer; what comes before its GELU is kept if there is room for it."""
        if kept is None:
            return gelu_in_place(self._hidden(values))
        torch.addmm(self.b1, values.to(self.dtype), self.w1.t(), out=kept[rows])
        return gelu(kept[rows])

    def _add_product(self, hidden: Tensor, residual: Tensor, out: Tensor, sign: int) -> None:
        if hidden.dtype == out.dtype:
            torch.addmm(residual, hidden, self.w2.t(), alpha=sign, out=out).add_(
                self.b2, alpha=sign
            )
        else:
            mixed = torch.addmm(self.b2, hidden, self.w2.t())
            torch.add(residual, mixed, alpha=sign, out=out)

    def _mix_backward(
        self, values: Tensor, grad: Tensor, rows: slice, kept: Tensor | None, grads: "Grads"
    ) -> Tensor:
        """Gradient of the hidden layer before its GELU, from that of what the products gave."""
        values, grad = values.to(self.dtype), grad.to(self.dtype)
        before = self._hidden(values) if kept is None else kept[rows]
        inner = gelu_backward(grad @ self.w2, before)
        grads.add_layer(2, grad, gelu(before))
        grads.add_layer(1, inner, values)
        return inner

    def _normalise(self, rows: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        if self.norm is None:
            return rows, None, None
        return torch.native_layer_norm(rows, rows.shape[1:], *self.norm, self.settings.norm_eps)

    def _normalise_all(self, source: Tensor, out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = []
        for rows in self._chunks():
            out[rows], mean, rstd = self._normalise(source[rows])
            parts.append((mean, rstd))
        empty = source.new_empty(0, 1)
        means, rstds = zip(*parts, strict=True) if parts else ([empty], [empty])
        return out, torch.cat(means), torch.cat(rstds)

    def _norm_backward(self, grad, rows, mean, rstd, grads: "Grads") -> Tensor:
        if self.norm is None:
            return grad
        grad, *of_weights = torch.ops.aten.native_layer_norm_backward(
            grad.to(rows.dtype), rows, rows.shape[1:], mean, rstd, *self.norm, [True] * 3
        )
        grads.add_norm(*of_weights)
        return grad


class Grads:
    """Sums over chunks of the gradients of a branch's weights, at least in float32."""

    def __init__(self, branch: Branch):
        weights = (branch.w1, branch.b1, branch.w2, branch.b2, *(branch.norm or ()))
        self.sums = [torch.zeros_like(at_least_float32(weight)) for weight in weights]

    def add_layer(self, layer: int, grad: Tensor, rows: Tensor) -> None:
        weight, bias = self.sums[2 * layer - 2 : 2 * layer]
        if weight.dtype == grad.dtype:
            weight.addmm_(grad.t(), rows)
        else:
            weight += grad.t() @ rows
        bias += grad.sum(0)

    def add_norm(self, weight: Tensor, bias: Tensor) -> None:
        self.sums[4] += weight
        self.sums[5] += bias

    def like(self, weights: tuple[Tensor | None, ...]) -> list[Tensor | None]:
        """In the types of the weights, with `None` for a missing norm."""
        sums = [*self.sums, *[None] * (len(weights) - len(self.sums))]
        return [
            None if weight is None else part.to(weight.dtype)
            for part, weight in zip(sums, weights, strict=True)
        ]


def _add(base: Tensor | None, part: Tensor, rows: slice, out: Tensor) -> None:
    if base is None:
        out[rows] = part
    else:
        torch.add(base[rows], part, out=out[rows])


def product_dtype(hidden: Tensor) -> torch.dtype:
    """What linear layers would be computed in here: under autocast its type."""
    device = hidden.device.type
    if torch.is_autocast_enabled(device) and hidden.dtype != torch.float64:
        return torch.get_autocast_dtype(device)
    return hidden.dtype


def add_branch(
    source: Tensor,
    residual: Tensor | None,
    pack: Pack,
    settings: BranchSettings,
    weights: tuple[Tensor | None, ...],
) -> Tensor:
    """`residual + F(source)` with gradients; without a residual `source + F(source)`."""
    return _AddBranch.apply(source, residual, pack, settings, product_dtype(source), *weights)


class _AddBranch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, source, residual, pack, settings, dtype, *weights):
        base = source if residual is None else residual
        branch = Branch(settings, pack, weights, dtype)
        kept = None
        if any(ctx.needs_input_grad) and pack.num_rows <= KEPT_ROWS:
            kept = source.new_empty(pack.num_rows, weights[0].shape[0], dtype=dtype)
        ctx.save_for_backward(source, kept, *weights)
        ctx.has_residual = residual is not None
        ctx.settings = settings, pack, dtype
        return branch.add(source.contiguous(), base, torch.empty_like(base), kept=kept)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        source, kept, *weights = ctx.saved_tensors
        settings, pack, dtype = ctx.settings
        grad = grad.contiguous()
        branch = Branch(settings, pack, tuple(weights), dtype)
        out = torch.empty_like(source)
        base = None if ctx.has_residual else grad
        grads = branch.backward(source.contiguous(), grad, base, out, kept)
        to_residual = grad if ctx.has_residual else None
        return out, to_residual, None, None, None, *grads.like(tuple(weights))
