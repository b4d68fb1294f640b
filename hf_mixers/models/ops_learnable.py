"""Combiner-Learnable: direct attention inside learned clusters, summaries of all other clusters.

Paper: Combiner: Full Attention Transformer with Sparse Computation Cost, NeurIPS 2021, 4.4; D.
Idea: every head puts each token into the cluster whose centroid is nearest; a token attends to its
  own cluster directly and to each other cluster through one summary. Causal: to what of a cluster
  is before it, so that a cluster has a summary after each of its tokens.
Cost: O(n (s + p)) for a sequence of n tokens in p <= c + n / s parts of c clusters.
Ours differs in that a cluster of more than s tokens is divided into parts of s, each of which is
like a cluster of its own, so that costs do not depend on how even the clusters are. There is no
public code.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from .ops_grid import grid_of
from .ops_learnable_past import Order, attend_past, sort_tokens
from .ops_spans import Projected, masked_softmax, summarise
from .packing import Pack, at_least_float32


class Parts(NamedTuple):
    """Parts of clusters of the sequences of a block: `P` parts of `s` slots for each head."""

    source: Tensor  # (B, H, P s) the token in each slot, any where there is none
    present: Tensor  # (B, H, P, s) slots that hold a token
    slot: Tensor  # (B, H, n) the slot of each token

    def spread(self, rows: Tensor) -> Tensor:
        """Tokens `(B, H, n, d)` -> slots `(B, H, P, s, d)`, 0 without a token."""
        index = self.source[..., None].expand(-1, -1, -1, rows.shape[3])
        slots = rows.gather(2, index).unflatten(2, self.present.shape[2:])
        return slots.masked_fill(~self.present[..., None], 0)

    def join(self, slots: Tensor) -> Tensor:
        """Slots `(B, H, P, s, d)` -> tokens `(B, H, n, d)`."""
        index = self.slot[..., None].expand(-1, -1, -1, slots.shape[4])
        return slots.flatten(2, 3).gather(2, index)


class Choices(NamedTuple):
    """How attention is formed.

    Args:
        causal: Tokens see nothing that comes after them.
        span_pool: How keys and queries of a part are pooled.
        exclude_own_span: The summary of a token's own part does not count.
        use_summaries: Without them there is attention inside parts alone.
        dropout: Of the weights, inside parts and out.
    """

    causal: bool
    span_pool: str = "max"
    exclude_own_span: bool = True
    use_summaries: bool = True
    dropout: float = 0.0


def directions_of(query: Tensor, key: Tensor) -> Tensor:
    """What clusters are made of, `(T, H, d)`: a token's normalised query and key together."""
    width = (query.shape[-1],)
    query, key = at_least_float32(query.detach()), at_least_float32(key.detach())
    return functional.layer_norm(query, width) + functional.layer_norm(key, width)


def assign_clusters(directions: Tensor, centroids: Tensor) -> Tensor:
    """The cluster `(T, H)` of each direction `(T, H, d)`, given centroids `(H, C, d)`."""
    return torch.einsum("thd,hcd->thc", directions, centroids.to(directions.dtype)).argmax(2)


def mean_directions(
    directions: Tensor, clusters: Tensor, pack: Pack, num_clusters: int
) -> tuple[Tensor, Tensor]:
    """The mean direction `(H, C, d)` of each cluster, and how many tokens it has, `(H, C)`."""
    weight = torch.ones_like(directions[:, :, 0])
    if pack.valid is not None:
        weight = pack.blank(weight)
    sums = directions.new_zeros(directions.shape[1], num_clusters, directions.shape[2])
    index = clusters.T[..., None].expand(-1, -1, directions.shape[2])
    sums = sums.scatter_add(1, index, (directions * weight[..., None]).transpose(0, 1))
    counts = sums.new_zeros(sums.shape[:2]).scatter_add(1, clusters.T, weight.T)
    return sums / counts.clamp(min=1)[..., None], counts


