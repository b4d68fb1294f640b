"""Weights on disk or in other memory (accelerate): every head gives the same numbers."""

import pytest
import torch
from accelerate import cpu_offload, disk_offload

from tests.families import every_family, every_head, every_variant, example_inputs, find_row


def result(output):
    return output[0] if "logits" not in output else output.logits


def offload(model, where, folder):
    if where == "disk":
        return disk_offload(model, folder, execution_device="cpu", offload_buffers=True)
    return cpu_offload(model, execution_device="cpu", offload_buffers=True)


@every_family
@every_head
@pytest.mark.parametrize("where", ["cpu", "disk"])
@torch.no_grad()
def test_every_head_runs_with_all_weights_offloaded(row, head, where, tmp_path):
    for changes in ({}, {"pooling": "cls"}, {"tie_word_embeddings": True}):
        model, inputs = row.build(head, **changes), example_inputs(head)
        expected = result(model(**inputs))
        model = offload(model, where, tmp_path / str(changes))
        assert {weight.device.type for weight in model.parameters()} == {"meta"}
        torch.testing.assert_close(result(model(**inputs)), expected)


@pytest.mark.parametrize("where", ["cpu", "disk"])
@torch.no_grad()
def test_image_models_and_tables_run_with_all_weights_offloaded(where, tmp_path):
    row = find_row("mrsformer")
    images = row.build("image_classification", image_size=8, patch_size=4)
    table = row.build("sequence_classification", num_numeric_features=2, category_sizes=[5])
    cases = [
        (images, {"pixel_values": torch.randn(2, 3, 8, 8)}),
        (table, {"numeric_values": torch.randn(2, 2), "category_ids": torch.tensor([[4], [0]])}),
    ]
    for number, (model, inputs) in enumerate(cases):
        expected = model(**inputs).logits
        model = offload(model, where, tmp_path / str(number))
        torch.testing.assert_close(model(**inputs).logits, expected)


@every_family
@every_head
@torch.no_grad()
def test_every_head_is_loaded_with_blocks_on_disk(row, head, tmp_path):
    model, inputs = row.build(head), example_inputs(head)
    model.save_pretrained(tmp_path / "model", max_shard_size="20KB")
    prefix = "" if head == "model" else "model."
    names = [name for name, _ in model.named_children() if name != "model"]
    names += [f"{prefix}{name}" for name, _ in model.base_model.named_children()]
    device_map = {name: "cpu" for name in names if not name.endswith("layers")}
    device_map |= {f"{prefix}layers.{k}": "disk" for k in range(len(model.base_model.layers))}
    spread = type(model).from_pretrained(
        tmp_path / "model", device_map=device_map, offload_folder=tmp_path / "disk"
    )
    layer = spread.base_model.layers[0]
    assert {weight.device.type for weight in layer.parameters()} == {"meta"}
    torch.testing.assert_close(result(spread.eval()(**inputs)), result(model(**inputs)))


@every_variant
@torch.no_grad()
def test_variants_run_with_all_weights_offloaded(row, changes, tmp_path):
    model, inputs = row.build(**changes), example_inputs("model")
    expected = model(**inputs).to_tuple()
    model = offload(model, "cpu", tmp_path)
    torch.testing.assert_close(model(**inputs).to_tuple(), expected)
