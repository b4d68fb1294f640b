"""Blocks as a reversible coupling of two streams: memory of training does not grow with depth.

Idea: both streams start as the embedding; block k adds its branch of one stream to the other, and
the streams change places: (a, b) -> (b, a + F_k(b)). Their mean comes out. The step can be undone,
(b, c) -> (c - F_k(b), b), so the backward pass needs no stored activations: it walks from the
outputs back to the inputs. After Gomez et al., The Reversible Residual Network, NeurIPS 2017.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._compat import run_checkpointed
from .branch import Scratch
from .packing import Pack
from .stack import MixerStack, Recorder, choose


class ReversibleStack(MixerStack):
    """Blocks called with `(hidden, pack, residual)`, coupled in two streams.

    Blocks that give a `fused_branch(hidden, pack)` are undone in the backward pass. Otherwise, when
    hidden states are asked for, and in the static layout, activations are stored as usual.
    """

    def run(
        self,
        hidden: Tensor,
        pack: Pack,
        states: Recorder | None = None,
        beside: Sequence[Tensor] = (),
        may_overwrite: bool = False,
    ) -> Tensor:
        if beside:
            raise ValueError("Blocks that read other matrices cannot be coupled.")
        branches = None if states is not None else self.fused_branches(hidden, pack)
        if branches is not None:
            return _Couple.apply(hidden, branches, *self.fused_weights())
        return self._run_stored(hidden, pack, states)

    def _run_stored(self, hidden: Tensor, pack: Pack, states: Recorder | None) -> Tensor:
        first = second = hidden
        done: list[Tensor] = []
        for number, layer in enumerate(self):
            if states is not None:
                first, second, done = _record(first, second, done, states)
            active = pack.longer_than(self.config.skipped_length(number))
            if not pack.is_static and active.num_rows < first.shape[0]:
                done.append((first[active.num_rows :] + second[active.num_rows :]) / 2)
                first, second = first[: active.num_rows], second[: active.num_rows]
            if self.gradient_checkpointing and self.training and states is None:
                mixed = run_checkpointed(self, layer, second, active, first)
            else:
                mixed = layer(second, active, first)
            first, second = second, choose(active, mixed, first)
        if states is not None:
            first, second, done = _record(first, second, done, states)
        return torch.cat([(first + second) / 2, *reversed(done)])


def _record(first: Tensor, second: Tensor, done: list[Tensor], states: Recorder):
    """Record the mean of the streams, and hand them on as they lie around it."""
    mean, half = (first + second) / 2, (first - second) / 2
    whole = states.record(torch.cat([mean, *reversed(done)]))
    mean, rest = whole[: first.shape[0]], whole[first.shape[0] :]
    return mean + half, mean - half, [rest]


class _Couple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, branches, *weights):
        first, second = hidden.clone(), hidden.clone()
        for branch in branches:
            active = slice(0, branch.pack.num_rows)
            branch.add(second[active], first[active], out=first[active])
            first, second = second, first
        ctx.branches = branches
        ctx.save_for_backward(first, second, *weights)
        return (first + second).div_(2)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        first, second, *weights = ctx.saved_tensors
        # the streams are walked back in place: a second backward pass is refused by autograd
        of_first = grad / 2
        of_second = of_first.clone()
        scratch = Scratch(grad)
        per_block = len(weights) // max(1, len(ctx.branches))
        of_weights = []
        for number in reversed(range(len(ctx.branches))):
            branch = ctx.branches[number]
            first, second = second, first
            of_first, of_second = of_second, of_first
            active = slice(0, branch.pack.num_rows)
            source, target = second[active], of_second[active]
            work = scratch.take("inner", len(source)) if branch.needs_scratch else None
            branch.add(source, first[active], first[active], sign=-1, scratch=work)
            grads = branch.backward(source, of_first[active], target, target, scratch)
            part = tuple(weights[number * per_block : (number + 1) * per_block])
            of_weights = grads.like(part) + of_weights
        return of_first.add_(of_second), None, *of_weights
