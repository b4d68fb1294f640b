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
        layout = find_parts(group, there, num_clusters, min(segment, block.width))
        attend = _attend_past if choices.causal and choices.use_summaries else _attend_parts
        out = attend(tokens, layout, there, choices)
        outputs.append(out.transpose(1, 2)[:, None])
    return grid.join(outputs)


def _attend_parts(tokens: Projected, layout: Parts, there: Tensor, choices: Choices) -> Tensor:
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


def _attend_past(tokens: Projected, layout: Parts, there: Tensor, choices: Choices) -> Tensor:
    """Attention `(B, H, n, d)` to what of the own part and, by summaries, of others is before.

    A token sees of every other part the summary after its last member before the token. Tokens are
    taken in blocks of s: those of a block share the summaries at its start, which the members of a
    part inside the block replace one after the other. So a block has P + s summaries, most of them
    hidden from a token, and all is done by products of dense matrices.
    """
    here = tokens.map(layout.spread)
    own, own_seen = _own_scores(here, layout, causal=True)
    summary, seen = _past_summaries(here, layout, there, choices)
    count, size = summary.key.shape[2], layout.present.shape[3]
    others = _to_blocks(tokens.query, count, size) @ summary.key.transpose(3, 4)
    length = tokens.query.shape[2]
    scores = [layout.join(own), others.flatten(2, 3)[:, :, :length]]
    masks = [layout.join(own_seen.expand_as(own)), seen.flatten(2, 3)[:, :, :length]]
    shares = masked_softmax(torch.cat(scores, 3), torch.cat(masks, 3), choices.dropout)
    shares = shares.to(here.value.dtype)
    own_out = layout.join(layout.spread(shares[..., :size]) @ here.value)
    out = _to_blocks(shares[..., size:], count, size) @ summary.value
    return own_out + out.flatten(2, 3)[:, :, :length]


def _past_summaries(
    here: Projected, layout: Parts, there: Tensor, choices: Choices
) -> tuple[Summary, Tensor]:
    """Summaries `(B, H, M, P + s, d)` for M blocks of s tokens; which token sees which of them."""
    keys, values = _summarise_prefixes(here, layout.present, choices)
    parts, size = layout.present.shape[2:]
    length = layout.slot.shape[2]
    count = -(-length // size)
    device = keys.device
    places = torch.arange(count * size, device=device).view(count, size)
    numbers = torch.arange(parts, device=device)
    # of every part, its members before each block and the place of its next one
    position = layout.source.view_as(layout.present).masked_fill(~layout.present, length)
    asked = places[:, 0].expand(*position.shape[:3], count).contiguous()
    before = torch.searchsorted(position, asked)
    following = functional.pad(position, (0, 1), value=length).gather(3, before).transpose(2, 3)
    index = (numbers[:, None] * size + (before - 1).clamp(min=0)).transpose(2, 3).flatten(2)
    before = before.transpose(2, 3)
    # of every token, its part and the place of the part's next member
    part = _to_blocks((layout.slot // size)[..., None], count, size).squeeze(4)
    replaced = layout.join(functional.pad(position[..., 1:], (0, 1), value=length)[..., None])
    replaced = _to_blocks(replaced, count, size).squeeze(4)
    is_token = _to_blocks(there[..., None], count, size).squeeze(4)
    at_start = (before > 0)[..., None, :] & (following[..., None, :] >= places[..., None])
    at_start = at_start & (numbers != part[..., None])
    inside = (places[:, None] < places[..., None]) & (replaced[..., None, :] >= places[..., None])
    inside = inside & (part[..., None, :] != part[..., None]) & is_token[..., None, :]

    def choose(rows: Tensor) -> Tensor:
        at = index[..., None].expand(-1, -1, -1, rows.shape[4])
        first = rows.flatten(2, 3).gather(2, at).unflatten(2, (count, parts))
        return torch.cat([first, _to_blocks(layout.join(rows), count, size)], 3)

    return Summary(choose(keys), choose(values)), torch.cat([at_start, inside], 4)


def _summarise_prefixes(here: Projected, present: Tensor, choices: Choices) -> Summary:
    """Key and value `(B, H, P, s, d)` of every part up to and with each of its members."""
    places = torch.arange(present.shape[3], device=present.device)
    query = pool_prefixes(here.pooled_query, present, choices.span_pool)
    inside = present[:, :, :, None] & (places <= places[:, None])
    shares = masked_softmax(query @ here.key.transpose(3, 4), inside, choices.dropout)
    keys = pool_prefixes(here.pooled_key, present, choices.span_pool)
    return Summary(keys, shares.to(here.value.dtype) @ here.value)


def _to_blocks(rows: Tensor, count: int, size: int) -> Tensor:
    """Tokens `(B, H, n, d)` -> `(B, H, M, s, d)`, 0 beyond the last one."""
    rows = functional.pad(rows, (0, 0, 0, count * size - rows.shape[2]))
    return rows.unflatten(2, (count, size))


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
