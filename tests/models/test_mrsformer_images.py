"""MrsFormer on images: patches, pooling in two dimensions, the image pipeline."""

import json

import pytest
import torch
from PIL import Image
from transformers import (
    AutoImageProcessor,
    AutoModelForImageClassification,
    ViTImageProcessor,
    pipeline,
)

from hf_mixers import (
    MrsFormerForImageClassification,
    MrsFormerForSequencePairClassification,
    MrsFormerModel,
    save_with_code,
)
from hf_mixers.models.embed_images import tile_order
from tests.families import find_row, random_ids

ROW = find_row("mrsformer")
IMAGES = {
    "image_size": 32,
    "patch_size": 4,
    "head_scales": [1, 2, 2, 4],
    "max_position_embeddings": None,
    "pooling": "cls",
    "position_embedding_type": "absolute",
}


def build_images(head=MrsFormerForImageClassification, **changes):
    torch.manual_seed(0)
    return head(ROW.config(**{**IMAGES, **changes})).eval()


@pytest.mark.parametrize("kind", ["softmax", "linear", "linformer", "performer", "fmm", "luna"])
def test_images_are_read_patch_by_patch(kind):
    model = build_images(attention_type=kind)
    pixels = torch.randn(3, 3, 32, 32)
    output = model.model(pixel_values=pixels)
    assert output.last_hidden_state.shape == (3, 64, 16)
    convolution = model.model.embed_patches.projection
    patches = pixels.unfold(2, 4, 4).unfold(3, 4, 4)[1, :, 0, 5].flatten()
    expected = convolution.weight.flatten(1) @ patches + convolution.bias
    torch.testing.assert_close(model.model.embed_patches(pixels)[1, 5], expected)
    logits = model(pixels).logits
    torch.testing.assert_close(logits, model.classifier(output.pooler_output))
    torch.testing.assert_close(model(pixels[1:2]).logits, logits[1:2], atol=1e-5, rtol=1e-5)
    result = model(pixels, labels=torch.tensor([0, 1, 1]), output_hidden_states=True)
    assert len(result.hidden_states) == 3
    result.loss.backward()
    assert all(p.grad is not None for p in model.parameters())
    assert isinstance(model(pixels, return_dict=False), tuple)
    assert model(**model.dummy_inputs).logits.shape == (2, 2)


def test_tiles_are_rectangles_of_the_image_at_every_scale():
    order = torch.tensor(tile_order(8, 8))
    assert sorted(order.tolist()) == list(range(64))
    for scale, (height, width) in {1: (1, 1), 2: (1, 2), 4: (2, 2), 8: (2, 4)}.items():
        for group in order.view(-1, scale):
            rows, columns = group // 8, group % 8
            assert (rows.max() - rows.min() + 1, columns.max() - columns.min() + 1) == (
                height,
                width,
            )
    # as many groups on each side as 14 x 14 patches have
    assert sorted(tile_order(14, 4)) == list(range(196))


def test_pooling_in_two_dimensions_reads_patches_tile_by_tile():
    flat, tiled = build_images(), build_images(pool2d=True)
    tiled.load_state_dict(flat.state_dict())
    pixels = torch.randn(2, 3, 32, 32)
    order = tile_order(8, 4)
    torch.testing.assert_close(
        tiled.model.embed_patches(pixels), flat.model.embed_patches(pixels)[:, order]
    )
    assert not torch.allclose(tiled(pixels).logits, flat(pixels).logits)
    assert tiled(pixels, labels=torch.tensor([0, 1])).loss.isfinite()


def test_patches_start_as_other_inputs_of_linear_layers_do():
    for patch in (4, 16):
        embed = build_images(MrsFormerModel, patch_size=patch).embed_patches
        assert 0.5 < embed(torch.randn(8, 3, 32, 32)).std() < 2
        assert not embed.projection.bias.any()


def test_images_are_classified_by_the_standard_pipeline(tmp_path):
    model = build_images(id2label={0: "cat", 1: "dog"})
    model.save_pretrained(tmp_path)
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    assert type(AutoModelForImageClassification.from_pretrained(tmp_path)) is type(model)
    image = Image.new("RGB", (50, 40), (200, 30, 90))
    answers = pipeline("image-classification", str(tmp_path))(image)
    inputs = AutoImageProcessor.from_pretrained(tmp_path)(image, return_tensors="pt")
    scores = model(**inputs).logits.softmax(1)[0]
    found = {answer["label"]: answer["score"] for answer in answers}
    assert found == pytest.approx({"cat": scores[0].item(), "dog": scores[1].item()}, abs=1e-5)


@pytest.mark.slow
def test_image_models_compile_and_are_published_with_code(tmp_path):
    model = build_images()
    pixels = torch.randn(2, 3, 32, 32)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(pixels).logits, model(pixels).logits, atol=1e-5, rtol=1e-5)
    save_with_code(tmp_path, model)
    auto_map = json.loads((tmp_path / "config.json").read_text())["auto_map"]
    expected = "modeling_mrsformer.MrsFormerForImageClassification"
    assert auto_map["AutoModelForImageClassification"] == expected
    assert (tmp_path / "embed_images.py").exists()


def test_bad_images_are_refused_with_one_sentence():
    model = build_images()
    cases = [
        ({}, "This model reads pixel_values, got none"),
        ({"pixel_values": torch.zeros(2, 1, 32, 32)}, r"shape \(B, 3, 32, 32\), got \(2, 1, 32"),
        ({"pixel_values": torch.zeros(3, 32, 32)}, r"got \(3, 32, 32\)"),
        (
            {"pixel_values": torch.zeros(2, 3, 32, 32).int()},
            "floating-point numbers, got torch.int",
        ),
        (
            {"pixel_values": torch.zeros(2, 3, 32, 32), "attention_mask": torch.ones(2, 64)},
            "pixel_values must be the only input",
        ),
        ({"input_ids": random_ids(1, 5)}, "This model reads pixel_values, got input_ids"),
        ({"input_values": torch.zeros(1, 5, 2)}, "reads pixel_values, got input_values"),
        ({"numeric_values": torch.zeros(1, 5)}, "reads pixel_values, got numeric_values"),
    ]
    for inputs, message in cases:
        with pytest.raises(ValueError, match=message):
            model.model(**inputs)
    with pytest.raises(ValueError, match="This model reads input_ids, got pixel_values"):
        ROW.build()(pixel_values=torch.zeros(1, 3, 32, 32))
    with pytest.raises(ValueError, match=r"needs images: set config\.image_size"):
        MrsFormerForImageClassification(ROW.config())
    with pytest.raises(ValueError, match="has no token embeddings to resize"):
        model.resize_token_embeddings(30)
    pair = build_images(MrsFormerForSequencePairClassification)
    with pytest.raises(ValueError, match="pixel_values must be the only input"):
        pair(pixel_values=torch.zeros(2, 3, 32, 32))


def test_the_class_names_its_input():
    assert MrsFormerForImageClassification.main_input_name == "pixel_values"
    assert MrsFormerForImageClassification.input_modalities == ("image",)
