"""Triton kernels in Triton's interpreter: equal to the other paths, forward and gradient.

Run with `TRITON_INTERPRET=1`, which triton reads when it is imported.
"""

from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from hf_mixers.kernels import mixer_kernels
from hf_mixers.models.branch import Scratch
from hf_mixers.models.ops_chord_triton import TritonBranch
from hf_mixers.models.ops_links import PRODUCTS, link_offsets, mix_links
from hf_mixers.models.packing import Boundaries, pack_ragged
from tests.families import find_row, flatten, random_ids
from tests.reference import chord, links

PAGE = Path(__file__).parents[2] / "docs/guides/gpus_and_clusters.md"
SAMPLED = (1, 2, 3, 7, 16, 31, 64, 65, 130)
PACKS = ([5, 3, 1], [70, 64, 33, 2, 1])
every_length = pytest.mark.parametrize(
    "length",
    [n if n in SAMPLED else pytest.param(n, marks=pytest.mark.slow) for n in range(1, 131)],
)
TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3}


def make_pack(lengths):
    ends = torch.tensor([0, *lengths]).cumsum(0)
    return pack_ragged([Boundaries((1, sum(lengths)), torch.device("cpu"), cu_seq_lens=ends)])


def step(lengths, use_triton, family="chordmixer", **changes):
    """Loss and gradients of a model."""
    torch.manual_seed(0)
    model = (
        find_row(family).build("sequence_classification", use_triton=use_triton, **changes).train()
    )
    inputs = flatten([random_ids(n) for n in lengths])
    loss = model(**inputs, labels=torch.arange(len(lengths)) % 2).loss
    loss.backward()
    return [loss.detach(), *(weight.grad for weight in model.parameters())]


@pytest.fixture
def counted(monkeypatch):
    """Calls of kernels, so that no test compares a path with itself."""
    calls = []
    for name in mixer_kernels.__all__:
        kernel = getattr(mixer_kernels, name)

        def call(*args, name=name, kernel=kernel, **kwargs):
            calls.append(name)
            return kernel(*args, **kwargs)

        monkeypatch.setattr(mixer_kernels, name, call)
    return calls


SMALL = {"max_position_embeddings": 130, "num_hidden_layers": 2, "adaptive_depth": False}


def check_model(lengths, counted, **settings):
    plain = step(lengths, False, **settings)
    assert not counted
    kernels = step(lengths, True, **settings)
    assert counted
    for ours, expected in zip(kernels, plain, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


@every_length
@pytest.mark.parametrize("order", ["rotate_mix", "mix_rotate"])
def test_chordmixer_of_one_sequence(length, order, counted):
    check_model([length], counted, block_order=order, **SMALL)
    assert {"mix", "gather_tracks", "mix_backward"} <= {*counted}


@pytest.mark.parametrize("lengths", PACKS, ids=str)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"block_order": "mix_rotate", "pre_norm": "layer"},
        {"pre_norm": "layer", "rotation": "alternating"},
        {"reversible": True},
        {"reversible": True, "block_order": "mix_rotate"},
        {"intermediate_size": 40, "track_size": 5},
    ],
    ids=str,
)
def test_chordmixer_of_packs(lengths, changes, counted):
    settings = {**SMALL, "adaptive_depth": True, "num_hidden_layers": 4, **changes}
    check_model(lengths, counted, **settings)


@every_length
@pytest.mark.parametrize("protocol", ["chord", "cdil"])
def test_paramixer_of_one_sequence(length, protocol, counted):
    settings = {"num_factors": 2, "link_protocol": protocol, "num_links": 5}
    check_model([length], counted, family="paramixer", max_position_embeddings=130, **settings)
    assert {*counted} == {"link_product", "link_dots"}


@pytest.mark.parametrize("lengths", PACKS, ids=str)
def test_paramixer_of_packs(lengths, counted):
    settings = {"num_factors": 2, "max_position_embeddings": 130}
    check_model(lengths, counted, family="paramixer", **settings)


every_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


@every_length
@every_dtype
@pytest.mark.parametrize("order", ["rotate_mix", "mix_rotate"])
def test_a_block_of_one_sequence_in_both_precisions(length, dtype, order):
    check_block([length], dtype, order)


@every_dtype
@pytest.mark.parametrize("order", ["rotate_mix", "mix_rotate"])
def test_a_block_of_a_pack_in_both_precisions(dtype, order):
    check_block([70, 33, 2, 1], dtype, order)


