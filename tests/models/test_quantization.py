"""Quantized weights, which are tensors of a class of their own: every variant runs with them."""

import warnings

import pytest
import torch
from torch import nn

from tests.families import every_family, every_head, every_variant, example_inputs, find_row


class HalvedWeight(torch.Tensor):
    """A matrix that is stored as half of itself, and that knows nothing but linear layers."""

    @staticmethod
    def __new__(cls, stored):
        kind = torch.Tensor._make_wrapper_subclass(
            cls, stored.shape, dtype=stored.dtype, device=stored.device
        )
        kind.stored = stored
        return kind

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is nn.functional.linear:
            rows, weight, bias = args
            return nn.functional.linear(rows, 2 * weight.stored, bias)
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.detach.default:
            return cls(args[0].stored)
        raise NotImplementedError(f"{function} means something else for these weights.")


def halve(model):
    """Linear layers with halved weights in place of their own."""
    for module in model.modules():
        if type(module) is nn.Linear:
            weight = HalvedWeight(module.weight.detach() / 2)
            module.weight = nn.Parameter(weight, requires_grad=False)
    return model


def quantize(model, folder):
    quantization = pytest.importorskip("torchao.quantization")
    from transformers import TorchAoConfig

    model.save_pretrained(folder)
    config = TorchAoConfig(quantization.Int8WeightOnlyConfig())
    return type(model).from_pretrained(folder, quantization_config=config).eval()


def result(output):
    return output[0] if "logits" not in output else output.logits


@every_variant
@pytest.mark.parametrize("gradients", [False, True])
def test_weights_of_a_class_of_their_own_are_used_by_linear_layers_only(row, changes, gradients):
    model, inputs = row.build(**changes), example_inputs("model")
    with torch.set_grad_enabled(gradients):
        expected = model(**inputs).to_tuple()
        output = halve(model)(**inputs).to_tuple()
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)


@every_family
@every_head
def test_every_head_uses_weights_of_a_class_of_their_own(row, head):
    model, inputs = row.build(head), example_inputs(head)
    expected = result(model(**inputs))
    torch.testing.assert_close(result(halve(model)(**inputs)), expected, atol=1e-5, rtol=1e-5)


@every_family
@every_head
@torch.no_grad()
def test_every_head_runs_with_weights_in_8_bits(row, head, tmp_path):
    model = row.build(head)
    quantized = quantize(model, tmp_path)
    kinds = {type(weight) for weight in quantized.parameters()}
    assert not kinds <= {torch.nn.Parameter}, "nothing was quantized"
    inputs = example_inputs(head)
    expected = result(model(**inputs))
    scale = expected.abs().max().item()
    difference = (result(quantized(**inputs)) - expected).abs().max().item()
    assert 0 < difference < 0.1 * scale


def quantize_dynamically(model):
    with warnings.catch_warnings():
        # torch points to torchao
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)


# features are embedded by a linear layer too, and words of letters pass two
@pytest.mark.parametrize(
    ("family", "changes"),
    [
        *((family, {}) for family in ("chordmixer", "paramixer", "mrsformer", "combiner")),
        ("chordmixer", {"kmer_size": 2, "kmer_hidden_size": 6}),
        ("chordmixer", {"block_order": "mix_rotate", "pre_norm": "layer", "reversible": True}),
    ],
    ids=str,
)
@torch.no_grad()
def test_dynamic_quantization_of_torch(family, changes):
    model = find_row(family).build("sequence_classification", **changes)
    inputs = example_inputs("sequence_classification")
    expected = model(**inputs).logits
    quantized = quantize_dynamically(model)
    assert not any(type(part) is nn.Linear for part in quantized.modules())
    difference = (quantized(**inputs).logits - expected).abs().max()
    assert 0 < difference < 0.1 * expected.abs().max()


@torch.no_grad()
def test_dynamic_quantization_of_features():
    model = find_row("chordmixer").build(input_features=3)
    values = torch.randn(2, 7, 3)
    expected = model(input_values=values).last_hidden_state
    found = quantize_dynamically(model)(input_values=values).last_hidden_state
    assert 0 < (found - expected).abs().max() < 0.1 * expected.abs().max()


class NeedsRows(nn.Linear):
    """A layer that fails without rows, as some quantized ones do."""

    def forward(self, rows):
        assert len(rows)
        return super().forward(rows)


@torch.no_grad()
def test_blocks_that_no_sequence_needs_call_no_layers():
    model = find_row("chordmixer").build(max_position_embeddings=64)
    ids = torch.tensor([[5, 6, 7]])
    expected = model(ids).last_hidden_state
    for layer in model.layers:
        layer.mix.fc1.__class__ = NeedsRows
    assert len(model.layers) > 2
    torch.testing.assert_close(model(ids).last_hidden_state, expected)
