"""Multi-head attention whose heads work at scales of their own."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .attention_heads import KeyBlock, SoftmaxHeads, make_heads
from .configuration_mrsformer import MrsFormerConfig
from .ops_multiresolution import Scale, at_scale, pool, repeat
from .packing import Pack, upload
from .stack import is_plain
from .starts import start_as_branch_end


class Levels:
    """Rows of a layer, and their means at every scale that somebody asks for, pooled once."""

    def __init__(self, hidden: Tensor):
        self.hidden = hidden
        self.pooled: dict[int, Tensor] = {}

    def at(self, at: Scale) -> Tensor:
        if at.scale not in self.pooled:
            self.pooled[at.scale] = pool(self.hidden, at)
        return self.pooled[at.scale]


class HeadGroups(nn.Module):
    """What attention with heads in groups shares: projections group by group, blocks of keys."""

    def __init__(self, config: MrsFormerConfig):
        super().__init__()
        self.config = config
        self.groups = config.head_groups()
        self.head_size = config.hidden_size // config.num_attention_heads
        order = [head for group in self.groups for head in group.heads]
        # heads in the order of their groups, and back; None where that is their own order
        self.order = order if order != sorted(order) else None
        self.places = [order.index(head) for head in sorted(order)] if self.order else None

    def split_heads(
        self, rows: Tensor, dim: int, order: Sequence[int] | None
    ) -> tuple[Tensor, ...]:
        """Channels in dimension `dim` -> those of each group."""
        if order is not None:
            rows = self._reorder(rows, dim, order)
        return rows.split([self.head_size * len(group.heads) for group in self.groups], dim)

    def join_heads(self, parts: Sequence[Tensor]) -> Tensor:
        """Channels of each group -> all, in the order of the heads."""
        rows = torch.cat(list(parts), -1) if len(parts) > 1 else parts[0]
        return rows if self.places is None else self._reorder(rows, -1, self.places)

    def _reorder(self, rows: Tensor, dim: int, order: Sequence[int]) -> Tensor:
        heads = rows.unflatten(dim, (-1, self.head_size))
        index = upload(order, rows.device)
        head_dim = dim if dim >= 0 else dim - 1
        return heads.index_select(head_dim, index).flatten(head_dim, head_dim + 1)

    def project(self, linear: Any, levels: Levels, scales: Sequence[Scale]) -> list[Tensor]:
        """Pooled projections of each group at its scale, `(C, h * d)`.

        Pooling and projecting commute. Where nothing watches or changes the linear layer, pooling
        goes first: fewer rows to project, and one pooling for queries, keys and values.
        """
        if not is_plain(linear, nn.Linear):
            parts = self.split_heads(linear(levels.hidden), 1, self.order)
            return [pool(part, at) for part, at in zip(parts, scales, strict=True)]
        weights = self.split_heads(linear.weight, 0, self.order)
        biases = self.split_heads(linear.bias, 0, self.order)
        return [
            functional.linear(levels.at(at), weight, bias)
            for at, weight, bias in zip(scales, weights, biases, strict=True)
        ]

    def scales(self, pack: Pack) -> tuple[list[Scale], list[Scale]]:
        """The pack at the scales of queries and at those of keys, for each group."""
        size = self.config.prefix_size
        return (
            [at_scale(pack, group.scale, size) for group in self.groups],
            [at_scale(pack, group.key_scale, size) for group in self.groups],
        )

    def blocks(self, rows: Tensor, at: Scale) -> list[Tensor]:
        """Coarse rows `(C, h * d)` -> `(B, h, N, d)` for every block."""
        parts = at.split(rows.unflatten(1, (-1, self.head_size)))
        return [part.transpose(1, 2) for part in parts]

    def key_blocks(self, pack: Pack, at: Scale) -> list[KeyBlock]:
        """Masks and sizes of the keys of every block, worked out once per pack."""
        counts = self.config.group_size_bias
        note = ("keys", at.scale, self.config.prefix_size, counts)
        if note not in pack.notes:
            pack.notes[note] = [
                KeyBlock(sizes, block.is_full, counts)
                for sizes, block in zip(at.split(at.sizes), at.blocks, strict=True)
            ]
        return pack.notes[note]


class MultiresolutionAttention(HeadGroups):
    """Queries, keys and values pooled group by group, attention of `config.attention_type`."""

    def __init__(self, config: MrsFormerConfig, layer: int):
        super().__init__(config)
        self.layer = layer
        width = config.hidden_size
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.o_proj = start_as_branch_end(nn.Linear(width, width), config)
        if not config.has_shared_heads:
            self.heads = make_heads(config, layer)

    def share_heads(self, heads: nn.Module) -> None:
        """Use heads that the model owns."""
        # past the registration of modules: they are not this layer's to save, move or count
        object.__setattr__(self, "heads", heads)

    def forward(self, hidden: Tensor, pack: Pack) -> Tensor:
        mix = self._mix_exactly if self.config.head_mode == "exact" else self._mix
        return self.o_proj(self.join_heads(mix(hidden, pack)))

    def _mix(self, hidden: Tensor, pack: Pack) -> list[Tensor]:
        query_scales, key_scales = self.scales(pack)
        levels = Levels(hidden)
        queries = self.project(self.q_proj, levels, query_scales)
        keys = self.project(self.k_proj, levels, key_scales)
        values = self.project(self.v_proj, levels, key_scales)
        outputs = []
        for number, at in enumerate(query_scales):
            rows = queries[number], keys[number], values[number]
            coarse = self._attend(rows, pack, at, key_scales[number], number)
            outputs.append(repeat(coarse, at))
        return outputs

    def _mix_exactly(self, hidden: Tensor, pack: Pack) -> list[Tensor]:
        """The paper's equation: attention of all tokens, then its means over groups."""
        fine = at_scale(pack, 1, self.config.prefix_size)
        every, levels = [fine] * len(self.groups), Levels(hidden)
        queries, keys, values = (
            self.project(linear, levels, every)
            for linear in (self.q_proj, self.k_proj, self.v_proj)
        )
        outputs = []
        for number, (at, keys_at) in enumerate(zip(*self.scales(pack), strict=True)):
            # the sum over the keys of a group times their mean value: the mean in place of each
            means = repeat(pool(repeat(values[number], fine), keys_at), keys_at)
            rows = queries[number], keys[number], pool(means, fine)
            out = repeat(self._attend(rows, pack, fine, fine, number), fine)
            outputs.append(repeat(pool(out, at), at))
        return outputs

    def _attend(
        self, rows: tuple[Tensor, Tensor, Tensor], pack: Pack, at: Scale, keys_at: Scale, group: int
    ) -> Tensor:
        """Coarse rows of queries, keys and values -> those of the output, `(C, h * d)`."""
        queries, keys, values = (
            self.blocks(part, scale)
            for part, scale in zip(rows, (at, keys_at, keys_at), strict=True)
        )
        blocks = zip(queries, keys, values, self.key_blocks(pack, keys_at), strict=True)
        if pack.records is None:
            return at.join([self.heads(*block, group).flatten(2) for block in blocks])
        seen = [
            self.heads.weigh(q, k, v, about.attention_mask(q.dtype)) for q, k, v, about in blocks
        ]
        weights = [weight for _, weight in seen]
        pack.records[self.layer, group] = join_weights(weights, at, keys_at)
        return at.join([out.flatten(2) for out, _ in seen])


