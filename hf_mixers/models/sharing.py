"""A pack over several processes: each has some of its rows, and they exchange what they read.

Idea: rows are dealt out in equal stretches, in the order of the pack, whatever sequences they are
of. What a token does alone needs no company. What a mixer reads of rows that are elsewhere comes
with one uneven all-to-all (`sharing_rotation`, `sharing_links`). Which rows go where follows from
the lengths alone, so all processes work it out by themselves.

All collectives have their true adjoints as gradients: every process takes the loss as its own, and
the mean of all gradients is the gradient, which is what DDP and FSDP compute.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .packing import Pack

# the processes that share packs now, or none
_groups: list[Any] = []


@contextmanager
def shared_over(group: Any) -> Iterator[None]:
    """Models that are called inside share each pack over the processes of `group`."""
    _groups.append(group)
    try:
        yield
    finally:
        _groups.pop()


def current_group() -> Any:
    """The processes that share packs now; None if there is one at most."""
    group = _groups[-1] if _groups else None
    return None if group is None or dist.get_world_size(group) == 1 else group


@dataclass(frozen=True)
class Share:
    """Which rows of a pack a process has: those from `first` on, up to the next one's first."""

    group: Any
    rank: int
    bounds: tuple[int, ...]  # first row of every process, and the number of rows

    @property
    def first(self) -> int:
        return self.bounds[self.rank]

    @property
    def most_rows(self) -> int:
        """The most rows that a process has: the same number for all of them."""
        return max(end - start for start, end in zip(self.bounds, self.bounds[1:], strict=False))

    def count_own(self, rows: int) -> int:
        """How many of the first `rows` rows of the pack are here."""
        own = self.bounds[self.rank + 1] - self.first
        return min(max(rows - self.first, 0), own)

    def own_sizes(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """How many tokens of each sequence of the pack are here."""
        ends = [self.count_own(end) for end in accumulate(sizes, initial=0)]
        return tuple(end - start for start, end in pairwise(ends))

    def owners(self, rows: Tensor) -> Tensor:
        """The process that each row of the pack belongs to."""
        ends = torch.tensor(self.bounds[1:], device=rows.device)
        return torch.searchsorted(ends, rows, right=True)

    def sum(self, values: Tensor) -> Tensor:
        """The sum of what all processes have, with gradients."""
        return _Sum.apply(values, self.group)

    def largest(self, values: Tensor) -> Tensor:
        """The largest of what all processes have, with gradients."""
        return _Largest.apply(values, self.group)


def share_pack(pack: Pack, group: Any) -> Pack:
    """The part of a ragged pack that this process has."""
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    step = -(-pack.num_rows // size)
    bounds = tuple(min(number * step, pack.num_rows) for number in range(size + 1))
    own = slice(bounds[rank], bounds[rank + 1])
    source = pack.source
    if source is None:
        source = torch.arange(own.start, own.stop, device=pack.sequence.device)
    else:
        source = source[own].clone()
    return replace(
        pack,
        sequence=pack.sequence[own].clone(),
        position=pack.position[own].clone(),
        row_lengths=pack.row_lengths[own].clone(),
        source=source,
        share=Share(group, rank, bounds),
    )


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, group):
        ctx.group = group
        total = values.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, grad):
        return _Sum.apply(grad, ctx.group), None


class _Largest(torch.autograd.Function):
    """The largest of what all processes have; its gradient goes to where it is, in equal parts."""

    @staticmethod
    def forward(ctx, values, group):
        largest = values.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
        here = (values == largest).to(values.dtype)
        count = here.clone()
        dist.all_reduce(count, group=group)
        ctx.group = group
        ctx.save_for_backward(here / count)
        return largest

    @staticmethod
    def backward(ctx, grad):
        (part,) = ctx.saved_tensors
        total = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.group)
        return total * part, None


def exchange(rows: Tensor, sent: list[int], received: list[int], group: Any) -> Tensor:
    """Rows for each process one after the other -> rows from each."""
    out = rows.new_empty(sum(received), rows.shape[1])
    dist.all_to_all_single(out, rows.contiguous(), received, sent, group=group)
    return out


def find_targets(pack: Pack, offset: int) -> Tensor:
    """The row of the whole pack that each row here reads, `offset` positions on, circularly."""
    start = pack.starts.index_select(0, pack.sequence)
    return start + (pack.position + offset) % pack.row_lengths
