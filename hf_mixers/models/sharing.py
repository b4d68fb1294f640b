"""A pack over several processes: each has some of its rows, and they exchange what they read.

Idea: rows are dealt out in equal stretches, in the order of the pack, whatever sequences they are
of. What a token does alone needs no company. A rotation is a permutation of pieces (a track of a
row); a piece that comes from another process comes with one uneven all-to-all per block. Which
pieces go where follows from the lengths alone, so all processes work it out by themselves.
Cost: of a long sequence on P processes, (1 + log2 P) of its tracks leave a process in each block.

All collectives have their true adjoints as gradients: every process takes the loss as its own, and
the mean of all gradients is the gradient, which is what DDP and FSDP compute.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .packing import Pack

# the processes that share packs now, or none
_groups: list[Any] = []


@contextmanager
def shared_over(group: Any) -> Iterator[None]:
    """Models that are called inside share each pack over the processes of `group`."""
    _groups.append(group)
    try:
        yield
    finally:
        _groups.pop()


def current_group() -> Any:
    """The processes that share packs now; None if there is one at most."""
    group = _groups[-1] if _groups else None
    return None if group is None or dist.get_world_size(group) == 1 else group


@dataclass(frozen=True)
class Share:
    """Which rows of a pack a process has: those from `first` on, up to the next one's first."""

    group: Any
    rank: int
    bounds: tuple[int, ...]  # first row of every process, and the number of rows

    @property
    def first(self) -> int:
        return self.bounds[self.rank]

    @property
    def most_rows(self) -> int:
        """The most rows that a process has: the same number for all of them."""
        return max(end - start for start, end in zip(self.bounds, self.bounds[1:], strict=False))

    def count_own(self, rows: int) -> int:
        """How many of the first `rows` rows of the pack are here."""
        own = self.bounds[self.rank + 1] - self.first
        return min(max(rows - self.first, 0), own)

    def owners(self, rows: Tensor) -> Tensor:
        """The process that each row of the pack belongs to."""
        ends = torch.tensor(self.bounds[1:], device=rows.device)
        return torch.searchsorted(ends, rows, right=True)

    def sum(self, values: Tensor) -> Tensor:
        """The sum of what all processes have, with gradients."""
        return _Sum.apply(values, self.group)

    def largest(self, values: Tensor) -> Tensor:
        """The largest of what all processes have, with gradients."""
        return _Largest.apply(values, self.group)


def share_pack(pack: Pack, group: Any) -> Pack:
    """The part of a ragged pack that this process has."""
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    step = -(-pack.num_rows // size)
    bounds = tuple(min(number * step, pack.num_rows) for number in range(size + 1))
    own = slice(bounds[rank], bounds[rank + 1])
    source = pack.source
    if source is None:
        source = torch.arange(own.start, own.stop, device=pack.sequence.device)
    else:
        source = source[own].clone()
    return replace(
        pack,
        sequence=pack.sequence[own].clone(),
        position=pack.position[own].clone(),
        row_lengths=pack.row_lengths[own].clone(),
        source=source,
        share=Share(group, rank, bounds),
    )


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, group):
        ctx.group = group
        total = values.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, grad):
        return _Sum.apply(grad, ctx.group), None


class _Largest(torch.autograd.Function):
    """The largest of what all processes have; its gradient goes to where it is, in equal parts."""

    @staticmethod
    def forward(ctx, values, group):
        largest = values.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
        here = (values == largest).to(values.dtype)
        count = here.clone()
        dist.all_reduce(count, group=group)
        ctx.group = group
        ctx.save_for_backward(here / count)
        return largest

    @staticmethod
    def backward(ctx, grad):
        (part,) = ctx.saved_tensors
        total = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.group)
        return total * part, None


def exchange(rows: Tensor, sent: list[int], received: list[int], group: Any) -> Tensor:
    """Rows for each process one after the other -> rows from each."""
    out = rows.new_empty(sum(received), rows.shape[1])
    dist.all_to_all_single(out, rows.contiguous(), received, sent, group=group)
    return out


def find_targets(pack: Pack, offset: int) -> Tensor:
    """The row of the whole pack that each row here reads, `offset` positions on, circularly."""
    start = pack.starts.index_select(0, pack.sequence)
    return start + (pack.position + offset) % pack.row_lengths


