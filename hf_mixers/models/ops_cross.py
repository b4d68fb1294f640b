"""One softmax over keys that the queries of a row share and keys that those of a column share.

A sequence is a grid `(R, m)` of tokens. What all queries of a row see (the row's tokens, say) and
what all queries of a column see are two batches of matrix products, so no query ever has keys of
its own: R m (a + b) scores for a keys per row and b per column.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from .ops_lines import attend_lines, merge_attention
from .ops_spans import masked_softmax
from .packing import use_static_layout


class Side(NamedTuple):
    """Keys and values `(B, H, R, a, d)` of the rows of a grid, or `(B, H, m, b, d)` of its columns.

    `mask` says which of them each query sees: `(B or 1, 1, R, m, a)`, or `(B or 1, 1, m, R, b)`.
    """

    key: Tensor
    value: Tensor
    mask: Tensor


def join_sides(sides: Sequence[Side]) -> Side:
    """Several sides of the same rows or columns as one."""
    if len(sides) == 1:
        return sides[0]
    count = max(side.mask.shape[0] for side in sides)
    masks = [side.mask.expand(count, -1, -1, -1, -1) for side in sides]
    keys, values, _ = zip(*sides, strict=True)
    return Side(torch.cat(keys, 3), torch.cat(values, 3), torch.cat(masks, 4))


def cross_attention(query: Tensor, row: Side, column: Side, dropout: float = 0.0) -> Tensor:
    """Attention of queries `(B, H, R, m, d)` to the keys of their rows and of their columns."""
    tensors = (part.to(query.dtype) for part in (*row[:2], *column[:2]))
    row_key, row_value, column_key, column_value = tensors
    if dropout or use_static_layout():
        row = Side(row_key, row_value, row.mask)
        column = Side(column_key, column_value, column.mask)
        shares = _shares(query, row, column)
        shares = functional.dropout(shares, dropout) if dropout else shares
        return _hear(shares.to(query.dtype), row, column)
    by_row, row_total = _attend_side(query, Side(row_key, row_value, row.mask))
    turned = _attend_side(query.transpose(2, 3), Side(column_key, column_value, column.mask))
    by_column, column_total = (part.transpose(2, 3) for part in turned)
    return merge_attention([by_row, by_column], [row_total, column_total])


def _attend_side(query: Tensor, side: Side) -> tuple[Tensor, Tensor]:
    """Attention `(B, H, R, m, d)` to a side, and log-sum-exp `(B, H, R, m)`."""
    count, heads, num_rows = query.shape[:3]
    # which mask is that of a line: heads share them, and sequences may
    numbers = torch.arange(side.mask.shape[0] * num_rows, device=query.device)
    numbers = numbers.view(-1, 1, num_rows, 1).expand(count, heads, -1, -1)
    masks = side.mask.flatten(0, 2)
    return attend_lines(query, *side[:2], numbers, lambda lines: masks[lines.squeeze(-1)])


def _shares(query: Tensor, row: Side, column: Side) -> Tensor:
    """`(B, H, R, m, a + b)` in float32 at least."""
    by_row = query @ row.key.transpose(3, 4)
    by_column = (query.transpose(2, 3) @ column.key.transpose(3, 4)).transpose(2, 3)
    masks = row.mask, column.mask.transpose(2, 3)
    count = max(mask.shape[0] for mask in masks)
    mask = torch.cat([part.expand(count, -1, -1, -1, -1) for part in masks], 4)
    return masked_softmax(torch.cat([by_row, by_column], 4), mask)


def _hear(shares: Tensor, row: Side, column: Side) -> Tensor:
    """Values weighed by shares, `(B, H, R, m, d)`."""
    width = row.key.shape[3]
    out = shares[..., :width] @ row.value
    return out + (shares[..., width:].transpose(2, 3) @ column.value).transpose(2, 3)
