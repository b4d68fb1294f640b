"""The residual branch of a ChordMixer block by Triton kernels: a twin of `ops_chord_fused`.

Forward: one kernel gathers the tracks, computes both products and adds the residual, so that
rotated rows and hidden layers stay on the chip. Backward: the hidden layer is computed again unless
it was kept, and the rotation is turned around by the opposite gather; nothing is added atomically.
"""

from typing import Any

from torch import Tensor

from .accelerated import kernel_layout
from .branch import Scratch
from .ops_chord_fused import ChordBranch, ChordGrads, add_part
from .packing import Pack


class TritonBranch(ChordBranch):
    """A `branch.Branch` on the kernels of `hf_mixers.kernels`."""

    def __init__(self, kernels: Any, settings, pack: Pack, weights, dtype):
        super().__init__(settings, pack, weights, dtype)
        self.kernels = kernels
        self.w1, self.w2 = self.w1.contiguous(), self.w2.contiguous()

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
            scratch = source.new_empty(source.shape)
        layout = kernel_layout(self.pack, self.settings.offsets)
        weights = self.w1, self.b1, self.w2, self.b2
        if self.settings.rotate_first:
            if self.norm is not None:
                source, _, _ = self._normalise_all(source, scratch)
            return self.kernels.mix(source, weights, out, layout, residual, sign, kept)
        self.kernels.mix(self._normalise(source)[0], weights, scratch, kept=kept)
        return self.kernels.gather_tracks(scratch, layout, out, residual, sign)

    def backward(
        self,
        source: Tensor,
        grad: Tensor,
        base: Tensor | None,
        out: Tensor,
        scratch: Scratch,
        kept: Tensor | None = None,
    ) -> ChordGrads:
        layout, back = (kernel_layout(self.pack, self.settings.offsets, i) for i in (False, True))
        grads, rows = ChordGrads(self), len(source)
        inner, turned = scratch.take("inner", rows), scratch.take("turned", rows)
        if not self.settings.rotate_first:
            normal, mean, rstd = self._normalise(source)
            self.kernels.gather_tracks(grad, back, turned)
            self._mix_all_backward(normal, turned, kept, inner, grads)
            part = self._norm_backward(inner, source, mean, rstd, grads)
            add_part(base, part, slice(None), out)
            return grads
        normal, mean, rstd = source, None, None
        if self.norm is not None:
            normal, mean, rstd = self._normalise_all(source, scratch.take("normal", rows))
        self.kernels.gather_tracks(normal, layout, turned)
        self._mix_all_backward(turned, grad, kept, inner, grads)
        if self.norm is None:
            self.kernels.gather_tracks(inner, back, out, base)
            return grads
        part = self.kernels.gather_tracks(inner, back, turned)
        part = self._norm_backward(part, source, mean, rstd, grads)
        add_part(base, part, slice(None), out)
        return grads

    def _mix_all_backward(
        self, values: Tensor, grad: Tensor, kept: Tensor | None, inner: Tensor, grads: ChordGrads
    ) -> None:
        """`inner` gets the gradient of `values`, `grads` those of both layers."""
        values = values.to(self.dtype)
        kept = self._hidden(values) if kept is None else kept
        to_hidden, active = self.kernels.mix_backward(grad, kept, self.w1, self.w2, inner)
        grads.add_layer(2, grad.to(self.dtype), active)
        grads.add_layer(1, to_hidden, values)
