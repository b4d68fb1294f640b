"""The residual branch of a ChordMixer block in cache-sized chunks: the fast twin of its modules.

Paper: Khalitov et al., ChordMixer, ICLR 2023, equations 1 to 3.
Idea: rows pass rotation, both products and the GELU chunk by chunk, so that what lies between them
  stays in the cache; the backward pass computes it again from the input of the block. The rotation
  is turned around by rotating back, a gather as well.
Cost: the two products and little else. Memory: for the backward pass the input of the block, its
  hidden layer, or both (see `branch.keeps_both`); one more `(T, D)` matrix while it runs, and a few
  chunks.
Ours: the authors' code stores every step. From the pack it needs the ragged layout.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .branch import Scratch, keeps_both
from .ops_chord_rows import Rotation, chunks
from .packing import Pack, at_least_float32
from .sharing_rotation import SharedRotation

gelu = torch.nn.functional.gelu
gelu_in_place = torch.ops.aten.gelu_
gelu_backward = torch.ops.aten.gelu_backward


@dataclass(frozen=True)
class BranchSettings:
    """What a branch does besides its weights."""

    offsets: tuple[int, ...]
    rotate_first: bool
    norm_eps: float


class ChordBranch:
    """A `branch.Branch`: norm, then rotate and mix in either order.

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
        self.hidden_width = len(self.b1)

    def add(
        self,
        source: Tensor,
        residual: Tensor,
        out: Tensor,
        sign: int = 1,
        scratch: Tensor | None = None,
        kept: Tensor | None = None,
    ) -> Tensor:
        if self.needs_scratch and scratch is None:
            scratch = torch.empty_like(source)
        if self.settings.rotate_first:
            if self.norm is not None:
                source, _, _ = self._normalise_all(source, scratch)
            rotation = self._rotation().reading(source)
            rotated = self._chunk_buffer(source)
            for rows in self._chunks():
                hidden = self._activated(rotation.rows(source, rows, rotated), rows, kept)
                self._add_product(hidden, residual[rows], out[rows], sign)
            return out
        for rows in self._chunks():
            hidden = self._activated(self._normalise(source[rows])[0], rows, kept)
            scratch[rows] = torch.addmm(self.b2, hidden, self.w2.t())
        return self._add_rotated(scratch, residual, out, sign)

    @property
    def needs_scratch(self) -> bool:
        return self.norm is not None or not self.settings.rotate_first

    def undo(self, kept: Tensor, out: Tensor, scratch: Tensor) -> None:
        for rows in self._chunks():
            hidden = gelu(kept[rows])
            if self.settings.rotate_first:
                self._add_product(hidden, out[rows], out[rows], -1)
            else:
                scratch[rows] = torch.addmm(self.b2, hidden, self.w2.t())
        if not self.settings.rotate_first:
            self._add_rotated(scratch, out, out, -1)

    def backward(
        self,
        source: Tensor,
        grad: Tensor,
        base: Tensor | None,
        out: Tensor,
        scratch: Scratch,
        kept: Tensor | None = None,
    ) -> "ChordGrads":
        rotation, back = self._rotation(), self._rotation(inverse=True)
        grads = ChordGrads(self)
        inner = scratch.take("inner", len(source))
        buffer = self._chunk_buffer(source)
        if not self.settings.rotate_first:
            turned = back.reading(grad)
            for rows in self._chunks():
                turned.rows(grad, rows, inner[rows])
            # what was received is not needed any more
            del turned
            for rows in self._chunks():
                normal, mean, rstd = self._normalise(source[rows])
                hidden = self._mix_backward(normal, inner[rows], rows, kept, grads)
                part = _product(hidden, self.w1, buffer[: len(hidden)])
                part = self._norm_backward(part, source[rows], mean, rstd, grads)
                add_part(base, part, rows, out)
            return grads
        normal, mean, rstd = source, None, None
        if self.norm is not None:
            normal, mean, rstd = self._normalise_all(source, scratch.take("normal", len(source)))
        reader = rotation.reading(normal)
        for rows in self._chunks():
            rotated = reader.rows(normal, rows, buffer)
            hidden = self._mix_backward(rotated, grad[rows], rows, kept, grads)
            _product(hidden, self.w1, inner[rows])
        del reader
        reader = back.reading(inner)
        for rows in self._chunks():
            part = reader.rows(inner, rows, buffer)
            if self.norm is not None:
                part = self._norm_backward(part, source[rows], mean[rows], rstd[rows], grads)
            add_part(base, part, rows, out)
        return grads

    def _rotation(self, inverse: bool = False) -> Rotation | SharedRotation:
        kind = Rotation if self.pack.share is None else SharedRotation
        return kind.of(self.pack, self.settings.offsets, inverse)

    def room_for_hidden(self) -> Tensor:
        return self.w1.new_empty(self.pack.num_rows, self.hidden_width)

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

    def _add_rotated(self, mixed: Tensor, residual: Tensor, out: Tensor, sign: int) -> Tensor:
        rotation = self._rotation().reading(mixed)
        buffer = self._chunk_buffer(mixed)
        for rows in self._chunks():
            rotated = rotation.rows(mixed, rows, buffer)
            torch.add(residual[rows], rotated, alpha=sign, out=out[rows])
        return out

    def _mix_backward(
        self, values: Tensor, grad: Tensor, rows: slice, kept: Tensor | None, grads: "ChordGrads"
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
        weight, bias = self.norm
        return torch.native_layer_norm(rows, rows.shape[1:], weight, bias, self.settings.norm_eps)

    def _normalise_all(self, source: Tensor, out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = []
        for rows in self._chunks():
            out[rows], mean, rstd = self._normalise(source[rows])
            parts.append((mean, rstd))
        empty = source.new_empty(0, 1)
        means, rstds = zip(*parts, strict=True) if parts else ([empty], [empty])
        return out, torch.cat(means), torch.cat(rstds)

    def _norm_backward(self, grad, rows, mean, rstd, grads: "ChordGrads") -> Tensor:
        if self.norm is None:
            return grad
        grad, *of_weights = torch.ops.aten.native_layer_norm_backward(
            grad.to(rows.dtype), rows, rows.shape[1:], mean, rstd, *self.norm, [True] * 3
        )
        grads.add_norm(*of_weights)
        return grad


class ChordGrads:
    """Sums over chunks of the gradients of a branch's weights, at least in float32."""

    def __init__(self, branch: ChordBranch):
        self.sums: list[Tensor | None] = [None] * (4 if branch.norm is None else 6)

    def add_layer(self, layer: int, grad: Tensor, rows: Tensor) -> None:
        place = 2 * layer - 2
        weight = self.sums[place]
        if weight is not None and weight.dtype == grad.dtype:
            weight.addmm_(grad.t(), rows)
        else:
            self._add(place, grad.t() @ rows)
        self._add(place + 1, grad.sum(0))

    def add_norm(self, weight: Tensor, bias: Tensor) -> None:
        self._add(4, weight)
        self._add(5, bias)

    def _add(self, place: int, part: Tensor) -> None:
        # the first chunk is often the only one
        known = self.sums[place]
        self.sums[place] = at_least_float32(part) if known is None else known.add_(part)

    def like(self, weights: tuple[Tensor | None, ...]) -> list[Tensor | None]:
        sums = [*self.sums, *[None] * (len(weights) - len(self.sums))]
        return [_like(part, weight) for part, weight in zip(sums, weights, strict=True)]


def _like(part: Tensor | None, weight: Tensor | None) -> Tensor | None:
    """The gradient of a weight in its type; 0 where no row has been seen."""
    if weight is None:
        return None
    return torch.zeros_like(weight) if part is None else part.to(weight.dtype)


def _product(rows: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    if rows.dtype == out.dtype:
        return torch.mm(rows, weight, out=out)
    return out.copy_(rows @ weight)


def add_part(base: Tensor | None, part: Tensor, rows: slice, out: Tensor) -> None:
    """`out = base + part` for some rows; without a base `part` alone."""
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
        branch = ChordBranch(settings, pack, weights, dtype)
        keeps = keeps_both(pack.num_rows) and any(ctx.needs_input_grad)
        kept = branch.room_for_hidden() if keeps else None
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
        branch = ChordBranch(settings, pack, tuple(weights), dtype)
        out = torch.empty_like(source)
        base = None if ctx.has_residual else grad
        grads = branch.backward(source.contiguous(), grad, base, out, Scratch(source), kept)
        to_residual = grad if ctx.has_residual else None
        return out, to_residual, None, None, None, *grads.like(tuple(weights))