@torch.no_grad()
def check_block(lengths, dtype, order):
    """Result and gradients of a block are those of the other path."""
    row, tolerance = find_row("chordmixer"), TOLERANCE[dtype]
    block = row.build(block_order=order, **SMALL).layers[0].to(dtype)
    pack, found = make_pack(lengths), []
    hidden, grad = torch.randn(2, pack.num_rows, row.config(**SMALL).hidden_size).to(dtype)
    for use_triton in (False, True):
        block.use_triton = use_triton
        branch = block.fused_branch(hidden, pack)
        assert isinstance(branch, TritonBranch) == use_triton
        kept = branch.room_for_hidden()
        out = branch.add(hidden, hidden, torch.empty_like(hidden), kept=kept)
        back = torch.empty_like(hidden)
        grads = branch.backward(hidden, grad, grad, back, Scratch(hidden), kept)
        found.append([out, back, *grads.like(block.fused_weights())[:4]])
    for ours, expected in zip(*reversed(found), strict=True):
        scale = float(expected.abs().max())
        torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance * scale)


@every_length
@every_dtype
def test_links_of_one_sequence_in_both_precisions(length, dtype):
    check_links([length], dtype)


@every_dtype
def test_links_of_a_pack_in_both_precisions(dtype):
    check_links([40, 9, 1], dtype)


def check_links(lengths, dtype):
    """The product with links and its gradients are those of the other path."""
    pack, offsets = make_pack(lengths), link_offsets("chord", 6, 0)
    found = []
    for use_triton in (False, True):
        torch.manual_seed(0)
        values = torch.randn(pack.num_rows, 12).to(dtype).requires_grad_()
        weights = torch.randn(pack.num_rows, 6).to(dtype).requires_grad_()
        out = mix_links(values, weights, pack, offsets, use_triton)
        out.sum().backward()
        found.append([out.detach(), values.grad, weights.grad])
    for ours, expected in zip(*reversed(found), strict=True):
        tolerance = TOLERANCE[dtype]
        torch.testing.assert_close(ours, expected, rtol=tolerance, atol=5 * tolerance)


def check_twin(found, expected, dtype):
    """Results and gradients in some precision are those of the slow twin in double precision."""
    for ours, other in zip(found, expected, strict=True):
        near = TOLERANCE[dtype] * max(1.0, float(other.detach().abs().max()))
        torch.testing.assert_close(ours.double(), other, rtol=0, atol=near)


EVERY_LENGTH = range(130, 0, -1)


@every_dtype
@pytest.mark.parametrize("order", ["rotate_mix", "mix_rotate"])
def test_a_block_of_every_length_is_that_of_the_slow_twin(dtype, order):
    row, settings = find_row("chordmixer"), {**SMALL, "block_order": order, "num_hidden_layers": 1}
    config, block = row.config(**settings), row.build(**settings).layers[0].to(dtype)
    pack = make_pack(EVERY_LENGTH)
    hidden, grad = torch.randn(2, pack.num_rows, config.hidden_size).to(dtype)
    grad /= pack.num_rows**0.5
    weights = {name: w.detach().double().requires_grad_() for name, w in block.named_parameters()}
    state = {f"layers.0.{name}": weight for name, weight in weights.items()}
    source = hidden.double().requires_grad_()
    parts = source.split([*EVERY_LENGTH])
    out = torch.cat([chord.run_blocks(part, state, config) for part in parts])
    expected = [out, *torch.autograd.grad(out, [source, *weights.values()], grad.double())]

    block.use_triton = True
    with torch.no_grad():
        branch = block.fused_branch(hidden, pack)
        assert isinstance(branch, TritonBranch)
        out, back = torch.empty_like(hidden), torch.empty_like(hidden)
        branch.add(hidden, hidden, out)
        grads = branch.backward(hidden, grad, grad, back, Scratch(hidden))
    assert [*weights] == ["mix.fc1.weight", "mix.fc1.bias", "mix.fc2.weight", "mix.fc2.bias"]
    check_twin([out, back, *grads.like(block.fused_weights())[:4]], expected, dtype)


@every_dtype
@pytest.mark.parametrize("protocol", ["chord", pytest.param("cdil", marks=pytest.mark.slow)])
def test_links_of_every_length_are_those_of_the_slow_twin(dtype, protocol, counted):
    pack = make_pack(EVERY_LENGTH)
    values, grad = torch.randn(2, pack.num_rows, 12).to(dtype)
    weights = torch.randn(pack.num_rows, 7).to(dtype) / 7**0.5
    exact = [part.double().requires_grad_() for part in (values, weights)]
    pairs = zip(*(part.split([*EVERY_LENGTH]) for part in exact), strict=True)
    out = torch.cat([links.multiply_by_roll(*pair, protocol, factor=2) for pair in pairs])
    expected = [out, *torch.autograd.grad(out, exact, grad.double())]
    given = [part.requires_grad_() for part in (values, weights)]
    found = mix_links(*given, pack, link_offsets(protocol, 7, 2), use_triton=True)
    check_twin([found, *torch.autograd.grad(found, given, grad)], expected, dtype)
    assert counted == ["link_product", "link_product", "link_dots"]


