"""Weights in 8 bits (torchao): every family and every variant runs and stays close."""

import pytest
import torch
from torchao.quantization import Int8WeightOnlyConfig
from transformers import TorchAoConfig

from tests.families import every_family, every_head, every_variant, example_inputs


def quantize(model, folder):
    model.save_pretrained(folder)
    config = TorchAoConfig(Int8WeightOnlyConfig())
    return type(model).from_pretrained(folder, quantization_config=config).eval()


def result(output):
    return output[0] if "logits" not in output else output.logits


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


@every_variant
@pytest.mark.parametrize("gradients", [False, True])
def test_every_variant_runs_with_weights_in_8_bits(row, changes, gradients, tmp_path):
    model = row.build(**changes)
    quantized = quantize(model, tmp_path)
    with torch.set_grad_enabled(gradients):
        inputs = example_inputs("model")
        expected = model(**inputs).last_hidden_state
        output = quantized(**inputs).last_hidden_state
    scale = expected.abs().max().item()
    torch.testing.assert_close(output, expected, atol=0.1 * scale, rtol=0.1)
