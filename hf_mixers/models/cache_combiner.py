"""What generation keeps of the past: a step costs what the pattern promises.

- `fixed`: keys and values of the segment at hand, and one summary per segment before it;
- `axial_rowmajor`: the row at hand, and the summaries of rows before it, of which a step reads the
  column of its token;
- `logsparse`: the summaries of the log n spans that tile the past; spans are summarised when they
  end, which costs log n per token on average, so all keys and values are kept, and rarely read.

Sequences may have different lengths. Caches hold no gradients.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin

from .configuration_combiner import CombinerConfig
from .ops_spans import Projected, masked_softmax, summarise
from .packing import Pack

# what is kept of tokens whose spans are to be summarised: their queries are only pooled
KEPT = Projected._fields[1:]

RowKeys = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


class CombinerCache(Cache):
    """The past of all layers, for `past_key_values` of a causal Combiner.

    >>> from hf_mixers import CombinerConfig
    >>> from hf_mixers.models.cache_combiner import CombinerCache
    >>> cache = CombinerCache(CombinerConfig(causal=True))
    >>> cache.get_seq_length(), len(cache)
    (0, 2)
    """

    def __init__(self, config: CombinerConfig):
        if not config.has_cache:
            raise ValueError(
                "Caches are for causal models with pattern fixed, logsparse or axial_rowmajor, got "
                f"pattern={config.pattern!r}, causal={config.causal}."
            )
        kind = LAYERS[config.pattern if config.use_summaries else "fixed"]
        super().__init__(layers=[kind(config) for _ in range(config.num_hidden_layers)])

    @property
    def lengths(self) -> list[int]:
        """Tokens of each sequence so far, without padding."""
        return self.layers[0].sizes


class CombinerCacheLayer(CacheLayerMixin):
    """The past of one layer: tensors whose first dimension are the sequences of the caller.

    A pattern says what it keeps: `fill` begins with the whole past, `step` adds a token.
    """

    supports_early_init = False

    def __init__(self, config: CombinerConfig):
        super().__init__()
        self.config = config
        self.state: dict[str, Tensor] = {}
        self.sizes: list[int] = []
        self.seen = 0

    def fill(self, parts: Projected, hidden: Tensor, pack: Pack, *summaries: Tensor) -> None:
        """Begin with the sequences of a pack."""
        order = pack.order if pack.order is not None else torch.arange(pack.num_sequences)
        self.sizes = [0] * pack.num_sequences
        for place, size in zip(order.tolist(), pack.sizes, strict=True):
            self.sizes[place] = size
        self.is_initialized = True
        place = order.to(pack.sequence.device)[pack.sequence]
        detached = parts.map(Tensor.detach)
        with torch.no_grad():
            self._fill(detached, hidden.detach(), place, pack, *(x.detach() for x in summaries))

    def extend(self, parts: Projected, hidden: Tensor, pack: Pack, row_keys: RowKeys) -> Tensor:
        """Attention `(T, H, d)` of the next tokens, as many for every sequence."""
        count = len(self.sizes)
        with torch.no_grad():
            rows = parts.map(lambda x: x.detach().unflatten(0, (count, -1)))
            tokens = hidden.detach().unflatten(0, (count, -1))
            outputs = []
            for number in range(tokens.shape[1]):
                here = rows.map(lambda x, n=number: x[:, n])
                outputs.append(self._step(here, tokens[:, number], row_keys))
                self.sizes = [size + 1 for size in self.sizes]
        return torch.stack(outputs, 1).flatten(0, 1)

    def _fill(
        self, parts: Projected, hidden: Tensor, place: Tensor, pack: Pack, *summaries: Tensor
    ) -> None:
        raise NotImplementedError

    def _step(self, parts: Projected, hidden: Tensor, row_keys: RowKeys) -> Tensor:
        """Attention `(B, H, d)` of one token per sequence."""
        raise NotImplementedError

    def _change(self, function: Callable[[Tensor], Tensor]) -> None:
        self.state = {name: function(value) for name, value in self.state.items()}

    # the interface of transformers

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        raise NotImplementedError("A Combiner fills its cache itself.")

    def update(self, key_states: Tensor, value_states: Tensor, *args, **kwargs):
        raise NotImplementedError("A Combiner fills its cache itself.")

    def get_seq_length(self) -> int:
        """Columns of the caller's layout so far, padding included."""
        return self.seen

    def get_max_length(self) -> int:
        return -1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.seen + query_length, 0

    def reset(self) -> None:
        self.__init__(self.config)  # type: ignore[misc]  # subclasses have the same arguments

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        self._change(lambda value: value.index_select(0, indices.to(value.device)))
        self.sizes = [self.sizes[index] for index in indices.tolist()]

    def batch_repeat_interleave(self, repeats: int) -> None:
        self._change(lambda value: value.repeat_interleave(repeats, 0))
        self.sizes = [size for size in self.sizes for _ in range(repeats)]

    def offload(self) -> None:
        self._change(lambda value: value.to("cpu", non_blocking=True))

    def prefetch(self) -> None:
        """Steps move nothing: offloaded caches are not for this family."""


