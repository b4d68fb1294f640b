"""The fused branch against the modules that it stands for, forward and gradient."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from hf_mixers import ChordMixerConfig
from hf_mixers.models import branch, ops_chord_rows
from hf_mixers.models.modeling_chordmixer import ChordMixerModel
from hf_mixers.models.ops_chord import chord_offsets, rotate
from hf_mixers.models.ops_chord_rows import Rotation, chunks
from hf_mixers.models.packing import Pack, pack_ragged
from tests.models.test_ops_chord import EDGE_LENGTHS, boundaries

ORDERS_AND_NORMS = list(itertools.product(["rotate_mix", "mix_rotate"], ["none", "layer", "group"]))
every_order_and_norm = pytest.mark.parametrize(("order", "norm"), ORDERS_AND_NORMS)


@pytest.fixture(params=[(3, 0), (16, 0), (16, 1000), (4096, 1000)], ids=str)
def limits(request, monkeypatch):
    """Rows of a chunk; rows up to which the hidden layer is kept."""
    chunk_rows, kept_rows = request.param
    monkeypatch.setitem(ops_chord_rows.CHUNK_ROWS, "cpu", chunk_rows)
    monkeypatch.setattr(branch, "KEPT_ROWS", kept_rows)
    monkeypatch.setattr(ops_chord_rows, "KEPT_PLACES", kept_rows)


def make_pack(lengths: list[int]) -> Pack:
    return pack_ragged([boundaries(lengths)])


def make_block(order: str, norm: str, dtype=torch.float64, **settings):
    torch.manual_seed(0)
    config = ChordMixerConfig(
        num_tracks=6,
        track_size=2,
        num_hidden_layers=1,
        intermediate_size=7,
        block_order=order,
        pre_norm=norm,
        **settings,
    )
    block = ChordMixerModel(config).layers[0].to(dtype)
    for weight in block.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return block


def outputs_and_gradients(block, source, residual, pack, fused):
    """Of a block, with respect to what goes in and to every weight."""
    block.fused = fused
    assert block.can_fuse(pack) == fused
    inputs = [source] if residual is source else [source, residual]
    out = block(source, pack, None if residual is source else residual)
    direction = torch.linspace(0.5, 2, out.numel(), dtype=out.dtype).view_as(out)
    return out, *torch.autograd.grad((out * direction).sum(), [*inputs, *block.parameters()])


def rotate_by_rows(hidden, pack, offsets, inverse=False):
    rotation = Rotation(pack, offsets, inverse)
    out = torch.empty_like(hidden)
    for rows in chunks(pack.num_rows, hidden.device):
        rotation.rows(hidden, rows, out[rows])
    return out


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    tracks=st.integers(1, 7),
    track_size=st.integers(1, 3),
    step=st.integers(1, 50),
    alternating=st.booleans(),
)
def test_rotation_by_rows_is_the_rotation(lengths, tracks, track_size, step, alternating):
    pack = make_pack(lengths)
    offsets = chord_offsets(tracks, alternating)
    hidden = torch.randn(pack.num_rows, tracks * track_size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ops_chord_rows.CHUNK_ROWS, "cpu", step)
        rotated = rotate_by_rows(hidden, pack, offsets)
        assert torch.equal(rotated, rotate(hidden, pack, offsets))
        assert torch.equal(rotate_by_rows(rotated, pack, offsets, inverse=True), hidden)


def test_places_beyond_32_bits_are_64_bits_wide(monkeypatch):
    pack = make_pack([5, 3])
    small = Rotation(pack, (0, 1, 2))._index(slice(0, 8))
    assert small.dtype == torch.int32
    monkeypatch.setattr(Pack, "num_rows", property(lambda self: 2**30))
    large = Rotation(pack, (0, 1, 2))._index(slice(0, 8))
    assert large.dtype == torch.int64
    assert torch.equal(large, small.long())


@every_order_and_norm
@pytest.mark.parametrize("coupled", [False, True])
def test_fused_equals_module_by_module(order, norm, coupled, limits):
    pack = make_pack(EDGE_LENGTHS)
    block = make_block(order, norm)
    source = torch.randn(pack.num_rows, 12, dtype=torch.float64, requires_grad=True)
    residual = torch.randn_like(source).requires_grad_() if coupled else source
    fast = outputs_and_gradients(block, source, residual, pack, fused=True)
    slow = outputs_and_gradients(block, source, residual, pack, fused=False)
    torch.testing.assert_close(fast, slow, atol=1e-11, rtol=1e-9)


@pytest.mark.slow
@every_order_and_norm
def test_gradients_are_those_of_finite_differences(order, norm, monkeypatch):
    monkeypatch.setitem(ops_chord_rows.CHUNK_ROWS, "cpu", 4)
    pack = make_pack([5, 3, 1])
    block = make_block(order, norm)
    weights = dict(block.named_parameters())

    def call(hidden, *values):
        given = dict(zip(weights, values, strict=True))
        return torch.func.functional_call(block, given, (hidden, pack))

    hidden = torch.randn(9, 12, dtype=torch.float64, requires_grad=True)
    assert block.can_fuse(pack)
    assert gradcheck(call, (hidden, *weights.values()))


@every_order_and_norm
def test_no_rows_give_zero_gradients(order, norm):
    pack = make_pack([4]).longer_than(9)
    block = make_block(order, norm)
    hidden = torch.zeros(0, 12, dtype=torch.float64, requires_grad=True)
    block(hidden, pack).sum().backward()
    assert all(weight.grad is not None and not weight.grad.any() for weight in block.parameters())


@every_order_and_norm
def test_autocast_is_that_of_the_modules(order, norm):
    pack = make_pack([60, 33, 4])
    block = make_block(order, norm, torch.float32)
    hidden = torch.randn(pack.num_rows, 12, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        fast = outputs_and_gradients(block, hidden, hidden, pack, fused=True)
        slow = outputs_and_gradients(block, hidden, hidden, pack, fused=False)
    for a, b in zip(fast, slow, strict=True):
        assert a.dtype == b.dtype
        assert (a - b).norm() < 0.02 * b.norm()


def test_half_precision_weights_sum_their_gradients_in_float32():
    pack = make_pack([3000] * 3)
    block = make_block("rotate_mix", "none", torch.bfloat16)
    hidden = torch.randn(pack.num_rows, 12, requires_grad=True)
    exact = outputs_and_gradients(block.float(), hidden, hidden, pack, fused=True)
    block, rounded = block.bfloat16(), hidden.detach().bfloat16().requires_grad_()
    fast = outputs_and_gradients(block, rounded, rounded, pack, fused=True)
    for a, b in zip(fast, exact, strict=True):
        assert a.dtype == torch.bfloat16
        assert (a.float() - b).norm() < 0.05 * b.norm()


@pytest.mark.parametrize(("limit", "widths"), [(699, [12]), (700, [7, 12])])
def test_fused_saves_the_input_of_a_block_and_of_few_rows_the_hidden_layer(
    limit, widths, monkeypatch
):
    monkeypatch.setattr(branch, "KEPT_ROWS", limit)
    pack = make_pack([500, 200])
    block = make_block("rotate_mix", "layer", torch.float32)
    hidden = torch.randn(pack.num_rows, 12, requires_grad=True)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        block(hidden, pack)
    assert sorted(t.shape[1] for t in saved if t.dim() == 2 and t.shape[0] == 700) == widths


def test_gradients_of_gradients_need_the_modules():
    pack = make_pack([6, 2])
    hidden = torch.randn(8, 12, dtype=torch.float64, requires_grad=True)
    for fused in (False, True):
        block = make_block("rotate_mix", "none", fused=fused)
        (grad,) = torch.autograd.grad(block(hidden, pack).square().sum(), hidden, create_graph=True)
        if fused:
            with pytest.raises(RuntimeError, match="once_differentiable"):
                grad.square().sum().backward()
        else:
            grad.square().sum().backward()
            assert hidden.grad.abs().sum() > 0


def test_adapters_hooks_and_dropout_go_module_by_module():
    pack = make_pack([6, 2])

    def adapted(block):
        block.mix.fc1 = torch.nn.Sequential(block.mix.fc1)

    def hooked(block):
        block.mix.fc2.register_forward_hook(lambda *_: None)

    def replaced(block):
        block.mix.activation.forward = torch.tanh

    def dropping(block):
        block.rotate_dropout.p = 0.5
        block.train()

    assert make_block("rotate_mix", "none").can_fuse(pack)
    for change in (adapted, hooked, replaced, dropping):
        block = make_block("rotate_mix", "none")
        change(block)
        assert not block.can_fuse(pack), change.__name__
    block.eval()
    assert block.can_fuse(pack)
