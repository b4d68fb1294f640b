"""The rotation of ChordMixer, as a pure function on a pack.

Paper: Khalitov et al., ChordMixer, ICLR 2023, equations 1 and 2.
Idea: channels form tracks; track 0 stays and track t is shifted circularly by 2^(t-1) positions, so
  that ceil(log2 N) rotations with channel mixing in between let every token hear every other one.
  With shifts 1, -2, 4, -8, ... they do as well: every number has digits in base -2 too.
Cost: one copy of the matrix; no parameters; in eager mode one `(T,)` index per track at a time.
Ours differs from the authors' in rotating every sequence of a batch by itself, at any mix of
lengths. From the pack it needs lengths and positions.
"""

import torch
from torch import Tensor

from .packing import Pack
from .sharing_rotation import rotate_shared


def chord_offsets(num_tracks: int, alternating: bool = False) -> tuple[int, ...]:
    """Shift of every track: 0, 1, 2, 4, 8, ..., or 0, 1, -2, 4, -8, ..."""
    base = -2 if alternating else 2
    return 0, *(base**track for track in range(num_tracks - 1))


def rotate(hidden: Tensor, pack: Pack, offsets: tuple[int, ...]) -> Tensor:
    """Every track of every sequence shifted: row j takes its track t from row j + offset_t (mod N).

    Args:
        hidden: `(T, D)`, D a multiple of the number of tracks.
        offsets: Shift of every track, the first 0.
    """
    if pack.share is not None:
        return rotate_shared(hidden, pack, offsets)
    gather = _gather_at_once if pack.is_compiled else _gather_by_track
    layout = pack.position, pack.row_lengths, pack.valid
    return _Rotate.apply(hidden, *layout, offsets, gather, False)


class _Rotate(torch.autograd.Function):
    """A permutation of numbers: its gradient is the inverse permutation, a gather as well."""

    @staticmethod
    def forward(hidden, position, lengths, valid, offsets, gather, inverse):
        signed = tuple(-offset if inverse else offset for offset in offsets)
        return gather(hidden, position, lengths, valid, signed)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, position, lengths, valid, offsets, gather, inverse = inputs
        ctx.save_for_backward(position, lengths, valid)
        ctx.settings = offsets, gather, not inverse

    @staticmethod
    def backward(ctx, grad):
        return _Rotate.apply(grad, *ctx.saved_tensors, *ctx.settings), *[None] * 6


def source_rows(
    position: Tensor, lengths: Tensor, valid: Tensor | None, offset: int | Tensor
) -> Tensor:
    """The row that each row reads `offset` positions on in its sequence, circularly.

    Takes `position`, `row_lengths` and `valid` of a pack, `(T,)`, or `(T, 1)` for offsets `(K,)`.
    """
    rows = torch.arange(position.shape[0], device=position.device).view_as(position)
    source = rows - position + (position + offset) % lengths
    # padding stays put, so that it neither reads nor, in the gradient, writes a token
    return source if valid is None else torch.where(valid, source, rows)


def _gather_by_track(hidden, position, lengths, valid, offsets):
    tracks = hidden.chunk(len(offsets), dim=1)
    rotated = [tracks[0]]
    for track, offset in zip(tracks[1:], offsets[1:], strict=True):
        source = source_rows(position, lengths, valid, offset)
        rotated.append(track.index_select(0, source))
    return torch.cat(rotated, dim=1)


def _gather_at_once(hidden, position, lengths, valid, offsets):
    """The same in a few operations whatever the number of tracks.

    Compilers take long over many operations.
    """
    tracks = hidden.unflatten(1, (len(offsets), -1))
    valid = None if valid is None else valid[:, None]
    shifts = torch.tensor(offsets, device=hidden.device)
    source = source_rows(position[:, None], lengths[:, None], valid, shifts)
    return tracks.gather(0, source[:, :, None].expand_as(tracks)).flatten(1)
