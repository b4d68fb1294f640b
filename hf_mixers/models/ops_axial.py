"""Combiner-Axial: vertical, horizontal and their mixture.

Paper: Combiner: Full Attention Transformer with Sparse Computation Cost, NeurIPS 2021, 4.3; C.
Idea: a sequence is a grid with rows of m tokens. A token attends to its row and to its column
  directly. Vertical: to each other column through summaries of its parts above and below the
  token's row. Horizontal: to each other row through summaries of its parts left and right of the
  token's column. Mixture: to both kinds in one softmax, as in the released code. Causal: to tokens
  before it in its row, and to nothing below it.
Cost: O(n (m + n / m)) for a sequence of n tokens.
Ours differs from the released code in prefix maxima, where that has sums (`prefix_pool`), and in
empty parts, which are masked; from the appendix in leaving directly attended tokens out of
summaries (`exclude_own_span`), for which a column or row becomes two parts.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .ops_cross import Side, cross_attention, join_sides
from .ops_grid import grid_of
from .ops_spans import Projected, Summary, attend, summarise
from .packing import Pack


class Part(NamedTuple):
    """Summaries `(B, H, A, n, d)` of parts of lines of a grid, and which parts have tokens."""

    summary: Summary
    is_there: Tensor  # (B or 1, A, n)


def axial_attention(
    parts: Projected,
    pack: Pack,
    segment: int,
    *,
    causal: bool,
    vertical: bool,
    horizontal: bool,
    span_pool: str = "max",
    exclude_own_span: bool = True,
    use_summaries: bool = True,
    dropout: float = 0.0,
) -> Tensor:
    """Attention `(T, H, d)` of all sequences of a pack.

    Args:
        vertical: Other columns are summarised.
        horizontal: Other rows are summarised.
        span_pool: `max`, `mean` or `sum`.
    """
    grid = grid_of(pack, segment)
    spread = parts.map(grid.spread)
    outputs = []
    for number, (block, present) in enumerate(zip(grid.blocks, grid.presence(), strict=True)):
        if present is None:
            shape = 1, *block[1:3]
            present = torch.ones(shape, dtype=torch.bool, device=parts.query.device)
        # (B, H, R, m, d)
        here = Projected(*(part[number] for part in spread))
        here = here.map(lambda x: x.permute(0, 3, 1, 2, 4))
        across = here.map(lambda x: x.transpose(2, 3))
        rows, columns = _direct_sides(here, across, present, causal)
        both = causal, exclude_own_span
        if use_summaries and vertical:
            rows += _vertical_sides(across, present, *both, span_pool, dropout)
        if use_summaries and horizontal:
            columns += _horizontal_sides(here, present, *both, span_pool, dropout)
        out = cross_attention(here.query, join_sides(rows), join_sides(columns), dropout)
        outputs.append(out.permute(0, 2, 3, 1, 4))
    return grid.join(outputs)


def _direct_sides(
    here: Projected, across: Projected, present: Tensor, causal: bool
) -> tuple[list[Side], list[Side]]:
    """The row of every token, with itself, and its column, without."""
    places = torch.arange(present.shape[2], device=present.device)
    numbers = torch.arange(present.shape[1], device=present.device)
    row = present[:, :, None].expand(-1, -1, present.shape[2], -1)
    if causal:
        row = row & (places <= places[:, None])
    # an empty slot sees itself, so that no row of scores is empty
    row = row | (places == places[:, None])
    column = present.transpose(1, 2)[:, :, None] & _others(numbers, causal)
    return (
        [Side(here.key, here.value, row[:, None])],
        [Side(across.key, across.value, column[:, None])],
    )


def _others(numbers: Tensor, causal: bool) -> Tensor:
    """Lines that each line sees, `(n, n)`: those before it, or all but itself."""
    return numbers < numbers[:, None] if causal else numbers != numbers[:, None]


def _vertical_sides(
    across: Projected, present: Tensor, causal: bool, strict: bool, kind: str, dropout: float
) -> list[Side]:
    """Parts of other columns, seen by the tokens of a row."""
    by_column = present.transpose(1, 2)
    places = torch.arange(present.shape[2], device=present.device)
    sides = []
    for part in _parts(across, by_column, causal, causal or strict, kind, dropout):
        # part r of column c' is for row r
        key, value = (x.transpose(2, 3) for x in part.summary)
        seen = part.is_there.transpose(1, 2)[:, :, None] & (places != places[:, None])
        sides.append(Side(key, value, seen[:, None]))
    return sides


def _horizontal_sides(
    here: Projected, present: Tensor, causal: bool, strict: bool, kind: str, dropout: float
) -> list[Side]:
    """Parts of other rows, seen by the tokens of a column."""
    numbers = torch.arange(present.shape[1], device=present.device)
    sides = []
    # rows before a token's are known to their ends
    for part in _parts(here, present, False, strict, kind, dropout):
        # part c of row r' is for column c
        key, value = (x.transpose(2, 3) for x in part.summary)
        seen = part.is_there.transpose(1, 2)[:, :, None] & _others(numbers, causal)
        sides.append(Side(key, value, seen[:, None]))
    return sides


def _parts(
    lines: Projected, present: Tensor, one_sided: bool, strict: bool, kind: str, dropout: float
) -> list[Part]:
    """Summaries of lines `(B, H, A, n, d)` for each of their n places.

    Of what is before the place and of what is behind it, unless `one_sided`; not `strict`: of all.
    """
    if not strict:
        whole = summarise(lines, present[:, None], kind, dropout)
        shape = lines.key.shape
        whole = Summary(*(part[:, :, :, None].expand(shape) for part in whole))
        return [Part(whole, present.any(2, keepdim=True).expand_as(present))]
    before = _prefixes(lines, present, kind, dropout)
    if one_sided:
        return [before]
    behind = _prefixes(lines.map(lambda x: x.flip(3)), present.flip(2), kind, dropout)
    summary = Summary(*(part.flip(3) for part in behind.summary))
    return [before, Part(summary, behind.is_there.flip(2))]


def _prefixes(lines: Projected, present: Tensor, kind: str, dropout: float) -> Part:
    """Summaries of what is before each place of a line."""
    count = lines.key.shape[3]
    members = present[:, None]
    query = pool_prefixes(lines.pooled_query, members, kind)
    key = pool_prefixes(lines.pooled_key, members, kind)
    places = torch.arange(count, device=present.device)
    is_empty = (present.cumsum(2) == 0)[..., None]
    seen = present[:, :, None] & (places <= places[:, None])
    # no row of scores may be empty
    seen = seen | ((places == places[:, None]) & is_empty)
    seen = seen.expand(lines.key.shape[0], -1, -1, -1).flatten(0, 1)[:, None]
    q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (query, lines.key, lines.value))
    value = attend(q, k, v, seen, dropout).unflatten(0, (-1, present.shape[1])).transpose(1, 2)
    # up to a place -> before it
    key, value = (
        torch.cat([torch.zeros_like(x[:, :, :, :1]), x[:, :, :, :-1]], 3) for x in (key, value)
    )
    is_there = torch.cat([torch.zeros_like(present[:, :, :1]), present[:, :, :-1]], 2)
    return Part(Summary(key, value), is_there.cumsum(2) > 0)


def pool_prefixes(rows: Tensor, members: Tensor, kind: str) -> Tensor:
    """`(..., n, d)` -> the same: `pool_span` of all places up to each."""
    if kind == "max":
        lowest = torch.finfo(rows.dtype).min
        largest = rows.masked_fill(~members[..., None], lowest).cummax(-2).values
        return largest.masked_fill(~(members.cumsum(-1) > 0)[..., None], 0)
    sums = (rows * members[..., None]).cumsum(-2)
    if kind == "sum":
        return sums
    return sums / members.cumsum(-1).clamp(min=1)[..., None]
