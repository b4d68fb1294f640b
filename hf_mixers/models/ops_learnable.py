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

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from .ops_axial import pool_prefixes
from .ops_grid import grid_of
from .ops_spans import Projected, Summary, masked_softmax, summarise
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
    *,
    causal: bool,
    span_pool: str = "max",
    exclude_own_span: bool = True,
    use_summaries: bool = True,
    dropout: float = 0.0,
) -> Tensor:
    """Attention `(T, H, d)` of the sequences of a pack, given each token's cluster `(T, H)`."""
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
        layout = find_parts(group, there, num_clusters, min(segment, block.width))
        here = tokens.map(layout.spread)
        own, own_seen = _own_scores(here, layout, causal)
        scores, seen, summary = [own], [own_seen], None
        if use_summaries and causal:
            summary, others, others_seen = _past_scores(here, layout, span_pool, dropout)
        elif use_summaries:
            summary = summarise(here, layout.present, span_pool, dropout)
            others = here.query @ summary.key[:, :, None].transpose(3, 4)
            others_seen = _other_parts(layout, exclude_own_span)
        if summary is not None:
            scores.append(others)
            seen.append(others_seen.expand_as(others))
        shares = masked_softmax(torch.cat(scores, 4), torch.cat(seen, 4), dropout)
        shares = shares.to(here.value.dtype)
        width = own.shape[4]
        out = shares[..., :width] @ here.value
        if summary is not None and causal:
            out = out + torch.einsum("bhpsr,bhpsrd->bhpsd", shares[..., width:], summary.value)
        elif summary is not None:
            out = out + shares[..., width:] @ summary.value[:, :, None]
        outputs.append(layout.join(out).transpose(1, 2)[:, None])
    return grid.join(outputs)


def find_parts(clusters: Tensor, there: Tensor, num_clusters: int, segment: int) -> Parts:
    """Parts of at most `segment` tokens of the same cluster.

    Args:
        clusters: `(B, H, n)`.
        there: `(B, 1, n)`, the places that hold a token.
    """
    length = clusters.shape[2]
    places = torch.arange(length, device=clusters.device)
    group = torch.where(there, clusters, num_clusters)
    # by cluster, then by position; no two keys are equal, so any sort will do
    order = (group * length + places).argsort(2)
    group = group.gather(2, order)
    is_first = functional.pad(group[..., 1:] != group[..., :-1], (1, 0), value=True)
    rank = places - torch.where(is_first, places, 0).cummax(2).values
    part = (is_first | (rank % segment == 0)).cumsum(2) - 1
    count = min(length, num_clusters + length // segment)
    # tokens first, so that what is absent begins no part before theirs
    slot = torch.where(group < num_clusters, part * segment + rank % segment, count * segment)
    size = count * segment + 1
    source = torch.zeros(*order.shape[:2], size, dtype=torch.long, device=order.device)
    source = source.scatter(2, slot, order)[..., :-1]
    present = torch.zeros_like(source, dtype=torch.bool)
    present = functional.pad(present, (0, 1)).scatter(2, slot, True)[..., :-1]
    slot = torch.zeros_like(order).scatter(2, order, slot.clamp(max=size - 2))
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


def _past_scores(
    here: Projected, layout: Parts, kind: str, dropout: float
) -> tuple[Summary, Tensor, Tensor]:
    """Summaries `(B, H, P, s, P, d)` of what of each part is before each token; their scores."""
    present = layout.present
    count, size = present.shape[2:]
    places = torch.arange(size, device=present.device)
    numbers = torch.arange(count, device=present.device)
    query = pool_prefixes(here.pooled_query, present, kind)
    keys = pool_prefixes(here.pooled_key, present, kind)
    inside = present[:, :, :, None] & (places <= places[:, None])
    shares = masked_softmax(query @ here.key.transpose(3, 4), inside, dropout)
    values = shares.to(here.value.dtype) @ here.value
    # how many members of each part are before the token of each slot
    far = layout.source.amax() + 1
    position = torch.where(present, layout.source.view_as(present), far)
    asked = position.flatten(2)[:, :, None].expand(-1, -1, count, -1).contiguous()
    before = torch.searchsorted(position, asked).unflatten(3, (count, size))
    before = before.permute(0, 1, 3, 4, 2)
    index = (numbers * size + (before - 1).clamp(min=0)).flatten(2)
    index = index[..., None].expand(-1, -1, -1, keys.shape[4])
    shape = count, size, count
    key, value = (x.flatten(2, 3).gather(2, index).unflatten(2, shape) for x in (keys, values))
    scores = (here.query[:, :, :, :, None] * key).sum(5)
    seen = (before > 0) & (numbers != numbers[:, None])[:, None]
    return Summary(key, value), scores, seen
