"""Ragged batches: from the caller's layout to one matrix of real tokens, and back.

Callers hand over padded rows with a mask, flat rows with boundaries, or plain rectangles. Mixers
see none of that, only a matrix `(T, D)` and a `Pack` that says where each sequence lies in it. Two
layouts share that view, so every mixer is written once:

- ragged (eager): real tokens only, longest sequence first, so that "the sequences longer than n"
  are a prefix of the matrix;
- static (compile, export): every slot of the caller's layout keeps a row and `valid` marks the rows
  that hold a token, so that no shape depends on the data.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True)
class Boundaries:
    """How the tokens of `num_rows` caller rows (a flattened `(B, L)`) divide into sequences.

    At most one of `mask` `(B, L)` and `cu_seq_lens` `(B + 1,)` is set; neither means full rows.
    `longest` is what the caller says about the lengths of a flat batch; `sizes` are the lengths as
    numbers, if they are known on the host.
    """

    shape: tuple[int, int]
    device: torch.device
    mask: Tensor | None = None
    cu_seq_lens: Tensor | None = None
    longest: int | None = None
    sizes: tuple[int, ...] | None = None

    @property
    def num_rows(self) -> int:
        return self.shape[0] * self.shape[1]

    def lengths(self) -> Tensor:
        """Number of tokens of every sequence, `(B,)`."""
        if self.mask is not None:
            return self.mask.sum(1)
        if self.cu_seq_lens is not None:
            return self.cu_seq_lens.diff()
        return torch.full((self.shape[0],), self.shape[1], device=self.device)


class Rectangle(NamedTuple):
    """Sequences of a static pack that came together: how many, and the most rows that one has."""

    count: int  # type: ignore[assignment]  # the method of tuples is not used
    width: int
    is_laid_out: bool  # every sequence has `width` rows, its tokens first


@dataclass(frozen=True)
class Pack:
    """Where the sequences of a batch lie in a `(T, D)` matrix.

    >>> mask = torch.tensor([[True, True, False], [True, True, True]])
    >>> pack = pack_ragged([Boundaries((2, 3), torch.device("cpu"), mask)])
    >>> pack.sizes, pack.order.tolist()
    ((3, 2), [1, 0])
    >>> pack.unpack(pack.gather(torch.arange(6.0))).tolist()
    [0.0, 1.0, 0.0, 3.0, 4.0, 5.0]
    """

    lengths: Tensor  # (B,) tokens of each sequence
    starts: Tensor  # (B,) first row of each sequence
    sequence: Tensor  # (T,) the sequence a row belongs to
    position: Tensor  # (T,) the place of a row in its sequence
    row_lengths: Tensor  # (T,) tokens of the sequence that a row belongs to, at least 1
    num_source_rows: int
    source: Tensor | None = None  # (T,) the caller's row of each row; None: the same row
    order: Tensor | None = None  # (B,) the caller's place of each sequence; None: the same place
    sizes: tuple[int, ...] | None = None  # ragged layout: the lengths as numbers, descending
    valid: Tensor | None = None  # static layout: (T,) rows that hold a token; None: all do
    rectangles: tuple[Rectangle, ...] | None = None  # static layout: its batches
    # the `sharing.Share` of this process, if it has a part of the rows only
    share: Any = None
    # the pack that this one is the first sequences of, and whose notes hold for it too
    whole: "Pack | None" = None
    # where blocks leave what the caller wants to see besides their results
    records: dict | None = None
    # what operations have worked out about this pack and its device, for the next block to find
    notes: dict = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def num_rows(self) -> int:
        return self.sequence.shape[0]

    @property
    def num_sequences(self) -> int:
        return self.lengths.shape[0]

    @property
    def is_static(self) -> bool:
        return self.sizes is None

    @property
    def is_compiled(self) -> bool:
        """Whether a compiler will fuse what is written on this pack.

        Few operations are then better than little memory, which fusing saves anyway. Exporters
        and tracers fuse nothing.
        """
        is_kept = torch.compiler.is_exporting() or torch.jit.is_tracing()
        return self.is_static and not is_kept

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Pack":
        """The same pack on another device; hooks that spread a model over devices call it."""
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=non_blocking)
            for name, value in vars(self).items()
            if torch.is_tensor(value)
        }
        return replace(self, whole=None, **moved)

    def gather(self, rows: Tensor) -> Tensor:
        """Caller's rows `(num_source_rows, ...)` -> pack rows `(T, ...)`."""
        return rows if self.source is None else rows.index_select(0, self.source)

    def unpack(self, rows: Tensor) -> Tensor:
        """Pack rows `(T, ...)` -> caller's rows `(num_source_rows, ...)`, zero without a token."""
        rows = self.blank(rows)
        if self.source is None:
            return rows
        out = rows.new_zeros(self.num_source_rows, *rows.shape[1:])
        out = out.index_copy(0, self.source, rows)
        return out if self.share is None else self.share.sum(out)

    def blank(self, rows: Tensor, value: float = 0) -> Tensor:
        """`rows` with `value` wherever a row holds no token."""
        if self.valid is None:
            return rows
        return torch.where(self.valid.view(-1, *[1] * (rows.dim() - 1)), rows, value)

    def restore(self, per_sequence: Tensor) -> Tensor:
        """`(B, ...)` in pack order -> in the caller's order."""
        if self.order is None:
            return per_sequence
        return torch.empty_like(per_sequence).index_copy(0, self.order, per_sequence)

    def in_callers_order(self, rows: Tensor) -> Tensor:
        """Numbers of pack rows `(n,)`, sorted by where they stand in the caller's layout."""
        return rows if self.source is None else rows[self.source[rows].argsort()]

    def longer_than(self, length: int) -> "Pack":
        """The part of the pack whose sequences have more than `length` tokens.

        Ragged: a prefix, with fewer rows. Static: the same rows, fewer of them valid.
        """
        if length == 0:
            return self
        if self.sizes is not None:
            count = bisect_left(self.sizes, -length, key=lambda size: -size)
            return self if count == len(self.sizes) else self.first_sequences(count)
        chosen = (self.lengths > length)[self.sequence]
        return replace(self, valid=chosen if self.valid is None else self.valid & chosen)

    def first_sequences(self, count: int) -> "Pack":
        """The first `count` sequences of a ragged pack, with no way back to the caller's rows."""
        rows = sum(self.sizes[:count])
        rows = rows if self.share is None else self.share.count_own(rows)
        return Pack(
            lengths=self.lengths[:count],
            starts=self.starts[:count],
            sequence=self.sequence[:rows],
            position=self.position[:rows],
            row_lengths=self.row_lengths[:rows],
            num_source_rows=rows,
            sizes=self.sizes[:count],
            share=self.share,
            whole=self if self.whole is None else self.whole,
        )

    def with_prefix(self, count: int = 1) -> tuple["Pack", Tensor, Tensor]:
        """This pack with `count` more rows in front of every sequence, and where things went.

        Returns the pack, the new rows of the old rows `(T,)` and the rows of the prefixes
        `(B * count,)`. The new pack keeps no way back to the caller's rows: they have no prefix.
        """
        device = self.lengths.device
        places = torch.arange(count, device=device).repeat(self.num_sequences)
        numbers = torch.arange(self.num_sequences, device=device)
        token_rows = torch.arange(self.num_rows, device=device) + (self.sequence + 1) * count
        starts = self.starts + numbers * count
        numbers = numbers.repeat_interleave(count)
        prefix_rows = starts[numbers] + places

        def fill(tokens: Tensor, prefixes: Tensor) -> Tensor:
            out = tokens.new_empty(self.num_rows + self.num_sequences * count)
            return out.index_copy(0, token_rows, tokens).index_copy(0, prefix_rows, prefixes)

        pack = Pack(
            lengths=self.lengths + count,
            starts=starts,
            sequence=fill(self.sequence, numbers),
            position=fill(self.position + count, places),
            row_lengths=fill(self.row_lengths + count, self.lengths[numbers] + count),
            num_source_rows=self.num_rows + self.num_sequences * count,
            order=self.order,
            sizes=None if self.sizes is None else tuple(size + count for size in self.sizes),
            valid=None if self.valid is None else fill(self.valid, numbers >= 0),
            rectangles=self.rectangles
            and tuple(r._replace(width=r.width + count) for r in self.rectangles),
        )
        return pack, token_rows, prefix_rows