class FixedCacheLayer(CombinerCacheLayer):
    """Keys and values of the segment at hand, and the summaries of those before it."""

    def _fill(self, parts, hidden, place, pack, *summaries):
        segment, count = self.config.segment_length, len(self.sizes)
        rows = max(self.sizes) // segment + 1
        for name, part in zip(KEPT, parts[1:], strict=True):
            slots = part.new_zeros(count, rows * segment, *part.shape[1:])
            slots[place, pack.position] = part
            # (B, H, R, s, d)
            self.state[name] = slots.unflatten(1, (rows, segment)).permute(0, 3, 1, 2, 4)
        whole = as_span(self.state)
        keys, values = summarise(whole, None, self.config.pool_kind)
        own = torch.tensor([size // segment for size in self.sizes], device=place.device)
        index = torch.arange(count, device=place.device)
        self.state = {name: value[index, :, own].clone() for name, value in self.state.items()}
        self.state |= {"keys": keys, "values": values}

    def _step(self, parts, hidden, row_keys):
        segment, state = self.config.segment_length, self.state
        places = [size % segment for size in self.sizes]
        rows = [size // segment for size in self.sizes]
        for name, part in zip(KEPT, parts[1:], strict=True):
            write(state[name], 2, places, part)
        keys = state["key"][:, :, : max(places) + 1]
        values = state["value"][:, :, : max(places) + 1]
        past = max(rows) if self.config.use_summaries else 0
        mask = None
        if len(set(self.sizes)) > 1:
            mask = torch.cat(
                [
                    up_to(keys.shape[2], [place + 1 for place in places], keys.device),
                    up_to(past, rows, keys.device),
                ],
                1,
            )
        keys = torch.cat([keys, state["keys"][:, :, :past]], 2)
        values = torch.cat([values, state["values"][:, :, :past]], 2)
        out = attend_one(parts.query, keys, values, mask)
        done = [b for b, place in enumerate(places) if place == segment - 1]
        if done and self.config.use_summaries:
            index = torch.tensor(done, device=out.device)
            whole = as_span({name: state[name][index] for name in KEPT})
            summary = summarise(whole, None, self.config.pool_kind)
            for name, value in zip(("keys", "values"), summary, strict=True):
                state[name] = grown(state[name], 2, max(rows) + 1)
                write(state[name], 2, [rows[b] for b in done], value, index)
        return out


class RowmajorCacheLayer(CombinerCacheLayer):
    """The row at hand, and the summaries of rows before it by column, `(B, m, R, H, d)`."""

    def _fill(self, parts, hidden, place, pack, *summaries):
        segment, count = self.config.segment_length, len(self.sizes)
        rows = max(self.sizes) // segment + 1
        column, row = pack.position % segment, pack.position // segment
        for name, part in zip(("keys", "values"), summaries, strict=True):
            slots = part.new_zeros(count, segment, rows, *part.shape[1:])
            slots[place, column, row] = part
            self.state[name] = slots
        own = row == pack.row_lengths // segment
        for name, part in (*zip(Projected._fields[:3], parts, strict=False), ("hidden", hidden)):
            slots = part.new_zeros(count, segment, *part.shape[1:])
            slots[place[own], column[own]] = part[own]
            self.state[name] = slots

    def _step(self, parts, hidden, row_keys):
        segment, state = self.config.segment_length, self.state
        places = [size % segment for size in self.sizes]
        rows = [size // segment for size in self.sizes]
        for name, part in (*zip(Projected._fields[:3], parts, strict=False), ("hidden", hidden)):
            write(state[name], 1, places, part)
        mask, past = None, max(rows)
        count = max(places) + 1
        if len(set(self.sizes)) > 1:
            mask = torch.cat(
                [
                    up_to(count, [place + 1 for place in places], hidden.device),
                    up_to(past, rows, hidden.device),
                ],
                1,
            )
        numbers = torch.arange(len(places), device=hidden.device)
        columns = torch.tensor(places, device=hidden.device)
        both = []
        for own, name in (("key", "keys"), ("value", "values")):
            seen = state[name][:, :, :past]
            # one column for all, or one for each
            seen = seen[:, places[0]] if len(set(places)) == 1 else seen[numbers, columns]
            both.append(torch.cat([state[own][:, :count], seen], 1).transpose(1, 2))
        out = attend_one(parts.query, *both, mask)
        done = [b for b, place in enumerate(places) if place == segment - 1]
        if done:
            index = torch.tensor(done, device=out.device)
            for name, value in zip(
                ("keys", "values"), self._summarise(index, row_keys), strict=True
            ):
                state[name] = grown(state[name], 2, max(rows) + 1)
                write(state[name], 2, [rows[b] for b in done], value, index)
        return out

    def _summarise(self, index: Tensor, row_keys: RowKeys) -> tuple[Tensor, Tensor]:
        """Summaries `(b, m, H, d)` of the rows at hand, which are complete."""
        query, key, value = (
            self.state[name][index].transpose(1, 2) for name in Projected._fields[:3]
        )
        shares = masked_softmax(query @ key.transpose(2, 3), None).to(value.dtype)
        found = (shares @ value).transpose(1, 2)
        weighted = None
        if self.config.row_summary.startswith("wsum"):
            weighted = (shares @ key).transpose(1, 2)
        tokens = self.state["hidden"][index]
        return row_keys(tokens, key.transpose(1, 2), found, weighted), found


class LogsparseCacheLayer(CombinerCacheLayer):
    """All keys and values, and the summaries `(B, H, levels, d)` of the spans that tile them."""

    def _fill(self, parts, hidden, place, pack, *summaries):
        count, longest = len(self.sizes), max(self.sizes)
        for name, part in zip(KEPT, parts[1:], strict=True):
            slots = part.new_zeros(count, part.shape[1], longest + 1, part.shape[2])
            slots[place, :, pack.position] = part
            self.state[name] = slots
        levels = (longest + 1).bit_length()
        empty = parts.key.new_zeros(count, parts.key.shape[1], levels, parts.key.shape[2])
        self.state |= {"keys": empty, "values": empty.clone()}
        for b, size in enumerate(self.sizes):
            for level in range(levels):
                if size >> level & 1:
                    self._summarise([b], level, size >> level << level)

    def _step(self, parts, hidden, row_keys):
        state = self.state
        for name, part in zip(KEPT, parts[1:], strict=True):
            state[name] = grown(state[name], 2, max(self.sizes) + 1)
            write(state[name], 2, self.sizes, part)
        levels = max(self.sizes).bit_length()
        mask = torch.tensor(
            [[True, *(bool(size >> level & 1) for level in range(levels))] for size in self.sizes],
            device=hidden.device,
        )
        keys = torch.cat([parts.key[:, :, None], state["keys"][:, :, :levels]], 2)
        values = torch.cat([parts.value[:, :, None], state["values"][:, :, :levels]], 2)
        out = attend_one(parts.query, keys, values, mask)
        ends: dict[tuple[int, int], list[int]] = {}
        for b, size in enumerate(self.sizes):
            end = size + 1
            # the last bit that is set: the span that ends here
            ends.setdefault(((end & -end).bit_length() - 1, end), []).append(b)
        for (level, end), places in ends.items():
            self._summarise(places, level, end)
        return out

    def _summarise(self, places: list[int], level: int, end: int) -> None:
        """The span of 2^level tokens before `end`, of some sequences."""
        state = self.state
        index = torch.tensor(places, device=state["key"].device)
        span = slice(end - (1 << level), end)
        if level == 0:
            found = state["key"][index, :, end - 1], state["value"][index, :, end - 1]
        else:
            parts = as_span({name: state[name][index, :, span] for name in KEPT})
            found = summarise(parts, None, self.config.pool_kind)
        for name, value in zip(("keys", "values"), found, strict=True):
            state[name] = grown(state[name], 2, level + 1)
            state[name][index, :, level] = value


LAYERS = {
    "fixed": FixedCacheLayer,
    "axial_rowmajor": RowmajorCacheLayer,
    "logsparse": LogsparseCacheLayer,
}


def as_span(rows: dict[str, Tensor]) -> Projected:
    """Tokens to be summarised."""
    return Projected(query=rows["pooled_query"], **rows)


def attend_one(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Attention of one query `(B, H, d)` per sequence to `(B, H, n, d)`; `mask` is `(B, n)`."""
    scores = (keys @ query[..., None]).squeeze(3)
    shares = masked_softmax(scores, None if mask is None else mask[:, None])
    return (shares[:, :, None].to(values.dtype) @ values).squeeze(2)


def up_to(width: int, counts: Sequence[int], device: torch.device) -> Tensor:
    """`(B, width)`: the first `counts[b]` of row b."""
    return torch.arange(width, device=device) < torch.tensor(counts, device=device)[:, None]


def write(
    rows: Tensor, dim: int, places: Sequence[int], values: Tensor, index: Tensor | None = None
) -> None:
    """Write `values[b]` to place `places[b]` of dimension `dim` of sequence b, or `index[b]`."""
    if len(set(places)) == 1 and index is None:
        rows.select(dim, places[0]).copy_(values)
        return
    numbers = torch.arange(len(places), device=rows.device) if index is None else index
    where = torch.tensor(places, device=rows.device)
    if dim == 1:
        rows[numbers, where] = values
    else:
        rows[numbers, :, where] = values


def grown(rows: Tensor, dim: int, size: int) -> Tensor:
    """`rows` with room for `size` in a dimension, at least doubled if there was too little."""
    if rows.shape[dim] >= size:
        return rows
    shape = list(rows.shape)
    shape[dim] = max(size, 2 * rows.shape[dim]) - rows.shape[dim]
    return torch.cat([rows, rows.new_zeros(shape)], dim)
