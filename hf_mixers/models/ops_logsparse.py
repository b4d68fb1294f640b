"""Combiner-Logsparse: a token attends to itself and to log n summaries that tile all others.

Paper: Combiner: Full Attention Transformer with Sparse Computation Cost, NeurIPS 2021, 4.2; B.
Idea: for every bit l that is set in its position i, a token attends to the span of 2^l tokens
  [(b - 1) 2^l, b 2^l) with b = i >> l; these spans tile what is before it. In both directions: the
  same from the other end of the sequence.
Cost: O(n log n) for a sequence of n tokens.
Ours differs in as many levels as the last position has bits: the released code has one too few for
2^k + 1 tokens.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from .ops_grid import Grid, grid_of
from .ops_spans import Projected, Summary, masked_softmax, summarise
from .packing import Pack

# tokens of a span from which on matrix products are faster than products of elements
MATMUL_SPAN = 16


class Level(NamedTuple):
    """Spans of one size and the tokens that attend to them, of a block of sequences.

    `(first, groups, size, seen)`: from slot `first` on there are `groups` spans of `size` tokens,
    each followed by `seen` tokens that attend to it.
    """

    first: int
    groups: int
    size: int
    seen: int

    def spans(self, rows: Tensor) -> Tensor:
        """`(B, H, n, ...)` -> `(B, H, groups, size, ...)`."""
        return self._pairs(rows)[:, :, :, : self.size]

    def viewers(self, rows: Tensor) -> Tensor:
        """`(B, H, n, ...)` -> `(B, H, groups, seen, ...)`."""
        return self._pairs(rows)[:, :, :, self.size :]

    def _pairs(self, rows: Tensor) -> Tensor:
        width = self.size + self.seen
        part = rows[:, :, self.first : self.first + self.groups * width]
        return part.unflatten(2, (self.groups, width))


def levels_of(length: int) -> Iterator[list[Level]]:
    """For every size of spans, whole pairs of span and tokens and the pair at the end, if any.

    >>> [[tuple(part) for part in level] for level in levels_of(6)]
    [[(0, 3, 1, 1)], [(0, 1, 2, 2)], [(0, 1, 4, 2)]]
    """
    for level in range((length - 1).bit_length()):
        size = 1 << level
        # lengths of compilers have no divmod
        groups, rest = length // (2 * size), length % (2 * size)
        found = [Level(0, groups, size, size)] if groups else []
        if rest > size:
            found.append(Level(groups * 2 * size, 1, size, rest - size))
        yield found


def logsparse_attention(
    parts: Projected, pack: Pack, *, causal: bool, span_pool: str = "max", dropout: float = 0.0
) -> Tensor:
    """Attention `(T, H, d)` of all sequences of a pack."""
    grid = grid_of(pack, None)
    spread = parts.map(grid.spread)
    outputs = []
    for number, turn in enumerate(_turns(pack, grid)):
        # (B, H, n, d)
        here = Projected(*(part[number] for part in spread)).map(
            lambda x: x.squeeze(1).transpose(1, 2).contiguous()
        )
        directions = [here] if causal else [here, here.map(lambda x, t=turn: _turn(x, t))]
        out = _attend_block(directions, turn, span_pool, dropout)
        outputs.append(out.transpose(1, 2)[:, None])
    return grid.join(outputs)


def _attend_block(
    directions: list[Projected], turn: Tensor | None, kind: str, dropout: float
) -> Tensor:
    """The sequences of a block, forwards and, for both directions, turned round."""
    query, key, value = directions[0][:3]
    length = query.shape[2]
    scores = [(query * key).sum(3)[..., None]]
    found = []
    for number, parts in enumerate(directions):
        summaries = list(_summaries(parts, length, kind, dropout))
        found.append(summaries)
        seen = [_scores(parts.query, level, length) for level in summaries]
        if seen:
            seen = torch.stack(seen, 3)
            scores.append(seen if number == 0 else _turn(seen, turn))
    shares = masked_softmax(torch.cat(scores, 3), None).to(value.dtype)
    if dropout:
        shares = functional.dropout(shares, dropout)
    out = shares[..., :1] * value
    first = 1
    for number, summaries in enumerate(found):
        weights = shares[..., first : first + len(summaries)]
        first += len(summaries)
        if not summaries:
            continue
        weights = weights if number == 0 else _turn(weights, turn)
        heard = _hear(weights, summaries, value)
        out = out + (heard if number == 0 else _turn(heard, turn))
    return out


def _summaries(
    parts: Projected, length: int, kind: str, dropout: float
) -> Iterator[list[tuple[Level, Summary]]]:
    for level in levels_of(length):
        found = []
        for part in level:
            if part.size == 1:
                # one token is attended as it is
                spans = (part.spans(rows).squeeze(3) for rows in (parts.key, parts.value))
                found.append((part, Summary(*spans)))
            else:
                found.append((part, summarise(parts.map(part.spans), None, kind, dropout)))
        yield found


def _scores(query: Tensor, level: list[tuple[Level, Summary]], length: int) -> Tensor:
    """Scores `(B, H, n)` of the spans of one size, the lowest number where there is none."""
    lowest = torch.finfo(query.dtype).min
    out, done = [], 0
    for part, summary in level:
        viewers = part.viewers(query)
        if part.size < MATMUL_SPAN:
            scores = (viewers * summary.key[:, :, :, None]).sum(4)
        else:
            scores = (viewers @ summary.key[..., None]).squeeze(4)
        out.append(functional.pad(scores, (part.size, 0), value=lowest).flatten(2))
        done = part.first + part.groups * (part.size + part.seen)
    scores = torch.cat(out, 2)
    return functional.pad(scores, (0, length - done), value=lowest)


def _hear(shares: Tensor, summaries: list[list[tuple[Level, Summary]]], value: Tensor) -> Tensor:
    """Sum of the values of all spans, weighed by `(B, H, n, levels)`."""
    total = None
    for number, level in enumerate(summaries):
        out, done = [], 0
        for part, summary in level:
            weights = part.viewers(shares[..., number])
            heard = weights[..., None] * summary.value[:, :, :, None]
            out.append(functional.pad(heard, (0, 0, part.size, 0)).flatten(2, 3))
            done = part.first + part.groups * (part.size + part.seen)
        heard = torch.cat(out, 2) if len(out) > 1 else out[0]
        if done < value.shape[2]:
            heard = functional.pad(heard, (0, 0, 0, value.shape[2] - done))
        total = heard if total is None else total + heard
    return total


def _turns(pack: Pack, grid: Grid) -> list[Tensor | None]:
    """For every block, where the slots `(B, n)` of a sequence go when it is turned round.

    None where all sequences are as long as their block.
    """
    turned, first = [], 0
    for block in grid.blocks:
        lengths = pack.lengths[first : first + block.count, None]
        places = torch.arange(block.width, device=lengths.device)
        turn = torch.where(places < lengths, lengths - 1 - places, places)
        turned.append(None if block.is_full else turn)
        first = first + block.count
    return turned


def _turn(rows: Tensor, turn: Tensor | None) -> Tensor:
    """`(B, H, n, c)` with the sequences the other way round."""
    if turn is None:
        return rows.flip(2)
    return _Turn.apply(rows, turn[:, None, :, None].expand_as(rows))


class _Turn(torch.autograd.Function):
    """A permutation along the third dimension that is its own inverse, and so its own gradient."""

    @staticmethod
    def forward(rows, index):
        return rows.gather(2, index)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx, grad):
        return _Turn.apply(grad, ctx.saved_tensors[0]), None
