"""Softmax attention of lines of queries to lines of keys, some lines at a time.

Scores of some lines are computed, used, and computed again in the backward pass, so that few of
them are in memory, and masks are made for no more lines than that. Next to its result every query
has the logarithm of the sum it was divided by: with it, `merge_attention` makes one softmax of
attention to several sets of keys, whose lines may be in different orders.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from .packing import at_least_float32, use_static_layout

# scores in memory at a time: on a processor such as caches hold, on an accelerator 128 MiB
CHUNK = 1 << 18
ACCELERATOR_CHUNK = 1 << 25

See = Callable[[Tensor], Tensor]


def attend_lines(
    query: Tensor, key: Tensor, value: Tensor, notes: Tensor, see: See, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Attention `(..., q, d)` of `(..., q, d)` to `(..., k, d)`, and log-sum-exp `(..., q)`.

    Args:
        notes: `(..., x)`, from which `see` makes the mask `(..., q, k)` of some lines. A query
            that sees no key at all has a log-sum-exp that leaves it no share in a merge.
    """
    key, value = key.to(query.dtype), value.to(query.dtype)
    if dropout or use_static_layout():
        scores = _scores(query, key, see(notes))
        shares = scores.softmax(-1)
        shares = functional.dropout(shares, dropout) if dropout else shares
        return shares.to(query.dtype) @ value, scores.logsumexp(-1)
    shape = query.shape[:-2]
    lines = (part.flatten(0, len(shape) - 1) for part in (query, key, value, notes))
    out, total = _LineAttention.apply(*lines, see)
    return out.unflatten(0, shape), total.unflatten(0, shape)


def merge_attention(outputs: Sequence[Tensor], totals: Sequence[Tensor]) -> Tensor:
    """Attention `(..., q, d)` to all keys together, given that to each set and its log-sum-exp."""
    shares = torch.stack(tuple(totals), -1).softmax(-1).to(outputs[0].dtype)
    merged = outputs[0] * shares[..., :1]
    for number, part in enumerate(outputs[1:], 1):
        merged = merged + part * shares[..., number, None]
    return merged


def _scores(query: Tensor, key: Tensor, seen: Tensor) -> Tensor:
    """In float32 at least; the lowest number where a query does not see a key."""
    scores = at_least_float32(query @ key.transpose(-1, -2))
    return scores.masked_fill(~seen, torch.finfo(scores.dtype).min)


class _LineAttention(torch.autograd.Function):
    """Lines `(N, q, d)`, `(N, k, d)`, some at a time."""

    @staticmethod
    def forward(query, key, value, notes, see):
        out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        totals = at_least_float32(query.new_empty(query.shape[:2]))
        with torch.autocast(query.device.type, enabled=False):
            for lines in _chunks(query, key):
                scores = _scores(query[lines], key[lines], see(notes[lines]))
                shares = scores.softmax(2)
                totals[lines] = scores.amax(2) - shares.amax(2).log_()
                out[lines] = shares.to(query.dtype) @ value[lines]
        return out, totals

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.see = inputs
        ctx.save_for_backward(*tensors, output[0])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, total_grad):
        query, key, value, notes, out = ctx.saved_tensors
        grads = [torch.empty_like(part) for part in (query, key, value)]
        for lines in _chunks(query, key):
            q, k, v, change = query[lines], key[lines], value[lines], grad[lines]
            shares = _scores(q, k, ctx.see(notes[lines])).softmax(2)
            common = (change * out[lines]).sum(2).to(shares.dtype) - total_grad[lines]
            scores = (change @ v.transpose(1, 2)).to(shares.dtype)
            scores = scores.sub_(common[..., None]).mul_(shares).to(query.dtype)
            grads[0][lines] = scores @ k
            grads[1][lines] = scores.transpose(1, 2) @ q
            grads[2][lines] = shares.to(query.dtype).transpose(1, 2) @ change
        return *grads, None, None


def _chunks(query: Tensor, key: Tensor) -> Iterator[slice]:
    """Lines whose scores are computed together."""
    count = query.shape[0]
    most = CHUNK if query.device.type == "cpu" else ACCELERATOR_CHUNK
    step = max(1, most // max(1, query.shape[1] * key.shape[1]))
    for first in range(0, count, step):
        yield slice(first, min(first + step, count))
