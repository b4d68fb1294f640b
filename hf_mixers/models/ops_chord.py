"""The rotation of ChordMixer, as a pure function on a pack.

Paper: Khalitov et al., ChordMixer, ICLR 2023, equations 1 and 2.
Idea: channels form tracks; track 0 stays and track t is shifted circularly by 2^(t-1) positions, so
  that ceil(log2 N) rotations with channel mixing in between let every token hear every other one.
Cost: one copy of the matrix; no parameters, no `(T, K)` index, one `(T,)` index per track.
Ours differs from the authors' in rotating every sequence of a batch by itself, at any mix of
lengths. From the pack it needs lengths and positions.
"""

import torch
from torch import Tensor

from .packing import Pack


def chord_offsets(num_tracks: int) -> list[int]:
    """Shift of every track: 0, 1, 2, 4, ..."""
    return [0, *(1 << track for track in range(num_tracks - 1))]


def rotate(hidden: Tensor, pack: Pack, track_size: int) -> Tensor:
    """Every track of every sequence shifted: row j takes its track t from row j + offset_t (mod N).

    Args:
        hidden: `(T, D)`, D a multiple of `track_size`.
    """
    lengths = pack.lengths.clamp(min=1)[pack.sequence]
    return _Rotate.apply(hidden, pack.position, lengths, pack.valid, track_size, False)


class _Rotate(torch.autograd.Function):
    """A permutation of numbers: its gradient is the inverse permutation, a gather as well."""

    @staticmethod
    def forward(ctx, hidden, position, lengths, valid, track_size, inverse):
        ctx.save_for_backward(position, lengths, valid)
        ctx.track_size, ctx.inverse = track_size, inverse
        return _gather_tracks(hidden, position, lengths, valid, track_size, inverse)

    @staticmethod
    def backward(ctx, grad):
        position, lengths, valid = ctx.saved_tensors
        grad = _Rotate.apply(grad, position, lengths, valid, ctx.track_size, not ctx.inverse)
        return grad, None, None, None, None, None


def _gather_tracks(hidden, position, lengths, valid, track_size, inverse):
    rows = torch.arange(hidden.shape[0], device=hidden.device)
    first_rows = rows - position
    tracks = hidden.split(track_size, dim=1)
    rotated = []
    for track, offset in zip(tracks, chord_offsets(len(tracks)), strict=True):
        if offset == 0:
            rotated.append(track)
            continue
        index = first_rows + (position - offset if inverse else position + offset) % lengths
        if valid is not None:
            # padding stays put, so that it neither reads nor, in the gradient, writes a token
            index = torch.where(valid, index, rows)
        rotated.append(track.index_select(0, index))
    return torch.cat(rotated, dim=1)
