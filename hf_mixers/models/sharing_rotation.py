"""The rotation of ChordMixer on a pack that processes share.

Idea: a track of a sequence is shifted as a whole, so what a process reads of it is a few runs of
consecutive rows, here or elsewhere. Only a sequence that crosses a boundary between processes is
cut up that way, and a process has two of them at the most; those between are rotated as always.
Runs from elsewhere come with one uneven all-to-all, by process, then track, then row that reads.
Cost: of a long sequence on P processes, (1 + log2 P) of its tracks leave a process in each
rotation. Memory: what is sent and what is received; the runs themselves are a few numbers.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from .ops_chord_rows import Rotation, chunks
from .packing import Pack
from .sharing import Share, exchange


@dataclass(frozen=True)
class Run:
    """`count` rows of a track that are read from `source` on, by the rows from `reader` on."""

    track: int
    reader: int
    source: int
    count: int
    owner: int


def find_runs(
    share: Share, process: int, sequences: list[tuple[int, int]], offsets: list[int]
) -> Iterator[Run]:
    """What the rows of a process read of some sequences, each given by its first row and its end.

    Rows are those of the whole pack.
    """
    first, last = share.bounds[process : process + 2]
    for track, offset in enumerate(offsets):
        for start, end in sequences:
            reader, stop = max(first, start), min(last, end)
            while reader < stop:
                source = start + (reader - start + offset) % (end - start)
                owner = bisect_right(share.bounds, source) - 1
                count = min(stop - reader, end - source, share.bounds[owner + 1] - source)
                yield Run(track, reader, source, count, owner)
                reader += count


class SharedRotation:
    """`ops_chord_rows.Rotation` for a shared pack; `reading` is where processes exchange rows."""

    def __init__(self, pack: Pack, offsets: tuple[int, ...], inverse: bool = False):
        self.num_tracks, self.num_rows = len(offsets), pack.num_rows
        share: Share = pack.share
        self.share, self.first = share, share.first
        crossing, self.whole = divide(pack)
        self.inside = _rotate_inside(pack, offsets, inverse) if self.whole else None
        signed = [-offset if inverse else offset for offset in offsets]
        processes = range(len(share.bounds) - 1)
        runs = list(find_runs(share, share.rank, crossing, signed))
        self.own = [run for run in runs if run.owner == share.rank]
        self.coming = [run for run in runs if run.owner != share.rank]
        # the sort is stable: by process, then as they were found
        self.coming.sort(key=lambda run: run.owner)
        self.received = [sum(r.count for r in self.coming if r.owner == p) for p in processes]
        self.given, self.sent = [], [0] * len(processes)
        for process in processes:
            if process != share.rank:
                runs = list(find_runs(share, process, crossing, signed))
                mine = [run for run in runs if run.owner == share.rank]
                self.sent[process] = sum(run.count for run in mine)
                self.given += mine

    @classmethod
    def of(cls, pack: Pack, offsets: tuple[int, ...], inverse: bool = False) -> "SharedRotation":
        """The rotation that an earlier block has worked out, if there is one."""
        notes = pack.notes if pack.whole is None else pack.whole.notes
        key = cls, offsets, inverse, pack.num_sequences
        if key not in notes:
            notes[key] = cls(pack, offsets, inverse)
        return notes[key]

    def reading(self, hidden: Tensor) -> "SharedReader":
        """Have everything here that rows read of `hidden`; all processes must call it."""
        width = hidden.shape[1] // self.num_tracks
        leaving = hidden.new_empty(sum(self.sent), width)
        place = 0
        for run in self.given:
            source = run.source - self.first
            piece = hidden[source : source + run.count, self.columns(run, width)]
            leaving[place : place + run.count] = piece
            place += run.count
        found = exchange(leaving, self.sent, self.received, self.share.group)
        return SharedReader(self, found)

    @staticmethod
    def columns(run: Run, width: int) -> slice:
        """The columns of the track of a run."""
        return slice(run.track * width, (run.track + 1) * width)

    def rotate(self, hidden: Tensor) -> Tensor:
        """All rows here of the rotated `hidden`."""
        hidden = hidden.contiguous()
        reader, out = self.reading(hidden), torch.empty_like(hidden)
        for rows in chunks(self.num_rows, hidden.device):
            reader.rows(hidden, rows, out[rows])
        return out


class SharedReader:
    """Rows of a rotated matrix, some at a time, once the exchange is done."""

    def __init__(self, rotation: SharedRotation, found: Tensor):
        self.rotation, self.found = rotation, found

    def rows(self, hidden: Tensor, rows: slice, out: Tensor) -> Tensor:
        """Rows of the rotated `hidden`, written to the first rows of `out`."""
        rotation, out = self.rotation, out[: rows.stop - rows.start]
        for run in rotation.own:
            self._copy(run, hidden, run.source - rotation.first, rows, out)
        place = 0
        for run in rotation.coming:
            self._copy(run, self.found, place, rows, out)
            place += run.count
        whole = rotation.whole
        first, last = max(rows.start, whole.start), min(rows.stop, whole.stop)
        if rotation.inside is not None and first < last:
            inside = slice(first - whole.start, last - whole.start)
            part = out[first - rows.start : last - rows.start]
            rotation.inside.rows(hidden[whole.start : whole.stop], inside, part)
        return out

    def _copy(self, run: Run, rows_of: Tensor, source: int, rows: slice, out: Tensor) -> None:
        """What a run gives to `rows`, from the rows of a matrix from `source` on."""
        reader = run.reader - self.rotation.first
        first, last = max(rows.start, reader), min(rows.stop, reader + run.count)
        if first < last:
            columns = self.rotation.columns(run, out.shape[1] // self.rotation.num_tracks)
            # of a matrix that has come, all columns are of the track
            part = rows_of if rows_of is self.found else rows_of[:, columns]
            source += first - reader
            target = out[first - rows.start : last - rows.start, columns]
            target.copy_(part[source : source + last - first])


def divide(pack: Pack) -> tuple[list[tuple[int, int]], range]:
    """Sequences that are here in part only, and the rows here of those that are here as a whole.

    A sequence is its first row in the whole pack and its end.
    """
    share = pack.share
    first, last = share.first, share.bounds[share.rank + 1]
    ends = accumulate(pack.sizes)
    here = [
        (end - size, end)
        for size, end in zip(pack.sizes, ends, strict=True)
        if end > first and end - size < last
    ]
    crossing = [(start, end) for start, end in here if start < first or end > last]
    whole = [(start, end) for start, end in here if start >= first and end <= last]
    rows = range(whole[0][0] - first, whole[-1][1] - first) if whole else range(0)
    return crossing, rows


def _rotate_inside(pack: Pack, offsets: tuple[int, ...], inverse: bool) -> Rotation:
    """The rotation of the sequences that are here as a whole, which is that of the first too."""
    pack = pack if pack.whole is None else pack.whole
    key = _rotate_inside, offsets, inverse
    if key not in pack.notes:
        _, rows = divide(pack)
        start = pack.share.first + rows.start
        ends = [*accumulate(pack.sizes)]
        numbers = slice(bisect_right(ends, start), bisect_right(ends, start + len(rows)))
        own = slice(rows.start, rows.stop)
        inside = Pack(
            lengths=pack.lengths[numbers],
            starts=pack.starts[numbers] - start,
            sequence=pack.sequence[own] - numbers.start,
            position=pack.position[own],
            row_lengths=pack.row_lengths[own],
            num_source_rows=len(rows),
            sizes=pack.sizes[numbers],
        )
        pack.notes[key] = Rotation(inside, offsets, inverse)
    return pack.notes[key]


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
