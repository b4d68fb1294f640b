"""Pooling and repeating against dense matrices, forward and gradient; blocks without waste."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_mixers.models import ops_multiresolution
from hf_mixers.models.ops_kernel_attention import (
    banded_attention,
    draw_directions,
    linear_attention,
    random_key_features,
    random_query_features,
)
from hf_mixers.models.ops_multiresolution import at_scale, count_groups, pool, repeat
from hf_mixers.models.packing import Boundaries, pack_ragged, pack_static
from tests.reference import multiresolution as reference

LAYOUTS = [pack_ragged, pack_static]
EDGE_LENGTHS = [1, 2, 2, 3, 4, 5, 7, 8, 8, 8, 9, 15, 16, 17]
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def padded(lengths, extra=2):
    mask = torch.arange(max(lengths) + extra) < torch.tensor(lengths)[:, None]
    return Boundaries(tuple(mask.shape), torch.device("cpu"), mask=mask)


def flat(lengths, longest=None):
    ends = torch.tensor([0, *lengths]).cumsum(0)
    shape = (1, sum(lengths))
    return Boundaries(shape, torch.device("cpu"), cu_seq_lens=ends, longest=longest)


def sequences_of(rows, pack):
    """Rows of each sequence in the caller's order."""
    parts = [
        rows[start : start + length]
        for start, length in zip(pack.starts.tolist(), pack.lengths.tolist(), strict=True)
    ]
    order = range(len(parts)) if pack.order is None else pack.order.argsort().tolist()
    return [parts[place] for place in order]


def coarse_parts(coarse, at, pack):
    """Coarse rows of each sequence in the caller's order, without padding of blocks."""
    parts = []
    for block, sizes in zip(at.split(coarse), at.split(at.sizes), strict=True):
        parts += [rows[size > 0] for rows, size in zip(block, sizes, strict=True)]
    order = range(len(parts)) if pack.order is None else pack.order.argsort().tolist()
    return [parts[place] for place in order]


def check_maps(boundaries, lengths, layout, scale, prefix):
    """Pool, and pool and repeat, with their gradients, beside dense matrices."""
    pack = layout([boundaries])
    at = at_scale(pack, scale, prefix)
    rows = torch.randn(pack.num_rows, 3, dtype=torch.float64, requires_grad=True)
    pooled = pool(rows, at)
    back = repeat(pooled, at)
    for part, coarse, fine in zip(
        sequences_of(rows, pack),
        coarse_parts(pooled, at, pack),
        sequences_of(back, pack),
        strict=True,
    ):
        length = len(part)
        torch.testing.assert_close(coarse, reference.down(length, scale, prefix) @ part)
        torch.testing.assert_close(
            fine, reference.project_onto_groups(length, scale, prefix) @ part
        )
    probe = torch.randn_like(back)
    if pack.valid is not None:
        probe = probe * pack.valid[:, None]
    (grad,) = torch.autograd.grad((back * probe).sum(), rows)
    # the projection is symmetric: its gradient is itself
    for grad_part, probe_part in zip(
        sequences_of(grad, pack), sequences_of(probe, pack), strict=True
    ):
        matrix = reference.project_onto_groups(len(probe_part), scale, prefix)
        torch.testing.assert_close(grad_part, matrix @ probe_part)


@every_layout
@pytest.mark.parametrize("scale", [1, 2, 3, 8, 32])
@pytest.mark.parametrize("prefix", [0, 1, 3])
@pytest.mark.parametrize("kind", [padded, flat])
def test_pooling_and_repeating_equal_dense_matrices(layout, scale, prefix, kind):
    check_maps(kind(EDGE_LENGTHS), EDGE_LENGTHS, layout, scale, prefix)


@every_layout
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    scale=st.integers(1, 9),
    prefix=st.integers(0, 3),
    is_flat=st.booleans(),
)
def test_any_mix_of_lengths_is_pooled_sequence_by_sequence(layout, lengths, scale, prefix, is_flat):
    boundaries = flat(lengths, longest=max(lengths)) if is_flat else padded(lengths)
    check_maps(boundaries, lengths, layout, scale, prefix)


@pytest.mark.parametrize("lengths", [[16, 16], [16, 8], [13, 5, 5], [9]])
def test_maps_pass_gradcheck_twice(lengths):
    pack = pack_ragged([flat(lengths)])
    at = at_scale(pack, 4, 0)
    rows = torch.randn(pack.num_rows, 2, dtype=torch.float64, requires_grad=True)
    coarse = torch.randn(len(at.first), 2, dtype=torch.float64, requires_grad=True)
    for function, given_rows in ((pool, rows), (repeat, coarse)):
        assert torch.autograd.gradcheck(lambda x, f=function: f(x, at), given_rows)
        assert torch.autograd.gradgradcheck(lambda x, f=function: f(x, at), given_rows)


def test_groups_that_lie_side_by_side_are_not_gathered(monkeypatch):
    even, uneven = (at_scale(pack_ragged([flat(n)]), 4, 0) for n in ([16, 16, 8], [16, 15, 8]))
    assert even.is_regular
    assert not uneven.is_regular
    rows = torch.randn(40, 3)
    by_view = pool(rows, even), repeat(pool(rows, even), even)
    object.__setattr__(even, "is_regular", False)
    torch.testing.assert_close((pool(rows, even), repeat(pool(rows, even), even)), by_view)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("length", [64, 63])
