"""Fused blocks in a row as one operation, so that they share the memory they work in.

Every block by itself would take fresh matrices for its result, its gradient and its work, and
memory that is touched for the first time costs almost as much as a product. Here the backward pass
has one matrix for the gradient and one or two to work in, whatever the depth. What is kept for it:

- of small batches, the input and the hidden layer of every block;
- of large ones, the hidden layers, which are narrower. The inputs are undone: x is what comes out
  less what the hidden layer gives. Rounding adds up in this, so every few blocks x itself is kept;
- where the hidden layer is not narrower, the input of every block;
- with segments of s blocks (gradient checkpointing), the input of every s-th block.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .branch import Branch, Scratch, keeps_both

# after how many blocks that are undone there is one whose result is kept
UNDONE_BLOCKS = 8


def run_branches(
    hidden: Tensor, branches: list[Branch], weights: list[Tensor | None], segment: int = 1
) -> Tensor:
    """`hidden` through residual branches, each for the first rows of the matrix, with gradients.

    Args:
        weights: Of all branches, one after the other.
        segment: Keep the input of every so many-th branch for the backward pass.
    """
    return _Chain.apply(hidden, branches, segment, *weights)


@dataclass(frozen=True)
class _Plan:
    """What is kept for the backward pass: hidden layers, and an input or a result per `segment`."""

    segment: int
    hidden: bool = False
    undo: bool = False

    @classmethod
    def choose(cls, hidden: Tensor, branches: list[Branch], segment: int) -> "_Plan":
        if segment > 1 or not branches:
            return cls(segment)
        # processes that share a pack must all do the same
        share = branches[0].pack.share
        if keeps_both(len(hidden) if share is None else share.most_rows):
            return cls(1, hidden=True)
        if branches[0].hidden_width < hidden.shape[1]:
            return cls(UNDONE_BLOCKS, hidden=True, undo=True)
        return cls(1)


class _Chain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, branches, segment, *weights):
        plan = _Plan.choose(hidden, branches, segment)
        marks, kept, done = [], [], []
        # results inside a segment take turns in two matrices; those at its end are for keeps
        scratch = Scratch(hidden)
        hidden = hidden.contiguous()
        for number, branch in enumerate(branches):
            rows = branch.pack.num_rows
            if rows < len(hidden):
                done.append(hidden[rows:])
                hidden = hidden[:rows]
            is_first = number % plan.segment == 0
            is_last = (number + 1) % plan.segment == 0 or number + 1 == len(branches)
            if is_first and not (plan.undo and number == 0):
                marks.append(hidden)
            out = torch.empty_like(hidden) if is_last else scratch.take(f"{number % 2}", rows)
            kept.append(branch.room_for_hidden() if plan.hidden else None)
            work = scratch.take("work", rows) if branch.needs_scratch else None
            hidden = branch.add(hidden, hidden, out, scratch=work, kept=kept[-1])
        output = torch.cat([hidden, *reversed(done)]) if done else hidden
        if plan.undo:
            marks.append(output)
        ctx.branches, ctx.plan, ctx.num_marks = branches, plan, len(marks)
        ctx.save_for_backward(*marks, *kept, *weights)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        branches, plan = ctx.branches, ctx.plan
        marks = list(ctx.saved_tensors[: ctx.num_marks])
        kept = ctx.saved_tensors[ctx.num_marks :][: len(branches)]
        weights = ctx.saved_tensors[ctx.num_marks + len(branches) :]
        size = len(weights) // max(1, len(branches))
        # rows join as the walk back comes to the branches that were for them
        grad = grad.clone(memory_format=torch.contiguous_format)
        scratch = Scratch(grad)
        walk = _undo if plan.undo else _compute_again
        of_weights = []
        for number, source in walk(marks, branches, kept, plan.segment, scratch):
            branch = branches[number]
            active = grad[: branch.pack.num_rows]
            grads = branch.backward(source, active, active, active, scratch, kept[number])
            of_weights[:0] = grads.like(weights[number * size : (number + 1) * size])
        return grad, None, None, *of_weights


def _compute_again(marks, branches, kept, segment, scratch):
    """Branches from the last to the first with their inputs, from that of every segment."""
    for start in reversed(range(0, len(branches), segment)):
        part = branches[start : start + segment]
        inputs = [marks.pop()]
        for place, branch in enumerate(part[:-1]):
            hidden = inputs[-1]
            out = scratch.take(f"input {place}", branch.pack.num_rows)
            work = scratch.take("inner", branch.pack.num_rows) if branch.needs_scratch else None
            branch.add(hidden, hidden, out, scratch=work)
            inputs.append(out[: part[place + 1].pack.num_rows])
        for number in reversed(range(start, start + len(part))):
            yield number, inputs.pop()


def _undo(marks, branches, kept, segment, scratch):
    """The same from the hidden layers, the result of all and the inputs of segments but one."""
    hidden = marks.pop().clone()
    for number in reversed(range(len(branches))):
        source = hidden[: branches[number].pack.num_rows]
        if number and number % segment == 0:
            source.copy_(marks.pop())
        else:
            branches[number].undo(kept[number], source, scratch.take("inner", len(source)))
        yield number, source
