"""The link product against dense matrices and its slow twin, forward and gradient."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_mixers.models import ops_links
from hf_mixers.models.ops_links import link_offsets, mix_links
from hf_mixers.models.packing import Boundaries, pack_ragged, pack_static
from tests.reference import links as reference

PROTOCOLS = ["chord", "cdil"]
EDGE_LENGTHS = [1, 2, 2, 3, 4, 5, 7, 8, 8, 8, 9, 15, 16, 17]


def boundaries(lengths: list[int], width: int | None = None) -> Boundaries:
    width = width or max(lengths)
    mask = torch.arange(width) < torch.tensor(lengths)[:, None]
    return Boundaries(tuple(mask.shape), torch.device("cpu"), mask=mask)


@pytest.fixture(params=["bags", "gathered", "sliced", "static"])
def layout(request, monkeypatch):
    """The ways to read shifted rows: as bags, link by link, in place, all at once."""
    monkeypatch.setattr(ops_links, "_BAGGED", 10**9 if request.param == "bags" else 0)
    monkeypatch.setattr(ops_links, "_LONG", 0 if request.param == "sliced" else 10**9)
    # so few rows that a run of equal sequences takes several pieces
    monkeypatch.setattr(ops_links, "_PIECE", 16)
    return pack_static if request.param == "static" else pack_ragged


def both_ways(lengths, protocol, num_links, factor, layout, multiply=reference.multiply):
    """Output and gradients of the op and of a slow twin on the same batch."""
    batch = boundaries(lengths, max(lengths) + 2)
    pack = layout([batch])
    values = torch.randn(*batch.shape, 3, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(*batch.shape, num_links, dtype=torch.float64, requires_grad=True)
    probe = torch.randn_like(values)

    rows = pack.gather(values.flatten(0, 1)), pack.gather(weights.flatten(0, 1))
    out = pack.unpack(mix_links(*rows, pack, link_offsets(protocol, num_links, factor)))
    out = out.view_as(values)
    grads = torch.autograd.grad((out * probe).sum(), (values, weights))

    slow = torch.zeros_like(values)
    for row, length in enumerate(lengths):
        part = row, slice(length)
        slow[part] = multiply(values[part], weights[part], protocol, factor)
    slow_grads = torch.autograd.grad((slow * probe).sum(), (values, weights))
    return (out, *grads), (slow, *slow_grads)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("num_links", "factor"), [(3, 0), (5, 1), (9, 3)])
def test_the_product_equals_its_slow_twin_at_edge_lengths(layout, protocol, num_links, factor):
    fast, slow = both_ways(EDGE_LENGTHS, protocol, num_links, factor, layout)
    torch.testing.assert_close(fast, slow)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("way", ["bags", "gathered", "sliced", "static"])
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    half=st.integers(1, 4),
    factor=st.integers(0, 4),
)
def test_the_product_equals_its_slow_twin_for_any_mix(way, protocol, lengths, half, factor):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ops_links, "_BAGGED", 10**9 if way == "bags" else 0)
        patch.setattr(ops_links, "_LONG", 0 if way == "sliced" else 10**9)
        patch.setattr(ops_links, "_PIECE", 16)
        layout = pack_static if way == "static" else pack_ragged
        fast, slow = both_ways(lengths, protocol, 2 * half + 1, factor, layout)
    torch.testing.assert_close(fast, slow)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("length", [1, 2, 3, 6, 8, 13])
def test_the_product_is_that_of_the_dense_matrix_where_equal_links_add_up(layout, protocol, length):
    def dense(values, weights, protocol, factor):
        return reference.dense_factor(weights, protocol, factor) @ values

    fast, slow = both_ways([length], protocol, 9, 1, layout, dense)
    torch.testing.assert_close(fast, slow)
    ones = torch.ones(length, 9)
    factor = reference.dense_factor(ones, protocol, 1)
    assert torch.equal(factor.sum(1), torch.full((length,), 9.0)), "no link is lost"


def test_slow_twins_agree():
    for protocol in PROTOCOLS:
        for length in EDGE_LENGTHS:
            values, weights = torch.randn(length, 4), torch.randn(length, 7)
            by_number = reference.multiply(values, weights, protocol, 2)
            by_roll = reference.multiply_by_roll(values, weights, protocol, 2)
            torch.testing.assert_close(by_number, by_roll)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_product_passes_gradcheck_twice(layout, protocol):
    pack = layout([boundaries([5, 1, 3])])
    values = torch.randn(pack.num_rows, 2, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(pack.num_rows, 5, dtype=torch.float64, requires_grad=True)
    offsets = link_offsets(protocol, 5, 1)

    def product(rows, links):
        return pack.unpack(mix_links(rows, links, pack, offsets))

    assert torch.autograd.gradcheck(product, (values, weights))
    assert torch.autograd.gradgradcheck(product, (values, weights))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("factor", [0, 1, 2])
def test_a_single_link_copies_the_values_it_points_to(layout, protocol, factor):
    pack = layout([boundaries([11, 6])])
    values = torch.randn(pack.num_rows, 2)
    for link in range(7):
        weights = torch.zeros(pack.num_rows, 7)
        weights[:, link] = 1
        out = mix_links(values, weights, pack, link_offsets(protocol, 7, factor))
        for start, length in zip(pack.starts.tolist(), pack.lengths.tolist(), strict=True):
            for position in range(length):
                read = reference.columns(protocol, 7, factor, position, length)[link]
                assert torch.equal(out[start + position], values[start + read])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_sums_in_float32(layout, dtype):
    pack = layout([boundaries([40, 7])])
    values, weights = torch.rand(pack.num_rows, 4).to(dtype), torch.rand(pack.num_rows, 9).to(dtype)
    offsets = link_offsets("chord", 9, 0)
    out = mix_links(values, weights, pack, offsets)
    exact = mix_links(values.double(), weights.double(), pack, offsets)
    assert out.dtype == dtype
    assert torch.equal(pack.unpack(out), pack.unpack(exact.float().to(dtype)))
    mixed = mix_links(values, weights.float(), pack, offsets)
    assert mixed.dtype == torch.float32


@pytest.mark.parametrize("limit", [0, 10**9], ids=["gathered", "bags"])
def test_a_product_that_leaks_over_a_boundary_is_caught(monkeypatch, limit):
    def leaking(position, lengths, valid, offset):
        return (torch.arange(len(position)).view_as(position) + offset) % len(position)

    monkeypatch.setattr(ops_links, "_BAGGED", limit)
    monkeypatch.setattr(ops_links, "source_rows", leaking)
    fast, slow = both_ways([5, 3], "chord", 3, 0, pack_ragged)
    assert not torch.allclose(fast[0], slow[0])


def test_padding_of_a_static_pack_has_no_links_and_does_not_grow():
    pack = pack_static([boundaries([3, 1], 5)])
    ones = torch.ones(pack.num_rows, 7)
    out = mix_links(ones[:, :2], ones, pack, link_offsets("chord", 7, 0))
    assert torch.equal(out, torch.where(pack.valid[:, None], 7.0, 0.0).expand_as(out))


def test_weights_of_another_shape_are_refused():
    pack = pack_ragged([boundaries([5])])
    with pytest.raises(ValueError, match=r"weights must have shape \(5, 3\), .* got \(5, 4\)"):
        mix_links(torch.zeros(5, 2), torch.zeros(5, 4), pack, link_offsets("chord", 3, 0))


class LargestTensor(torch.utils._python_dispatch.TorchDispatchMode):
    """Watches how many numbers the largest new tensor holds, and for operations that scatter."""

    def __init__(self):
        super().__init__()
        self.numel, self.names = 0, set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.names.add(function.overloadpacket._qualified_op_name)
        if torch.is_tensor(result):
            self.numel = max(self.numel, result.numel())
        return result


@pytest.mark.parametrize(
    "lengths", [[4096], [64] * 64, [1025, 1024, 1024, 1023]], ids=["long", "equal", "mixed"]
)
@pytest.mark.parametrize("limit", [0, 10**9], ids=["by link", "bags"])
def test_neither_pass_holds_all_shifted_copies_nor_scatters(lengths, limit, monkeypatch):
    monkeypatch.setattr(ops_links, "_BAGGED", limit)
    pack = pack_ragged([boundaries(lengths)])
    values = torch.randn(4096, 16, requires_grad=True)
    weights = torch.randn(4096, 12, requires_grad=True)
    with LargestTensor() as watch:
        mix_links(values, weights, pack, link_offsets("chord", 12, 0)).square().sum().backward()
    assert values.grad.any()
    assert weights.grad.any()
    assert watch.numel <= 4096 * 16
    assert not {name for name in watch.names if "scatter" in name or "index_put" in name}
    # without row numbers, long sequences, and many of one length, are read in place
    is_gathered = limit == 0 and len(set(lengths)) > 2
    assert ("aten::index_select" in watch.names) == is_gathered