def test_low_precision_sums_in_float32(dtype, length):
    at = at_scale(pack_ragged([flat([length])]), 32, 0)
    rows = torch.rand(length, 2).to(dtype)
    exact = pool(rows.double(), at)
    torch.testing.assert_close(pool(rows, at).double(), exact, atol=0, rtol=0.01)


@given(lengths=st.lists(st.integers(1, 3000), min_size=1, max_size=60))
def test_blocks_waste_little_whatever_the_mix(lengths):
    pack = pack_ragged([flat(lengths)])
    blocks = at_scale(pack, 1, 0).blocks
    assert sum(block.count for block in blocks) == len(lengths)
    computed = sum(block.count * block.width**2 for block in blocks)
    needed = sum(length**2 for length in lengths)
    # short ones stand beside those that have a few tokens more
    slack = sum((length + 5) ** 2 - length**2 for length in lengths)
    assert computed <= 1.34 * (needed + slack)


def test_blocks_hold_the_same_sequences_at_every_scale():
    pack = pack_ragged([flat([900, 850, 700, 33, 32, 31, 5, 4, 1])])
    counts = [[b.count for b in at_scale(pack, scale, 1).blocks] for scale in (1, 2, 8, 64)]
    assert all(count == counts[0] for count in counts)
    # lengths that have as many groups need no mask
    assert [b.is_full for b in at_scale(pack_ragged([flat([31, 30])]), 8, 0).blocks] == [True]


def test_a_scale_is_worked_out_once_per_pack():
    pack = pack_ragged([flat([9, 5])])
    assert at_scale(pack, 2, 0) is at_scale(pack, 2, 0)
    assert at_scale(pack, 2, 0) is not at_scale(pack, 2, 1)


def test_pooling_that_leaks_over_a_boundary_is_caught(monkeypatch):
    def leaking(rows, at):
        index = (at.first[:, None] + torch.arange(at.scale)).clamp(max=len(rows) - 1)
        return rows[index].sum(1)

    monkeypatch.setattr(ops_multiresolution, "_sum_groups", leaking)
    with pytest.raises(AssertionError):
        check_maps(flat([5, 3]), [5, 3], pack_ragged, 2, 0)


def test_groups_are_counted_as_they_are_made():
    for length in range(1, 40):
        for scale in (1, 2, 3, 8):
            for prefix in (0, 1, 4):
                expected = len(reference.groups(length, scale, prefix))
                assert count_groups(length, scale, prefix) == expected


def test_linear_attention_is_the_matrix_of_scores_divided_by_its_sums():
    q, k, v = torch.rand(3, 2, 2, 9, 4, dtype=torch.float64).unbind()
    mask = torch.arange(9) < torch.tensor([[9], [6]])
    out = linear_attention(q, k, v, mask)
    for row, length in enumerate((9, 6)):
        for head in range(2):
            expected = reference.kernel_attention(
                q[row, head], k[row, head, :length], v[row, head, :length]
            )
            torch.testing.assert_close(out[row, head], expected)
    ones = linear_attention(q, k, torch.ones_like(v), mask)
    torch.testing.assert_close(ones, torch.ones_like(v))


def test_neighbours_are_those_of_the_band():
    q, k, v = torch.randn(3, 1, 1, 11, 4, dtype=torch.float64).unbind()
    for bandwidth in (1, 3, 5):
        out = banded_attention(q, k, v, bandwidth, None)
        expected = reference.near_field(q[0, 0], k[0, 0], v[0, 0], bandwidth, 0.0)
        torch.testing.assert_close(out[0, 0], expected)


def test_random_features_approximate_softmax_and_do_not_see_padding():
    torch.manual_seed(0)
    q, k, v = (0.5 * torch.randn(3, 1, 1, 12, 8, dtype=torch.float64)).unbind()
    expected = reference.softmax_attention(q[0, 0], k[0, 0], v[0, 0])
    errors = []
    for count in (64, 4096):
        directions = draw_directions(count, 8, seed=1)[None].double()
        fq = random_query_features(q, directions, "exp")
        fk = random_key_features(k, directions, "exp", None)
        errors.append((linear_attention(fq, fk, v, None)[0, 0] - expected).norm().item())
    assert errors[1] < errors[0] / 2
    assert errors[1] < 0.05 * expected.norm()

    loud = torch.cat([k, 100 * torch.ones(1, 1, 3, 8, dtype=torch.float64)], 2)
    mask = torch.arange(15)[None] < 12
    features = random_key_features(loud, directions, "exp", mask)
    torch.testing.assert_close(features[:, :, :12], fk)
    assert features.isfinite().all()


def test_directions_come_from_their_seed_and_are_orthogonal_in_blocks():
    directions = draw_directions(20, 8, seed=3)
    assert torch.equal(directions, draw_directions(20, 8, seed=3))
    assert not torch.equal(directions, draw_directions(20, 8, seed=4))
    block = directions[8:16]
    products = block @ block.T
    torch.testing.assert_close(products, torch.diag(products.diag()), atol=1e-4, rtol=0)
