"""Fused blocks in a row as one operation, so that they share the memory they work in.

Every block by itself would take fresh matrices for its result, its gradient and its work, and
memory that is touched for the first time costs almost as much as a product. Here the backward pass
has one matrix for the gradient and one to work in, whatever the depth. With a segment of s blocks,
the inputs of every s-th block are kept and the others are computed again.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .branch import Branch, Scratch


def run_branches(
    hidden: Tensor, branches: list[Branch], weights: list[Tensor | None], segment: int = 1
) -> Tensor:
    """`hidden` through residual branches, each for the first rows of the matrix, with gradients.

    Args:
        weights: Of all branches, one after the other.
        segment: Keep the input of every so many-th branch for the backward pass.
    """
    return _Chain.apply(hidden, branches, segment, *weights)


class _Chain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, branches, segment, *weights):
        keeps_hidden = segment == 1 and any(ctx.needs_input_grad)
        starts, kept, done = [], [], []
        # results inside a segment take turns in two matrices; those at its end are for keeps
        scratch = Scratch(hidden)
        hidden = hidden.contiguous()
        for number, branch in enumerate(branches):
            rows = branch.pack.num_rows
            if rows < len(hidden):
                done.append(hidden[rows:])
                hidden = hidden[:rows]
            if number % segment == 0:
                starts.append(hidden)
            is_last = (number + 1) % segment == 0 or number + 1 == len(branches)
            out = torch.empty_like(hidden) if is_last else scratch.take(f"{number % 2}", rows)
            kept.append(branch.room_for_hidden() if keeps_hidden else None)
            work = scratch.take("work", rows) if branch.needs_scratch else None
            hidden = branch.add(hidden, hidden, out, scratch=work, kept=kept[-1])
        ctx.branches, ctx.segment, ctx.num_starts = branches, segment, len(starts)
        ctx.save_for_backward(*starts, *kept, *weights)
        return torch.cat([hidden, *reversed(done)]) if done else hidden

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        branches, segment = ctx.branches, ctx.segment
        starts = ctx.saved_tensors[: ctx.num_starts]
        kept = ctx.saved_tensors[ctx.num_starts :][: len(branches)]
        weights = ctx.saved_tensors[ctx.num_starts + len(branches) :]
        # rows join as the walk back comes to the branches that were for them
        grad = grad.clone(memory_format=torch.contiguous_format)
        scratch = Scratch(grad)
        of_weights = []
        for start in reversed(range(0, len(branches), segment)):
            part = branches[start : start + segment]
            inputs = _inputs(starts[start // segment], part, scratch)
            for number in reversed(range(start, start + len(part))):
                branch, source = branches[number], inputs.pop()
                active = grad[: branch.pack.num_rows]
                grads = branch.backward(source, active, active, active, scratch, kept[number])
                size = len(weights) // len(branches)
                of_weights[:0] = grads.like(weights[number * size : (number + 1) * size])
        return grad, None, None, *of_weights


def _inputs(hidden: Tensor, branches: list[Branch], scratch: Scratch) -> list[Tensor]:
    """The inputs of the branches of a segment, from that of the first."""
    inputs = [hidden]
    for place, branch in enumerate(branches[:-1]):
        hidden = inputs[-1]
        out = scratch.take(f"input {place}", branch.pack.num_rows)
        work = scratch.take("inner", branch.pack.num_rows) if branch.needs_scratch else None
        branch.add(hidden, hidden, out, scratch=work)
        inputs.append(out[: branches[place + 1].pack.num_rows])
    return inputs
