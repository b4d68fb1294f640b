"""The rotation against its slow twin, forward and gradient, in both layouts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_mixers.models import ops_chord
from hf_mixers.models.ops_chord import chord_offsets, rotate
from hf_mixers.models.packing import Boundaries, pack_ragged, pack_static
from tests.reference import chord as reference

LAYOUTS = [pack_ragged, pack_static]
EDGE_LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17]


def boundaries(lengths: list[int], width: int | None = None) -> Boundaries:
    width = width or max(lengths)
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    return Boundaries(tuple(mask.shape), torch.device("cpu"), mask=mask)


def both_ways(lengths, tracks, track_size, layout, alternating=False, dtype=torch.float64):
    """Output and gradient of the op and of the slow twin on the same batch."""
    batch = boundaries(lengths, max(lengths) + 2)
    pack = layout([batch])
    values = torch.randn(*batch.shape, tracks * track_size, dtype=dtype, requires_grad=True)
    weights = torch.randn(*batch.shape, tracks * track_size, dtype=dtype)

    offsets = chord_offsets(tracks, alternating)
    out = pack.unpack(rotate(pack.gather(values.flatten(0, 1)), pack, offsets))
    (grad,) = torch.autograd.grad((out.view_as(values) * weights).sum(), values)

    slow = torch.zeros_like(values)
    base = -2 if alternating else 2
    for row, length in enumerate(lengths):
        slow[row, :length] = reference.rotate(values[row, :length], track_size, base)
    (slow_grad,) = torch.autograd.grad((slow * weights).sum(), values)
    return out.view_as(values), grad, slow, slow_grad


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("alternating", [False, True])
def test_rotation_equals_its_slow_twin_at_edge_lengths(layout, alternating):
    out, grad, slow, slow_grad = both_ways(EDGE_LENGTHS, 6, 2, layout, alternating)
    assert torch.equal(out, slow)
    assert torch.equal(grad, slow_grad)


@pytest.mark.parametrize("layout", LAYOUTS)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    tracks=st.integers(1, 6),
    track_size=st.integers(1, 3),
    alternating=st.booleans(),
)
def test_rotation_equals_its_slow_twin_for_any_mix(
    layout, lengths, tracks, track_size, alternating
):
    out, grad, slow, slow_grad = both_ways(lengths, tracks, track_size, layout, alternating)
    assert torch.equal(out, slow)
    assert torch.equal(grad, slow_grad)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rotation_passes_gradcheck_twice(layout):
    pack = layout([boundaries([5, 1, 3])])
    values = torch.randn(pack.num_rows, 8, dtype=torch.float64, requires_grad=True)

    def rotated(rows):
        return pack.unpack(rotate(rows, pack, chord_offsets(4)))

    assert torch.autograd.gradcheck(rotated, values)
    assert torch.autograd.gradgradcheck(lambda rows: rotated(rows.square()), values)


def test_the_two_slow_twins_agree():
    for length in EDGE_LENGTHS:
        sequence = torch.randn(length, 10)
        for base in (2, -2):
            by_number = reference.rotate(sequence, 2, base)
            assert torch.equal(by_number, reference.rotate_by_roll(sequence, 2, base))


def test_a_rotation_that_leaks_over_a_boundary_is_caught(monkeypatch):
    def leaking(hidden, position, lengths, valid, offsets):
        tracks = hidden.chunk(len(offsets), dim=1)
        return torch.cat([t.roll(-o, 0) for t, o in zip(tracks, offsets, strict=True)], 1)

    monkeypatch.setattr(ops_chord, "_gather_by_track", leaking)
    out, _, slow, _ = both_ways([5, 3], tracks=3, track_size=2, layout=pack_ragged)
    assert not torch.equal(out, slow)


def test_rotation_never_holds_an_index_of_all_tracks(monkeypatch):
    sizes = []
    select = torch.Tensor.index_select

    def watched(self, dim, index):
        sizes.append(index.numel())
        return select(self, dim, index)

    monkeypatch.setattr(torch.Tensor, "index_select", watched)
    pack = pack_ragged([boundaries([4096])])
    rotate(torch.zeros(4096, 13), pack, chord_offsets(13))
    assert max(sizes) <= 4096