def test_a_broken_boundary_is_found(counted, monkeypatch):
    """Kernels that take sequences to end elsewhere fail the comparison."""
    product = PRODUCTS["triton"]

    def broken(values, weights, layout, links, transposed):
        position, lengths, valid = layout
        shorter = (lengths - 1).clamp(min=1)
        return product(values, weights, (position, shorter, valid), links, transposed)

    monkeypatch.setitem(PRODUCTS, "triton", broken)
    with pytest.raises(AssertionError):
        test_paramixer_of_packs([5, 3, 1], counted)


def test_a_block_is_one_kernel_forward_and_three_backward(counted):
    step([9, 5], True, **{**SMALL, "num_hidden_layers": 1})
    assert counted == ["mix", "gather_tracks", "mix_backward", "gather_tracks"]


def test_kernels_run_on_the_device_of_their_tensors(monkeypatch, counted):
    """Triton would otherwise take the current device, where other tensors are."""
    seen, original = [], torch.cuda.device_of

    def device_of(tensor):
        seen.append(tensor.device)
        return original(tensor)

    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    step([9, 5], True, **SMALL)
    step([9, 5], True, family="paramixer", num_factors=2, max_position_embeddings=130)
    assert {*counted} == {*mixer_kernels.__all__}
    assert seen == [torch.device("cpu")] * len(counted)


def test_double_precision_goes_another_way(counted):
    row = find_row("chordmixer")
    model = row.build("model", use_triton=True, **SMALL).double()
    model(random_ids(1, 9))
    assert not counted


class Traffic(TorchDispatchMode):
    """Counts kernels, and how often matrices of certain sizes are read or written by them."""

    def __init__(self, sizes):
        super().__init__()
        self.sizes, self.launches, self.moved = sizes, 0, Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        alias = function._schema.returns[0].alias_info
        is_view = alias is not None and not alias.is_write
        if torch.is_tensor(result) and not is_view and "empty" not in function._schema.name:
            self.count(*args, result)
        return result

    def count(self, *matrices):
        self.launches += 1
        for matrix in matrices:
            if torch.is_tensor(matrix) and matrix.is_floating_point():
                self.moved[self.sizes.get(matrix.numel())] += 1

    def text(self):
        counts = ((self.moved[size], size) for size in ("D", "h"))
        numbers = [f"{count} T {size}" if count > 1 else f"T {size}" for count, size in counts]
        return f"{self.launches} | {' + '.join(numbers)}"


@pytest.mark.parametrize("use_triton", [False, True])
@torch.no_grad()
def test_the_page_says_what_a_block_moves(use_triton, monkeypatch):
    row, pack = find_row("chordmixer"), make_pack([70, 33, 2, 1])
    settings = {**SMALL, "intermediate_size": 29}
    width, rows = row.config(**settings).hidden_size, pack.num_rows
    block = row.build(**settings).layers[0]
    block.use_triton = use_triton
    hidden, grad, back = torch.randn(3, rows, width)

    def run(passes):
        branch, scratch = block.fused_branch(hidden, pack), Scratch(hidden)
        kept = branch.room_for_hidden()
        with passes[0]:
            branch.add(hidden, hidden, torch.empty_like(hidden), kept=kept)
        with passes[1]:
            branch.backward(hidden, grad, grad, back, scratch, kept)

    # what is worked out once per batch is not counted
    run([nullcontext()] * 2)
    found = [Traffic({rows * width: "D", rows * 29: "h"}) for _ in range(2)]
    # kernels read and write what they are given, each once
    kernels = {
        "mix": lambda source, weights, out, layout, residual, sign, kept: found[0].count(
            source, out, residual, kept
        ),
        "gather_tracks": lambda source, layout, out, base=None: found[1].count(source, out, base),
        "mix_backward": lambda grad, kept, w1, w2, inner: (
            found[1].count(grad, kept, inner, kept, kept) or (kept, kept)
        ),
    }
    for name, kernel in kernels.items():
        monkeypatch.setattr(mixer_kernels, name, kernel)
    run(found)
    title = "Triton" if use_triton else "torch operations, fused"
    assert f"| {title} | {found[0].text()} | {found[1].text()} |" in PAGE.read_text()
