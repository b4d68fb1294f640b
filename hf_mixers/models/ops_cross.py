"""One softmax over keys that the queries of a row share and keys that those of a column share.

A sequence is a grid `(R, m)` of tokens. What all queries of a row see (the row's tokens, say) and
what all queries of a column see are two batches of matrix products, so no query ever has keys of
its own: R m (a + b) scores for a keys per row and b per column. They are computed for some rows at
a time and again in the backward pass, so that few of them are in memory.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from .ops_spans import masked_softmax
from .packing import use_static_layout

# scores in memory at a time, and least rows: all columns are read for every chunk
CHUNK, CHUNK_ROWS = 1 << 21, 16


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
    # each chunk of rows reads all columns: they are turned once
    columns = column_key.contiguous(), column_value.contiguous()
    return _CrossAttention.apply(query, row_key, row_value, *columns, row.mask, column.mask)


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


class _CrossAttention(torch.autograd.Function):
    """The same some rows at a time."""

    @staticmethod
    def forward(query, row_key, row_value, column_key, column_value, row_mask, column_mask):
        out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        sides = Side(row_key, row_value, row_mask), Side(column_key, column_value, column_mask)
        with torch.autocast(query.device.type, enabled=False):
            for rows, row, column in _chunks(query, *sides):
                shares = _shares(query[:, :, rows], row, column).to(query.dtype)
                out[:, :, rows] = _hear(shares, row, column)
        return out

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        query, row_key, row_value, column_key, column_value, *masks, out = ctx.saved_tensors
        sides = Side(row_key, row_value, masks[0]), Side(column_key, column_value, masks[1])
        grads = [torch.empty_like(part) for part in (query, row_key, row_value)]
        columns = [torch.zeros_like(part) for part in (column_key, column_value)]
        width = row_key.shape[3]
        for rows, row, column in _chunks(query, *sides):
            part, change = query[:, :, rows], grad[:, :, rows]
            shares = _shares(part, row, column)
            by_column = change.transpose(2, 3) @ column.value.transpose(3, 4)
            scores = torch.cat([change @ row.value.transpose(3, 4), by_column.transpose(2, 3)], 4)
            scores = scores.to(shares.dtype)
            scores -= (change * out[:, :, rows]).sum(4, keepdim=True)
            scores = scores.mul_(shares).to(query.dtype)
            shares = shares.to(query.dtype)
            turned, turned_shares = (x[..., width:].transpose(2, 3) for x in (scores, shares))
            scores, shares = scores[..., :width], shares[..., :width]
            grads[0][:, :, rows] = scores @ row.key + (turned @ column.key).transpose(2, 3)
            grads[1][:, :, rows] = scores.transpose(3, 4) @ part
            grads[2][:, :, rows] = shares.transpose(3, 4) @ change
            columns[0] += turned.transpose(3, 4) @ part.transpose(2, 3)
            columns[1] += turned_shares.transpose(3, 4) @ change.transpose(2, 3)
        return *grads, *columns, None, None


def _chunks(query: Tensor, row: Side, column: Side) -> Iterator[tuple[slice, Side, Side]]:
    """Rows, what they see of their own and what of their columns."""
    count, heads, num_rows, width, _ = query.shape
    per_row = count * heads * width * (row.key.shape[3] + column.key.shape[3])
    step = max(CHUNK_ROWS, CHUNK // per_row)
    for first in range(0, num_rows, step):
        rows = slice(first, min(first + step, num_rows))
        yield (
            rows,
            Side(row.key[:, :, rows], row.value[:, :, rows], row.mask[:, :, rows]),
            column._replace(mask=column.mask[:, :, :, rows]),
        )
