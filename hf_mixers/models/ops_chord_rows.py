"""The rotation of ChordMixer some rows at a time, for operations that walk a pack in chunks.

The twin of `ops_chord.rotate`, into memory that is given. Long sequences are copied in stretches;
rows of several sequences are gathered, with places in 32 bits and without a division. From the pack
it needs the ragged layout.
"""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

import torch
from torch import Tensor

from .packing import Pack, upload

# rows that pass together: few enough for the cache, or enough to keep an accelerator busy
CHUNK_ROWS = {"cpu": 4096}
CHUNK_ROWS_ELSEWHERE = 131_072
# up to how many numbers the places that a rotation reads from are kept for the next block
KEPT_PLACES = 1 << 22


def chunks(num_rows: int, device: torch.device, start: int = 0) -> Iterator[slice]:
    """Slices that cover all rows, or those from `start` on."""
    step = CHUNK_ROWS.get(device.type, CHUNK_ROWS_ELSEWHERE)
    for first in range(start, num_rows, step):
        yield slice(first, min(num_rows, first + step))


class Rotation:
    """The rotation of a ragged pack, some rows at a time: `rows` is part of `ops_chord.rotate`."""

    def __init__(self, pack: Pack, offsets: tuple[int, ...], inverse: bool = False):
        self.pack, self.num_tracks = pack, len(offsets)
        self.offsets = [-offset if inverse else offset for offset in offsets]
        self.ends = list(accumulate(pack.sizes))
        self._tables: tuple[Tensor, ...] | None = None
        self._places: dict[int, Tensor] = {}

    def reading(self, hidden: Tensor) -> "Rotation":
        """What has `rows` of `hidden`."""
        return self

    @classmethod
    def of(cls, pack: Pack, offsets: tuple[int, ...], inverse: bool = False) -> "Rotation":
        """The rotation that an earlier block has used, if there is one.

        That of a pack is that of its first sequences too.
        """
        pack = pack if pack.whole is None else pack.whole
        key = cls, offsets, inverse
        if key not in pack.notes:
            pack.notes[key] = cls(pack, offsets, inverse)
        return pack.notes[key]

    def rows(self, hidden: Tensor, rows: slice, out: Tensor) -> Tensor:
        """Rows of the rotated `hidden`, written to the first rows of `out`."""
        out = out[: rows.stop - rows.start]
        number = bisect_right(self.ends, rows.start)
        if hidden.device.type == "cpu" and rows.stop <= self.ends[number]:
            self._copy_slices(hidden, rows, number, out)
        else:
            tracks = hidden.view(hidden.shape[0] * self.num_tracks, -1)
            torch.index_select(tracks, 0, self._index(rows), out=out.view(-1, tracks.shape[1]))
        return out

    def _index(self, rows: slice) -> Tensor:
        if self.pack.num_rows * self.num_tracks > KEPT_PLACES:
            return self._find_places(rows)
        if rows.start not in self._places:
            # all of the chunk: other blocks may be for more sequences than this one
            whole = next(chunks(self.pack.num_rows, self.pack.sequence.device, rows.start))
            self._places[rows.start] = self._find_places(whole)
        return self._places[rows.start][: (rows.stop - rows.start) * self.num_tracks]

    def _copy_slices(self, hidden: Tensor, rows: slice, number: int, out: Tensor) -> None:
        """Rows of one sequence: each track comes from one stretch of rows, or two at its end."""
        size = self.pack.sizes[number]
        begin = self.ends[number] - size
        sequence = hidden[begin : begin + size]
        width = hidden.shape[1] // self.num_tracks
        for track, offset in enumerate(self.offsets):
            columns = slice(track * width, (track + 1) * width)
            source, target = sequence[:, columns], out[:, columns]
            first = (rows.start - begin + offset) % size
            before_end = min(size - first, len(target))
            target[:before_end].copy_(source[first : first + before_end])
            if before_end < len(target):
                target[before_end:].copy_(source[: len(target) - before_end])

    def _find_places(self, rows: slice) -> Tensor:
        """For each row and track of `rows`, its place in the `(T * num_tracks)` pieces of tracks.

        The sum of position and shift stays below twice the length, so a sign bit takes the place of
        a division.
        """
        if self._tables is None:
            self._tables = self._make_tables()
        shifts, starts, positions, lengths = self._tables
        sequence = self.pack.sequence[rows]
        index = shifts.index_select(0, sequence).add_(positions[rows, None])
        wrapped = (index >> (8 * index.element_size() - 1)).bitwise_and_(lengths[rows, None])
        return index.add_(wrapped).add_(starts.index_select(0, sequence)[:, None]).view(-1)

    def _make_tables(self) -> tuple[Tensor, ...]:
        """Everything in pieces of tracks, and shifts less the length of their sequence."""
        pack, tracks = self.pack, self.num_tracks
        small = pack.num_rows * tracks < 2**31
        dtype = torch.int32 if small else torch.int64
        offsets = upload(self.offsets, pack.lengths.device)
        lengths = pack.lengths[:, None]
        shifts = offsets % lengths - lengths
        shifts = shifts * tracks + torch.arange(tracks, device=offsets.device)
        parts = shifts, pack.starts * tracks, pack.position * tracks, pack.row_lengths * tracks
        return tuple(part.to(dtype) for part in parts)