def learnable_attention(
    parts: Projected,
    clusters: Tensor,
    pack: Pack,
    num_clusters: int,
    segment: int,
    **settings: Any,
) -> Tensor:
    """Attention `(T, H, d)` of the sequences of a pack, given each token's cluster `(T, H)`.

    Args:
        num_clusters, segment: Clusters, and tokens of a part of one.
        settings: Those of `Choices`.
    """
    choices = Choices(**settings)
    grid = grid_of(pack, None)
    spread = parts.map(grid.spread)
    outputs = []
    numbers = grid.spread(clusters)
    for number, block in enumerate(grid.blocks):
        # (B, H, n, d)
        tokens = Projected(*(part[number] for part in spread))
        tokens = tokens.map(lambda x: x.squeeze(1).transpose(1, 2))
        there = grid.split(grid.present)[number].squeeze(1)[:, None]
        group = numbers[number].squeeze(1).transpose(1, 2)
        size = min(segment, block.width)
        order = sort_tokens(group, there, num_clusters, size)
        num_parts = min(block.width, num_clusters + block.width // size)
        if choices.causal and choices.use_summaries:
            pooling = {"span_pool": choices.span_pool, "dropout": choices.dropout}
            out = attend_past(tokens, order, there, num_parts, size, **pooling)
        else:
            out = _attend_parts(tokens, find_parts(order, there, num_parts, size), choices)
        outputs.append(out.transpose(1, 2)[:, None])
    return grid.join(outputs)


def _attend_parts(tokens: Projected, layout: Parts, choices: Choices) -> Tensor:
    """Attention `(B, H, n, d)` to the own part and, unless causal, to summaries of all others."""
    here = tokens.map(layout.spread)
    own, own_seen = _own_scores(here, layout, choices.causal)
    scores, seen, summary = [own], [own_seen], None
    if choices.use_summaries:
        summary = summarise(here, layout.present, choices.span_pool, choices.dropout)
        others = here.query @ summary.key[:, :, None].transpose(3, 4)
        scores.append(others)
        seen.append(_other_parts(layout, choices.exclude_own_span).expand_as(others))
    shares = masked_softmax(torch.cat(scores, 4), torch.cat(seen, 4), choices.dropout)
    shares = shares.to(here.value.dtype)
    width = own.shape[4]
    out = shares[..., :width] @ here.value
    if summary is not None:
        out = out + shares[..., width:] @ summary.value[:, :, None]
    return layout.join(out)


def find_parts(order: Order, there: Tensor, count: int, segment: int) -> Parts:
    """Parts of at most `segment` tokens of the same cluster, `count` at the most.

    Args:
        there: `(B, 1, n)`, the places that hold a token.
    """
    # tokens first, so that what is absent begins no part before theirs
    is_token = there.expand_as(order.source).gather(2, order.source)
    slot = torch.where(is_token, order.part * segment + order.rank, count * segment)
    size = count * segment + 1
    source = torch.zeros(*slot.shape[:2], size, dtype=torch.long, device=slot.device)
    source = source.scatter(2, slot, order.source)[..., :-1]
    present = torch.zeros_like(source, dtype=torch.bool)
    present = functional.pad(present, (0, 1)).scatter(2, slot, True)[..., :-1]
    slot = slot.gather(2, order.place).clamp(max=size - 2)
    return Parts(source, present.unflatten(2, (count, segment)), slot)


def _own_scores(here: Projected, layout: Parts, causal: bool) -> tuple[Tensor, Tensor]:
    """Scores `(B, H, P, s, s)` of the tokens of the own part, and which count."""
    places = torch.arange(layout.present.shape[3], device=layout.present.device)
    seen = layout.present[:, :, :, None]
    if causal:
        # members are in the order of the sequence
        seen = seen & (places <= places[:, None])
    # an empty slot sees itself, so that no row of scores is empty
    seen = seen | (places == places[:, None])
    return here.query @ here.key.transpose(3, 4), seen


def _other_parts(layout: Parts, exclude_own: bool) -> Tensor:
    """Parts whose summaries count, `(B, H, P, 1, P)`."""
    numbers = torch.arange(layout.present.shape[2], device=layout.present.device)
    others = (numbers != numbers[:, None]) | (not exclude_own)
    return layout.present.any(3)[:, :, None, None] & others[:, None]