def use_static_layout() -> bool:
    """Whether shapes must not depend on data now: while compiling, exporting or tracing."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def upload(
    numbers: Sequence[Any], device: torch.device, dtype: torch.dtype | None = None
) -> Tensor:
    """Numbers of the program as a tensor; the host does not wait for the device."""
    if use_static_layout():
        return torch.tensor(numbers, device=device, dtype=dtype)
    return torch.tensor(numbers, dtype=dtype).to(device, non_blocking=True)


def make_pack(batches: Sequence[Boundaries]) -> Pack:
    """One pack of all sequences of all batches, whose caller rows are laid end to end."""
    return (pack_static if use_static_layout() else pack_ragged)(batches)


def pack_ragged(batches: Sequence[Boundaries]) -> Pack:
    """The pack of real tokens only, longest sequence first (equal ones in the caller's order)."""
    device = batches[0].device
    lengths = torch.cat([batch.lengths() for batch in batches])
    num_source_rows = sum(batch.num_rows for batch in batches)
    sizes = _find_sizes(batches, lengths)

    order = None
    starts_before = None
    if any(a < b for a, b in pairwise(sizes)):
        starts_before = lengths.cumsum(0) - lengths
        order = torch.sort(lengths, descending=True, stable=True).indices
        lengths = lengths.index_select(0, order)
        sizes.sort(reverse=True)

    num_rows = sum(sizes)
    starts = lengths.cumsum(0) - lengths
    numbers = torch.arange(len(sizes), device=device)
    sequence = numbers.repeat_interleave(lengths, output_size=num_rows)
    position = torch.arange(num_rows, device=device) - starts.index_select(0, sequence)
    source = _real_rows(batches) if num_rows < num_source_rows else None
    if order is not None:
        rows = starts_before.index_select(0, order).index_select(0, sequence) + position
        source = rows if source is None else source.index_select(0, rows)
    return Pack(
        lengths=lengths,
        starts=starts,
        sequence=sequence,
        position=position,
        row_lengths=lengths.index_select(0, sequence),
        num_source_rows=num_source_rows,
        source=source,
        order=order,
        sizes=tuple(sizes),
    )


def pack_static(batches: Sequence[Boundaries]) -> Pack:
    """The pack with a row for every caller row: a sequence's tokens, then its padding."""
    lengths, starts, sequence, position, valid, source = [], [], [], [], [], []
    rectangles = []
    first_row = first_sequence = 0
    for batch in batches:
        rows = torch.arange(batch.num_rows, device=batch.device)
        if batch.cu_seq_lens is not None:
            boundaries = batch.cu_seq_lens.long()
            local_starts = boundaries[:-1]
            number = torch.searchsorted(boundaries[1:].contiguous(), rows, right=True)
            width = batch.num_rows if batch.longest is None else batch.longest
            rectangles.append(Rectangle(local_starts.shape[0], width, is_laid_out=False))
        else:
            local_starts = torch.arange(batch.shape[0], device=batch.device) * batch.shape[1]
            number = rows // batch.shape[1]
            rectangles.append(Rectangle(*batch.shape, is_laid_out=True))
        place = rows - local_starts[number]
        local_lengths = batch.lengths()
        origin = rows
        if batch.mask is not None:
            # tokens move to the front of their slot and padding behind them: a permutation of the
            # rows, inverted by a scatter because exporters know no stable sort
            mask = batch.mask
            rank = torch.where(
                mask, mask.cumsum(1) - 1, local_lengths[:, None] + (~mask).cumsum(1) - 1
            )
            slots = (local_starts[:, None] + rank).flatten()
            origin = torch.empty_like(rows).scatter(0, slots, rows)
        lengths.append(local_lengths)
        starts.append(local_starts + first_row)
        sequence.append(number + first_sequence)
        position.append(place)
        valid.append(place < local_lengths[number])
        source.append(origin + first_row)
        first_row = first_row + batch.num_rows
        first_sequence = first_sequence + local_starts.shape[0]

    masked = any(batch.mask is not None for batch in batches)
    joined_lengths, joined_sequence = torch.cat(lengths), torch.cat(sequence)
    return Pack(
        lengths=joined_lengths,
        starts=torch.cat(starts),
        sequence=joined_sequence,
        position=torch.cat(position),
        # a row without tokens cannot be refused here, and must not divide by zero
        row_lengths=joined_lengths.clamp(min=1)[joined_sequence],
        num_source_rows=first_row,
        source=torch.cat(source) if masked else None,
        valid=torch.cat(valid) if masked else None,
        rectangles=tuple(rectangles),
    )


def _find_sizes(batches: Sequence[Boundaries], lengths: Tensor) -> list[int]:
    """Lengths as numbers, from where they are known: reading them from a device takes long."""
    if any(batch.sizes is None for batch in batches):
        return lengths.tolist()
    return [size for batch in batches for size in batch.sizes or ()]


def _real_rows(batches: Sequence[Boundaries]) -> Tensor:
    """The caller's rows that hold a token, in the caller's order."""
    firsts = accumulate((batch.num_rows for batch in batches), initial=0)
    rows = []
    for first, batch in zip(firsts, batches, strict=False):
        if batch.mask is None:
            rows.append(torch.arange(first, first + batch.num_rows, device=batch.device))
        else:
            count = None if batch.sizes is None else sum(batch.sizes)
            rows.append(first + find_true(batch.mask.flatten(), count))
    return torch.cat(rows)


def find_true(mask: Tensor, count: int | None) -> Tensor:
    """Places of a mask `(n,)` that are true, in order.

    On an accelerator it is worth knowing their `count`: the host need not wait for it.
    """
    if count is None or mask.device.type == "cpu":
        return mask.nonzero().squeeze(1)
    places = torch.arange(mask.shape[0], device=mask.device)
    # what is false goes to a place behind the end
    target = torch.where(mask, mask.cumsum(0) - 1, count)
    return places.new_empty(count + 1).scatter(0, target, places)[:count]


def at_least_float32(values: Tensor) -> Tensor:
    """`values` in float32, or as they are in double precision: what sums and losses need."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def segment_mean(rows: Tensor, pack: Pack) -> Tensor:
    """Mean over the tokens of each sequence, in float32: `(T, D)` -> `(B, D)` in pack order."""
    rows = at_least_float32(rows)
    # one by one is exact to the last digits for long sequences, and slow for very many short ones
    # and where every operation is a launch
    is_slow = rows.device.type != "cpu" and pack.num_sequences > 1
    if pack.sizes is not None and pack.num_rows >= 256 * pack.num_sequences and not is_slow:
        sizes = pack.sizes if pack.share is None else pack.share.own_sizes(pack.sizes)
        # the gradient of one sum is a view of one row, that of parts of a matrix is a matrix
        parts = rows.split(sizes) if pack.num_sequences > 1 else [rows]
        sums = torch.stack([part.sum(0) for part in parts])
        sums = sums if pack.share is None else pack.share.sum(sums)
        return sums / pack.lengths[:, None]
    sums = rows.new_zeros(pack.num_sequences, rows.shape[1])
    sums = sums.scatter_add(0, pack.sequence[:, None].expand_as(rows), pack.blank(rows))
    sums = sums if pack.share is None else pack.share.sum(sums)
    return sums / pack.lengths.clamp(min=1)[:, None]


def segment_max(rows: Tensor, pack: Pack) -> Tensor:
    """Largest value over the tokens of each sequence: `(T, D)` -> `(B, D)` in pack order."""
    if pack.sizes is not None and rows.device.type == "cpu" and pack.share is None:
        return torch.stack([part.amax(0) for part in rows.split(pack.sizes)])
    lowest = rows.new_full((pack.num_sequences, rows.shape[1]), torch.finfo(rows.dtype).min)
    index = pack.sequence[:, None].expand_as(rows)
    known = pack.blank(rows, torch.finfo(rows.dtype).min)
    largest = lowest.scatter_reduce(0, index, known, "amax")
    return largest if pack.share is None else pack.share.largest(largest)


def segment_attention(rows: Tensor, scores: Tensor, pack: Pack) -> Tensor:
    """Mean over the tokens of each sequence, weighted by a softmax of their scores, in float32.

    `(T, D)` and scores `(T, 1)` -> `(B, D)` in pack order.
    """
    rows, scores = at_least_float32(rows), at_least_float32(scores)
    index = pack.sequence[:, None]
    lowest = torch.finfo(scores.dtype).min
    # the largest score of a sequence only keeps the exponentials small: no gradient
    known = pack.blank(scores.detach(), lowest)
    largest = known.new_full((pack.num_sequences, 1), lowest)
    largest = largest.scatter_reduce(0, index, known, "amax")
    largest = largest if pack.share is None else pack.share.largest(largest)
    weights = pack.blank((pack.blank(scores) - largest[pack.sequence]).exp())
    totals = weights.new_zeros(pack.num_sequences, 1).scatter_add(0, index, weights)
    sums = rows.new_zeros(pack.num_sequences, rows.shape[1])
    sums = sums.scatter_add(0, index.expand_as(rows), weights * pack.blank(rows))
    if pack.share is not None:
        totals, sums = pack.share.sum(totals), pack.share.sum(sums)
    return sums / totals.clamp(min=torch.finfo(totals.dtype).tiny)


def segment_first(rows: Tensor, pack: Pack) -> Tensor:
    """First token of each sequence: `(T, D)` -> `(B, D)` in pack order."""
    if pack.share is None:
        return rows.index_select(0, pack.starts)
    here = (pack.position == 0).nonzero().squeeze(1)
    out = rows.new_zeros(pack.num_sequences, rows.shape[1])
    out = out.index_copy(0, pack.sequence.index_select(0, here), rows.index_select(0, here))
    return pack.share.sum(out)


def segment_flat(rows: Tensor, pack: Pack, length: int) -> Tensor:
    """All tokens of each sequence side by side: `(T, D)` -> `(B, length * D)` in pack order."""
    wrong = [size for size in pack.sizes or () if size != length]
    if wrong or pack.num_rows != pack.num_sequences * length:
        given = f"{wrong[0]}" if wrong else f"{pack.num_rows // pack.num_sequences}"
        raise ValueError(
            f"pooling='flat' reads sequences of exactly {length} tokens "
            f"(config.max_position_embeddings), got one of {given}."
        )
    return pack.blank(rows).view(pack.num_sequences, length * rows.shape[1])