class SharedRotation:
    """The rotation of `ops_chord_rows.Rotation` for a shared pack.

    Pieces are numbered `row * tracks + track`. Those that come from elsewhere come by process, then
    track, then the row that reads them.
    """

    def __init__(self, pack: Pack, offsets: tuple[int, ...], inverse: bool = False):
        self.pack, self.num_tracks = pack, len(offsets)
        self.share: Share = pack.share
        signed = [-offset if inverse else offset for offset in offsets]
        size = len(self.share.bounds) - 1
        places: list[list[Tensor]] = [[] for _ in range(size)]
        pieces: list[list[Tensor]] = [[] for _ in range(size)]
        kind = torch.int32 if pack.num_rows * self.num_tracks < 2**31 else torch.int64
        index = torch.empty(
            (pack.num_rows, self.num_tracks), dtype=kind, device=pack.sequence.device
        )
        for track, offset in enumerate(signed):
            index[:, track] = self._read(track, offset, places)
            self._send(track, offset, pieces)
        self.index = index.flatten()
        self.received = [sum(map(len, parts)) for parts in places]
        self.sent = [sum(map(len, parts)) for parts in pieces]
        self.pieces = _join(pieces, pack.sequence.device)
        # what was received, in the order of the rows that read it
        self.places, self.order = _join(places, pack.sequence.device).sort()

    @classmethod
    def of(cls, pack: Pack, offsets: tuple[int, ...], inverse: bool = False) -> "SharedRotation":
        """The rotation that an earlier block has worked out, if there is one."""
        notes = pack.notes if pack.whole is None else pack.whole.notes
        key = cls, offsets, inverse, pack.num_sequences
        if key not in notes:
            notes[key] = cls(pack, offsets, inverse)
        return notes[key]

    def _read(self, track: int, offset: int, places: list[list[Tensor]]) -> Tensor:
        """Pieces that rows here read of a track; `places` of those that are not here."""
        rows = find_targets(self.pack, offset)
        owners = self.share.owners(rows)
        own = owners == self.share.rank
        for process in range(len(places)):
            if process != self.share.rank:
                readers = (owners == process).nonzero().squeeze(1)
                places[process].append(readers * self.num_tracks + track)
        return torch.where(own, rows - self.share.first, 0) * self.num_tracks + track

    def _send(self, track: int, offset: int, pieces: list[list[Tensor]]) -> None:
        """Pieces of a track that other processes read, by the rows that read them."""
        readers = find_targets(self.pack, -offset)
        owners = self.share.owners(readers)
        for process in range(len(pieces)):
            if process != self.share.rank:
                rows = (owners == process).nonzero().squeeze(1)
                rows = rows[readers[rows].argsort()]
                pieces[process].append(rows * self.num_tracks + track)

    def reading(self, hidden: Tensor) -> "SharedReader":
        """Have everything here that rows read of `hidden`; all processes must call it."""
        tracks = self.split(hidden.contiguous())
        found = exchange(
            tracks.index_select(0, self.pieces), self.sent, self.received, self.share.group
        )
        return SharedReader(self, found)

    def split(self, hidden: Tensor) -> Tensor:
        """Rows as pieces; there may be none."""
        return hidden.view(hidden.shape[0] * self.num_tracks, hidden.shape[1] // self.num_tracks)

    def rotate(self, hidden: Tensor) -> Tensor:
        """All rows here of the rotated `hidden`."""
        hidden = hidden.contiguous()
        reader = self.reading(hidden)
        return reader.rows(hidden, slice(0, hidden.shape[0]), torch.empty_like(hidden))


class SharedReader:
    """Rows of a rotated matrix, some at a time, once the exchange is done."""

    def __init__(self, rotation: SharedRotation, found: Tensor):
        self.rotation, self.found = rotation, found.index_select(0, rotation.order)

    def rows(self, hidden: Tensor, rows: slice, out: Tensor) -> Tensor:
        """Rows of the rotated `hidden`, written to the first rows of `out`."""
        rotation = self.rotation
        out = out[: rows.stop - rows.start]
        tracks, target = rotation.split(hidden), rotation.split(out)
        first, last = rows.start * rotation.num_tracks, rows.stop * rotation.num_tracks
        torch.index_select(tracks, 0, rotation.index[first:last], out=target)
        if len(self.found):
            inside = self._find(first, last)
            places = rotation.places[inside] - first
            target.index_copy_(0, places, self.found[inside].to(target.dtype))
        return out

    def _find(self, first: int, last: int) -> slice:
        """Which of the pieces that were received are in a range."""
        if first == 0 and last == len(self.rotation.index):
            return slice(None)
        places = self.rotation.places
        ends = torch.tensor([first, last], device=places.device)
        return slice(*torch.searchsorted(places, ends).tolist())


def _join(parts: list[list[Tensor]], device: torch.device) -> Tensor:
    flat = [part for process in parts for part in process]
    return torch.cat(flat) if flat else torch.empty(0, dtype=torch.long, device=device)


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, pack, offsets, inverse):
        ctx.settings = pack, offsets, not inverse
        return SharedRotation.of(pack, offsets, inverse).rotate(hidden)

    @staticmethod
    def backward(ctx, grad):
        return _Rotate.apply(grad, *ctx.settings), None, None, None


def rotate_shared(hidden: Tensor, pack: Pack, offsets: tuple[int, ...]) -> Tensor:
    """`ops_chord.rotate` of a shared pack; all its processes must call it."""
    return _Rotate.apply(hidden, pack, offsets, False)
