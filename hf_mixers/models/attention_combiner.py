"""Attention of a Combiner: projections, the pattern, and one step of it with a cache."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import initialization as init

from .cache_combiner import CombinerCacheLayer
from .configuration_combiner import CombinerConfig
from .ops_axial import axial_attention
from .ops_fixed import fixed_attention
from .ops_learnable import (
    assign_clusters,
    directions_of,
    learnable_attention,
    mean_directions,
)
from .ops_logsparse import logsparse_attention
from .ops_rowmajor import row_attention, rowmajor_attention
from .ops_spans import Projected
from .packing import Pack
from .starts import start_as_branch_end


class ClusterCentroids(nn.Module):
    """Centroids of the clusters of every head, which follow the tokens of training batches.

    A training step works with the centroids before it: `commit` takes over what the step before
    has found. So computing a block again in the backward pass finds the same clusters.
    """

    def __init__(self, config: CombinerConfig):
        super().__init__()
        self.decay = config.cluster_decay
        shape = config.num_attention_heads, config.num_clusters, config.head_size
        self.register_buffer("centroids", torch.empty(shape))
        self.register_buffer("next_centroids", torch.empty(shape))

    def reset_parameters(self) -> None:
        init.normal_(self.centroids)
        init.copy_(self.next_centroids, self.centroids)

    @torch.no_grad()
    def commit(self) -> None:
        self.centroids.copy_(self.next_centroids)

    @torch.no_grad()
    def forward(self, parts: Projected, pack: Pack) -> Tensor:
        """The cluster `(T, H)` of each token."""
        directions = directions_of(parts.query, parts.key)
        clusters = assign_clusters(directions, self.centroids)
        if self.training:
            count = self.centroids.shape[1]
            means, counts = mean_directions(directions, clusters, pack, count)
            moved = self.centroids.lerp(means.to(self.centroids.dtype), 1 - self.decay)
            self.next_centroids.copy_(torch.where((counts > 0)[..., None], moved, self.centroids))
        return clusters


class CombinerAttention(nn.Module):
    """Multi-head attention with the pattern of the configuration."""

    def __init__(self, config: CombinerConfig):
        super().__init__()
        self.config = config
        width, size = config.hidden_size, config.head_size
        self.q_proj = nn.Linear(width, width, bias=config.attention_bias)
        self.k_proj = nn.Linear(width, width, bias=config.attention_bias)
        self.v_proj = nn.Linear(width, width, bias=config.attention_bias)
        o_proj = nn.Linear(width, width, bias=config.attention_bias)
        self.o_proj = start_as_branch_end(o_proj, config)
        is_rowmajor = config.pattern == "axial_rowmajor"
        pools = config.use_summaries and not is_rowmajor
        self.has_deepset = pools and config.span_pool == "deepset"
        if self.has_deepset:
            self.span_query = nn.Linear(size, size, bias=False)
            self.span_key = nn.Linear(size, size, bias=False)
        if config.pattern == "learnable":
            self.routing = ClusterCentroids(config)
        self.projects_rows = (
            is_rowmajor and config.use_summaries and config.row_summary.endswith("proj")
        )
        if self.projects_rows:
            self.row_output = nn.Linear(width, width, bias=config.attention_bias)
            self.row_norm = nn.LayerNorm(width, eps=config.norm_eps)
            self.row_key = nn.Linear(width, width, bias=config.attention_bias)
            self.row_dropout = nn.Dropout(config.hidden_dropout_prob)

    @property
    def dropout(self) -> float:
        return self.config.attention_probs_dropout_prob if self.training else 0.0

    def forward(
        self, hidden: Tensor, pack: Pack, cache: CombinerCacheLayer | None = None
    ) -> Tensor:
        parts = self.project(hidden)
        if cache is not None and cache.is_initialized:
            out = cache.extend(parts, hidden, pack, self.row_keys)
        else:
            out = self.mix(parts, hidden, pack, cache)
        if self.has_deepset:
            out = with_gradients(out, parts.pooled_query, parts.pooled_key)
        return self.o_proj(out.flatten(1))

    def project(self, hidden: Tensor) -> Projected:
        """Queries, scaled, keys and values, `(T, H, d)` each, and what of them is pooled."""
        shape = -1, self.config.head_size
        query = self.q_proj(hidden).unflatten(1, shape) * self.config.head_size**-0.5
        key = self.k_proj(hidden).unflatten(1, shape)
        value = self.v_proj(hidden).unflatten(1, shape)
        if not self.has_deepset:
            return Projected(query, key, value, query, key)
        pooled = functional.relu(self.span_query(query)), functional.relu(self.span_key(key))
        return Projected(query, key, value, *pooled)

    def mix(
        self, parts: Projected, hidden: Tensor, pack: Pack, cache: CombinerCacheLayer | None
    ) -> Tensor:
        """The pattern `(T, H, d)`, and its beginning of a cache."""
        config = self.config
        settings = {"causal": config.causal, "dropout": self.dropout}
        pooling = {"span_pool": config.pool_kind}
        overlap = {"exclude_own_span": config.exclude_own_span}
        if config.pattern == "axial_rowmajor" and config.use_summaries:
            return self._mix_rows(parts, hidden, pack, cache, settings | overlap)
        if cache is not None:
            cache.fill(parts, hidden, pack)
        if config.pattern == "logsparse":
            return logsparse_attention(parts, pack, **settings, **pooling)
        overlap["use_summaries"] = config.use_summaries
        if config.pattern in ("fixed", "axial_rowmajor"):
            return fixed_attention(
                parts, pack, config.segment_length, **settings, **pooling, **overlap
            )
        if config.pattern == "learnable":
            return learnable_attention(
                parts,
                self.routing(parts, pack),
                pack,
                config.num_clusters,
                config.segment_length,
                **settings,
                **pooling,
                **overlap,
            )
        return axial_attention(
            parts,
            pack,
            config.segment_length,
            vertical=config.pattern != "axial_horizontal",
            horizontal=config.pattern != "axial_vertical",
            **settings,
            **pooling,
            **overlap,
        )

    def _mix_rows(
        self,
        parts: Projected,
        hidden: Tensor,
        pack: Pack,
        cache: CombinerCacheLayer | None,
        settings: dict,
    ) -> Tensor:
        segment = self.config.segment_length
        query, key, value = parts[:3]
        found = row_attention(query, key, value, pack, segment, self.dropout)
        weighted = None
        if self.config.row_summary.startswith("wsum"):
            weighted = row_attention(query, key, key, pack, segment, self.dropout)
        keys = self.row_keys(hidden, key, found, weighted)
        if cache is not None:
            cache.fill(parts, hidden, pack, keys, found)
        out = rowmajor_attention(parts, keys, found, pack, segment, **settings)
        return with_gradients(out, keys) if self.projects_rows else out

    def row_keys(
        self, hidden: Tensor, key: Tensor, found: Tensor, weighted: Tensor | None
    ) -> Tensor:
        """The key `(..., H, d)` of each token's row for the token's column.

        Takes the tokens `(..., D)`, their keys, and what they found in their rows: the weighted
        sums of values and, where asked for, of keys.
        """
        if not self.projects_rows:
            return key if weighted is None else weighted
        source = found if weighted is None else weighted
        inner = hidden + self.row_dropout(self.row_output(source.flatten(-2)))
        return self.row_key(self.row_norm(inner)).unflatten(-1, (-1, self.config.head_size))


def with_gradients(out: Tensor, *others: Tensor) -> Tensor:
    """`out`, with a gradient of 0 for what sequences of one segment do not use.

    All processes of a distributed run must have gradients of the same weights.
    """
    if not torch.is_grad_enabled():
        return out
    return out + sum(0 * other[:1].sum() for other in others)