def join_weights(weights: Sequence[Tensor], at: Scale, keys_at: Scale) -> Tensor:
    """Attention `(count, h, N, M)` of every block -> that of all sequences, `(B, h, N, M)`.

    It is 0 where a sequence has no query or no key, and in the order of the pack.
    """
    rows = max(block.width for block in at.blocks)
    columns = max(block.width for block in keys_at.blocks)
    parts = []
    for part, sizes, key_sizes in zip(
        weights, at.split(at.sizes), keys_at.split(keys_at.sizes), strict=True
    ):
        are_there = (sizes > 0)[:, None, :, None] & (key_sizes > 0)[:, None, None]
        missing = (0, columns - part.shape[3], 0, rows - part.shape[2])
        parts.append(functional.pad(torch.where(are_there, part, 0), missing))
    return torch.cat(parts)


class LunaAttention(HeadGroups):
    """Attention through a memory, which are the first rows of every sequence.

    The memory attends to the groups of each head's scale (pack), then groups attend to what it
    found there (unpack). That is also what the rows of the memory get.
    """

    def __init__(self, config: MrsFormerConfig, layer: int):
        super().__init__(config)
        width = config.hidden_size
        self.pack_q_proj = nn.Linear(width, width)
        self.pack_k_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        if not config.luna_tied_values:
            self.pack_v_proj = nn.Linear(width, width)
            self.v_proj = nn.Linear(width, width)
        self.o_proj = start_as_branch_end(nn.Linear(width, width), config)
        self.heads = SoftmaxHeads(config)

    def forward(self, hidden: Tensor, pack: Pack) -> Tensor:
        memory_rows = self._memory_rows(pack)
        levels = Levels(hidden)
        packed = self._pack(levels, hidden.index_select(0, memory_rows), pack)
        out = self.o_proj(self._unpack(levels, packed, pack))
        return out.index_copy(0, memory_rows, packed.to(out.dtype))

    def _memory_rows(self, pack: Pack) -> Tensor:
        places = torch.arange(self.config.memory_size, device=pack.starts.device)
        return (pack.starts[:, None] + places).flatten()

    def _pack(self, levels: Levels, memory: Tensor, pack: Pack) -> Tensor:
        """Memory after a look at the sequence, `(B * l, D)`."""
        size = self.config.memory_size
        _, scales = self.scales(pack)
        keys = self.project(self.pack_k_proj, levels, scales)
        values = keys
        if not self.config.luna_tied_values:
            values = self.project(self.pack_v_proj, levels, scales)
        queries = self.split_heads(self.pack_q_proj(memory), 1, self.order)
        outputs = []
        for number, at in enumerate(scales):
            parts = zip(
                self._by_block(queries[number], at),
                self.blocks(keys[number], at),
                self.blocks(values[number], at),
                self.key_blocks(pack, at),
                strict=True,
            )
            found = [
                self.heads(q, k[:, :, size:], v[:, :, size:], about.without(size), number)
                for q, k, v, about in parts
            ]
            outputs.append(torch.cat([part.flatten(2).flatten(0, 1) for part in found]))
        return self.join_heads(outputs)

    def _unpack(self, levels: Levels, packed: Tensor, pack: Pack) -> Tensor:
        """What every row hears of the memory, `(T, D)`."""
        scales, _ = self.scales(pack)
        queries = self.project(self.q_proj, levels, scales)
        keys = self.split_heads(self.k_proj(packed), 1, self.order)
        values = keys
        if not self.config.luna_tied_values:
            values = self.split_heads(self.v_proj(packed), 1, self.order)
        outputs = []
        for number, at in enumerate(scales):
            parts = zip(
                self.blocks(queries[number], at),
                self._by_block(keys[number], at),
                self._by_block(values[number], at),
                strict=True,
            )
            out = at.join([self.heads.attend(q, k, v).flatten(2) for q, k, v in parts])
            outputs.append(repeat(out, at))
        return self.join_heads(outputs)

    def _by_block(self, memory: Tensor, at: Scale) -> list[Tensor]:
        """Rows of memory `(B * l, h * d)` -> `(B, h, l, d)` for every block."""
        size = self.config.memory_size
        parts = memory.unflatten(1, (-1, self.head_size)).split(
            [block.count * size for block in at.blocks]
        )
        return [
            part.unflatten(0, (block.count, size)).transpose(1, 2)
            for part, block in zip(parts, at.blocks, strict=True)
        ]


def make_attention(config: MrsFormerConfig, layer: int) -> HeadGroups:
    """The attention of block `layer`."""
    kind = LunaAttention if config.attention_type == "luna" else MultiresolutionAttention
    return kind(config, layer)
