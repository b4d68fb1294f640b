"""Combiner-Learnable, causal: what of the own part and, by summaries, of others is before a token.

Paper: Combiner: Full Attention Transformer with Sparse Computation Cost, NeurIPS 2021, 4.4; D.
Idea: a token sees its own part up to itself, and of every other part the summary after the part's
  last member before the token. Tokens are sorted by their part, where blocks of s tokens see
  themselves and the block before. In the order of the sequence, the tokens of a block share the
  summaries at its start, which the members of a part inside the block replace one after the other:
  a block has P + s summaries, most of them hidden from a token.
Cost: O(n (s + p)) for n tokens in p parts; memory O(n d p / s).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from .ops_lines import attend_lines, merge_attention
from .ops_spans import Projected, Summary
from .packing import use_static_layout


class Order(NamedTuple):
    """Tokens `(B, H, n)` of the sequences of a block, sorted by their part, then by position.

    Places without a token are behind all others, and in parts of their own.
    """

    source: Tensor  # the token at each sorted place
    place: Tensor  # the sorted place of each token
    rank: Tensor  # at each sorted place: the number of members of the part before it
    part: Tensor  # at each sorted place: the number of the part

    def sort(self, rows: Tensor) -> Tensor:
        """Tokens `(B, H, n, d)` -> the same, sorted."""
        return _Permute.apply(rows, self.source, self.place)

    def restore(self, rows: Tensor) -> Tensor:
        """The opposite of `sort`."""
        return _Permute.apply(rows, self.place, self.source)


class _Permute(torch.autograd.Function):
    """Rows `(B, H, n, d)` in another order; the gradient is gathered, not scattered."""

    @staticmethod
    def forward(rows, source, place):
        if use_static_layout():
            # exporters cannot join dimensions
            return rows.gather(2, source[..., None].expand(-1, -1, -1, rows.shape[3]))
        count, heads, length = source.shape
        numbers = torch.arange(count * heads, device=rows.device).view(count, heads, 1)
        index = (source + numbers * length).flatten()
        return rows.flatten(0, 2).index_select(0, index).view_as(rows)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx, grad):
        source, place = ctx.saved_tensors
        return _Permute.apply(grad, place, source), None, None


def sort_tokens(clusters: Tensor, there: Tensor, num_clusters: int, segment: int) -> Order:
    """Tokens in the order of their parts: at most `segment` tokens of the same cluster.

    Args:
        clusters: `(B, H, n)`.
        there: `(B, 1, n)`, the places that hold a token.
    """
    length = clusters.shape[2]
    places = torch.arange(length, device=clusters.device)
    group = torch.where(there, clusters, num_clusters)
    # no two keys are equal, so any sort will do
    source = (group * length + places).argsort(2)
    group = group.gather(2, source)
    is_first = functional.pad(group[..., 1:] != group[..., :-1], (1, 0), value=True)
    rank = (places - torch.where(is_first, places, 0).cummax(2).values) % segment
    part = (rank == 0).cumsum(2) - 1
    place = torch.zeros_like(source).scatter(2, source, places.expand_as(source))
    return Order(source, place, rank, part)


def attend_past(
    tokens: Projected,
    order: Order,
    there: Tensor,
    num_parts: int,
    segment: int,
    *,
    span_pool: str = "max",
    dropout: float = 0.0,
) -> Tensor:
    """Attention `(B, H, n, d)` of tokens to those before them.

    Args:
        there: `(B, 1, n)`, the places that hold a token.
        num_parts: Of the parts of a sequence, at the most.
    """
    length = tokens.query.shape[2]
    count = -(-length // segment)
    in_order = tokens.map(order.sort)
    query = _to_blocks(in_order.query, count, segment)
    key, value = (_with_block_before(_to_blocks(part, count, segment)) for part in in_order[1:3])
    # own part: keys from its first member on; behind the end, any
    width = key.shape[3]
    places = torch.arange(segment, device=key.device) + width - segment
    first = places - _to_blocks(order.rank[..., None], count, segment).squeeze(4)
    keys = torch.arange(width, device=key.device)

    def see_own(first: Tensor) -> Tensor:
        return (keys >= first[..., None]) & (keys <= places[:, None])

    own, own_total = attend_lines(query, key, value, first, see_own, dropout)
    pooled = pool_members(in_order.pooled_query, order.rank, segment, span_pool)
    pooled = _to_blocks(pooled, count, segment)
    # of every part up to and with each of its members
    values, _ = attend_lines(pooled, key, value, first, see_own, dropout)
    summary = Summary(
        pool_members(in_order.pooled_key, order.rank, segment, span_pool),
        values.flatten(2, 3)[:, :, :length],
    )
    summary, hidden_from = _block_summaries(summary, order, there, num_parts, segment)
    inside = torch.arange(hidden_from.shape[3], device=key.device) - hidden_from.shape[3] + segment
    steps = torch.arange(segment, device=key.device)[:, None]

    def see_past(hidden_from: Tensor) -> Tensor:
        return (hidden_from[..., None, :] > steps) & (inside < steps)

    query = _to_blocks(tokens.query, count, segment)
    past, past_total = attend_lines(query, *summary, hidden_from, see_past, dropout)
    own, own_total = (
        order.restore(part.flatten(2, 3)[:, :, :length]) for part in (own, own_total[..., None])
    )
    past, past_total = (part.flatten(2, 3)[:, :, :length] for part in (past, past_total))
    return merge_attention([own, past], [own_total.squeeze(3), past_total])


def _block_summaries(
    summary: Summary, order: Order, there: Tensor, num_parts: int, segment: int
) -> tuple[Summary, Tensor]:
    """Summaries `(B, H, M, P + s, d)` of parts for M blocks of s tokens, and `(B, H, M, P + s)`.

    The latter: the first token of the block from which the summary is hidden; the next member of
    the part is the first that does not need it, being in the part itself. 0: it is not there.
    """
    source, place, _, part = order
    length = source.shape[2]
    count = -(-length // segment)
    device = source.device
    starts = torch.arange(count, device=device)[:, None] * segment
    # the token after each one in its part
    is_last = functional.pad(part[..., 1:] != part[..., :-1], (0, 1), value=True)
    behind = functional.pad(source[..., 1:], (0, 1)).masked_fill(is_last, length)
    behind = torch.where(there, behind.gather(2, place), 0)
    behind = _to_blocks(behind[..., None], count, segment).squeeze(4) - starts
    inside = (_to_blocks(order.restore(rows), count, segment) for rows in summary)
    if count == 1 and not use_static_layout():
        # nothing is before the first block
        return Summary(*inside), behind
    # members of every part in each block, and before it
    cell = torch.arange(length, device=device) // segment * num_parts
    cell = cell + part.gather(2, place).clamp(max=num_parts - 1)
    sizes = there.expand_as(source).long()
    sizes = sizes.new_zeros(*source.shape[:2], count * num_parts).scatter_add(2, cell, sizes)
    sizes = sizes.unflatten(2, (count, num_parts))
    up_to = sizes.cumsum(2)
    before = up_to - sizes
    size = up_to[:, :, -1:]
    first = size.cumsum(3) - size
    following = functional.pad(source, (0, 1)).gather(2, (first + before).flatten(2))
    following = following.view_as(before).masked_fill(before == size, length)
    following = (following - starts).masked_fill(before == 0, 0)
    index = (first + before - 1).clamp(min=0).flatten(2)[..., None]

    def at_start(rows: Tensor) -> Tensor:
        return rows.gather(2, index.expand(-1, -1, -1, rows.shape[3])).unflatten(
            2, (count, num_parts)
        )

    pairs = zip((at_start(rows) for rows in summary), inside, strict=True)
    return Summary(*(torch.cat(pair, 3) for pair in pairs)), torch.cat([following, behind], 3)


def pool_members(rows: Tensor, rank: Tensor, segment: int, kind: str) -> Tensor:
    """Sorted tokens `(B, H, n, d)` -> the same: their part up to each, pooled as by `pool_span`."""
    if kind == "max":
        return rows.gather(2, _largest_member(rows.detach(), rank, segment))
    sums = _scan_members(rows, rank, segment, torch.add)
    return sums if kind == "sum" else sums / (rank + 1)[..., None]


def _largest_member(rows: Tensor, rank: Tensor, segment: int) -> Tensor:
    """Where the largest value of a part up to each place is, `(B, H, n, d)`."""
    largest = _scan_members(rows, rank, segment, torch.maximum)
    # it is where the largest value became what it is
    is_new = (rank == 0)[..., None] | (largest != _shift(largest, 1))
    places = torch.arange(rows.shape[2], device=rows.device)[:, None]
    return torch.where(is_new, places, 0).cummax(2).values


def _scan_members(
    rows: Tensor, rank: Tensor, segment: int, combine: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """All members of a part up to each, combined: each of log s steps doubles their number."""
    step = 1
    while step < segment:
        rows = torch.where((rank >= step)[..., None], combine(rows, _shift(rows, step)), rows)
        step *= 2
    return rows


def _shift(rows: Tensor, step: int) -> Tensor:
    """`(B, H, n, d)` with every row `step` places later."""
    return functional.pad(rows, (0, 0, step, -step))


def _with_block_before(blocks: Tensor) -> Tensor:
    """Blocks `(B, H, M, s, d)` -> `(B, H, M, 2 s, d)`, each behind the one before it."""
    if blocks.shape[2] == 1 and not use_static_layout():
        return blocks
    before = functional.pad(blocks, (0, 0, 0, 0, 1, 0))[:, :, :-1]
    return torch.cat([before, blocks], 3)


def _to_blocks(rows: Tensor, count: int, size: int) -> Tensor:
    """Tokens `(B, H, n, d)` -> `(B, H, M, s, d)`, 0 beyond the last one."""
    if use_static_layout():
        # a compiler that saw a length with padding expects the layout that padding gives
        rows = rows.contiguous()
    rows = functional.pad(rows, (0, 0, 0, count * size - rows.shape[2]))
    return rows.unflatten(2, (count, size))
