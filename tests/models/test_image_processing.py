"""Image models and their processors: the pipeline works from the folder of a run, grey or not."""

import numpy as np
import pytest
from PIL import Image
from transformers import AutoImageProcessor, pipeline

from hf_mixers.data.other import PixelScaler
from hf_mixers.models.image_processing_grey import GreyImageProcessor
from tests.families import find_row


def build(channels):
    return find_row("mrsformer").build(
        "image_classification", image_size=8, patch_size=2, num_channels=channels
    )


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P"])
def test_the_pipeline_gives_what_the_model_gives_for_scaled_pixels(channels, mode, tmp_path):
    model = build(channels)
    scaler = PixelScaler("picture", [60.0, 90.0, 80.0][:channels], [51.0, 40.0, 70.0][:channels])
    model.save_pretrained(tmp_path)
    scaler.image_processor(8).save_pretrained(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels).convert(mode)
    answers = pipeline("image-classification", str(tmp_path))(picture)
    found = {answer["label"]: answer["score"] for answer in answers}

    ours = np.asarray(picture.convert("RGB").convert("L" if channels == 1 else "RGB"))
    ours = ours.reshape(8, 8, channels).transpose(2, 0, 1)
    inputs = model.dummy_inputs["pixel_values"].new_tensor(scaler.scale(ours))[None]
    scores = model(inputs).logits.softmax(1)[0].tolist()
    assert found == pytest.approx({"LABEL_0": scores[0], "LABEL_1": scores[1]}, abs=1e-5)


def test_grey_pictures_come_as_pictures_and_as_arrays(tmp_path):
    GreyImageProcessor(size={"height": 4, "width": 4}).save_pretrained(tmp_path)
    find_row("mrsformer").config(image_size=4, patch_size=2).save_pretrained(tmp_path)
    processor = AutoImageProcessor.from_pretrained(tmp_path)
    assert type(processor) is GreyImageProcessor
    shades = np.random.default_rng(0).integers(0, 256, (6, 6), dtype=np.uint8)
    picture = Image.fromarray(shades)
    given = [picture, picture.convert("RGB"), shades[None], np.stack([shades] * 3)]
    first, *others = (processor(one, return_tensors="np")["pixel_values"] for one in given)
    assert first.shape == (1, 1, 4, 4)
    for other in others:
        assert np.array_equal(other, first)
    with pytest.raises(ValueError, match="grey or have three colours, got an array of shape"):
        processor(np.zeros((4, 6, 6), np.uint8))


def test_a_processor_is_for_pictures():
    assert PixelScaler("values", [1.0], [2.0]).image_processor(8) is None
