"""Summaries of spans of tokens, and softmax attention over tokens and summaries together.

Paper: Combiner: Full Attention Transformer with Sparse Computation Cost, NeurIPS 2021.
Idea: a query attends to some tokens directly and to every other token through the summary of the
  span that it lies in; one softmax runs over the direct tokens and the summaries. The key of a
  span is the largest value of its keys, channel by channel, and its value is a mean of its values,
  weighed by softmax attention of the span's query, the largest value of its queries.

Queries are scaled by the caller. Spans are `(..., n, d)` with a mask `(..., n)` of members.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from .packing import at_least_float32


class Projected(NamedTuple):
    """What attention reads of every token; all are `(..., d)` of the same shape.

    `pooled_query` and `pooled_key` are what spans pool; they are the queries and keys, unless
    something learned stands between.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    pooled_query: Tensor
    pooled_key: Tensor

    def map(self, function) -> "Projected":
        """The same after a function of one tensor, called once for each different one."""
        done = {}
        for part in self:
            if id(part) not in done:
                done[id(part)] = function(part)
        return Projected(*(done[id(part)] for part in self))


class Summary(NamedTuple):
    """Key and value `(..., d)` of spans."""

    key: Tensor
    value: Tensor


def pool_span(rows: Tensor, members: Tensor | None, kind: str) -> Tensor:
    """`(..., n, d)` -> `(..., d)` over the members: their `max`, `mean` or `sum`; 0 of none."""
    if kind != "max":
        sums = (rows if members is None else rows * members[..., None]).sum(-2)
        if kind == "sum":
            return sums
        if members is None:
            return sums / rows.shape[-2]
        return sums / members.sum(-1, keepdim=True).clamp(min=1)
    if members is None:
        return rows.amax(-2)
    lowest = torch.finfo(rows.dtype).min
    largest = rows.masked_fill(~members[..., None], lowest).amax(-2)
    return largest.masked_fill(~members.any(-1, keepdim=True), 0)


def summarise(parts: Projected, members: Tensor | None, kind: str, dropout: float = 0.0) -> Summary:
    """Summaries of spans `(..., n, d)`: tokens in the last dimension but one."""
    query = pool_span(parts.pooled_query, members, kind)
    scores = (parts.key @ query[..., None]).squeeze(-1)
    shares = masked_softmax(scores, members, dropout)
    value = (shares[..., None, :].to(parts.value.dtype) @ parts.value).squeeze(-2)
    return Summary(pool_span(parts.pooled_key, members, kind), value)


def masked_softmax(scores: Tensor, mask: Tensor | None, dropout: float = 0.0) -> Tensor:
    """Softmax over the last dimension, in float32 at least; uniform where all is masked."""
    scores = at_least_float32(scores)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    shares = scores.softmax(-1)
    return functional.dropout(shares, dropout) if dropout else shares


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float = 0.0
) -> Tensor:
    """Softmax attention `(B, H, n, d)` to `(B, H, m, d)`; `mask` is additive or of truth values."""
    if torch.compiler.is_exporting():
        # exporters take sdpa apart, and ask which stride is larger, for any number of rows
        scores = query @ key.transpose(-1, -2)
        if mask is not None and mask.dtype != torch.bool:
            scores, mask = scores + mask, None
        return masked_softmax(scores, mask, dropout).to(value.dtype) @ value
    return functional.scaled_dot_product_attention(
        query, key, value, mask, dropout_p=dropout, scale=1.0
    )
