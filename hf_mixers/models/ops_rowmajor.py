"""Combiner-Axial, row-major: direct attention inside rows, and each other row as a column sees it.

Paper: Combiner: Full Attention Transformer with Sparse Computation Cost, NeurIPS 2021, 4.3; C.
Idea: a sequence is a grid with rows of m tokens. The token at (r, c) attends to all of its row, and
  what it finds is the row's summary for column c; a token attends to its own row directly and to
  each other row through the summary for its own column. Causal: to rows before its own.
Cost: O(n (m + n / m)) for a sequence of n tokens.
Ours differs in leaving the own row's summary out where the released code keeps it
(`exclude_own_span`), and in that lengths need not divide: columns beyond the end of a last row see
it as its last token does.
"""

import torch
from torch import Tensor

from .ops_cross import Side, cross_attention
from .ops_grid import GridBlock, grid_of
from .ops_spans import Projected, attend
from .packing import Pack


def row_attention(
    query: Tensor, key: Tensor, value: Tensor, pack: Pack, segment: int, dropout: float = 0.0
) -> Tensor:
    """Attention `(T, H, d)` of every token to all tokens of its row, in both directions."""
    grid = grid_of(pack, segment)
    outputs = []
    spread = (grid.spread(part) for part in (query, key, value))
    for q, k, v, block, present in zip(*spread, grid.blocks, grid.presence(), strict=True):
        mask = None
        if present is not None:
            mask = _row_mask(block, present, False).flatten(0, 1)[:, None]
        q, k, v = (x.flatten(0, 1).transpose(1, 2) for x in (q, k, v))
        out = attend(q, k, v, mask, dropout)
        outputs.append(out.transpose(1, 2).unflatten(0, (block.count, block.rows)))
    return grid.join(outputs)


def rowmajor_attention(
    parts: Projected,
    summary_key: Tensor,
    summary_value: Tensor,
    pack: Pack,
    segment: int,
    *,
    causal: bool,
    exclude_own_span: bool = True,
    dropout: float = 0.0,
) -> Tensor:
    """Attention `(T, H, d)`, given the summaries `(T, H, d)` of rows for columns.

    At each token stands the summary of its row for its column.
    """
    grid = grid_of(pack, segment)
    spread = [grid.spread(part) for part in parts[:3]]
    spread += [grid.spread_nearest(part) for part in (summary_key, summary_value)]
    outputs = []
    for *here, block, present in zip(*spread, grid.blocks, grid.presence(), strict=True):
        if present is None:
            present = torch.ones(1, *block[1:3], dtype=torch.bool, device=parts.query.device)
        # (B, H, R, m, d), summaries (B, H, m, R, d)
        query, key, value = (x.permute(0, 3, 1, 2, 4) for x in here[:3])
        keys, values = (x.permute(0, 3, 2, 1, 4) for x in here[3:])
        row = Side(key, value, _row_mask(block, present, causal)[:, None])
        if block.rows == 1 and (causal or exclude_own_span):
            mask = row.mask.squeeze(2)
            out = attend(query.squeeze(2), key.squeeze(2), value.squeeze(2), mask, dropout)
            out = out[:, :, None]
        else:
            mask = _column_mask(block, present, causal, exclude_own_span)[:, None]
            out = cross_attention(query, row, Side(keys, values, mask), dropout)
        outputs.append(out.permute(0, 2, 3, 1, 4))
    return grid.join(outputs)


def _row_mask(block: GridBlock, present: Tensor, causal: bool) -> Tensor:
    """Tokens of its row that each token sees, `(B or 1, R, m, m)`."""
    places = torch.arange(block.width, device=present.device)
    seen = present[:, :, None]
    if causal:
        seen = seen & (places <= places[:, None])
    # an empty slot sees itself, so that no row of scores is empty
    return seen | (places == places[:, None])


def _column_mask(block: GridBlock, present: Tensor, causal: bool, exclude_own: bool) -> Tensor:
    """Rows whose summaries each token of a column sees, `(B or 1, m, R, R)`."""
    numbers = torch.arange(block.rows, device=present.device)
    if causal:
        seen = numbers < numbers[:, None]
    else:
        seen = (numbers != numbers[:, None]) | (not exclude_own)
    seen = seen & present[:, None, None, :, 0]
    return seen.expand(-1, block.width, -1, -1)
