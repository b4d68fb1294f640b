"""Settings of MrsFormer that contradict each other, and its presets."""

import pytest
import torch

from hf_mixers import MrsFormerConfig, MrsFormerForSequenceClassification
from tests.families import find_row

ROW = find_row("mrsformer")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_attention_heads": 3}, "must divide hidden_size=16, got 3"),
        (
            {"num_attention_heads": 16, "head_scales": None},
            "head_scales must be given for num_attention_heads=16",
        ),
        (
            {"num_attention_heads": 4},
            r"one number of at least 1 for each of the 4 heads, got \[1, 2",
        ),
        ({"key_scales": [1, 2, 0, 1]}, "key_scales must hold one number of at least 1"),
        ({"attention_type": "fmm", "key_scales": [1, 1]}, "a near field needs one scale"),
        ({"attention_type": "luna", "num_prefix_tokens": 1}, "must be at least 3, the rows that"),
        ({"pooling": "cls", "num_prefix_tokens": 0}, "must be at least 1, the rows that"),
        ({"num_prefix_tokens": -1}, "num_prefix_tokens must be at least 0, .* got -1"),
        ({"attention_type": "linear", "head_mode": "exact"}, "is for attention_type='softmax'"),
        ({"group_size_bias": True, "head_mode": "exact"}, "without group_size_bias"),
        ({"group_size_bias": True, "attention_type": "linformer"}, "has no meaning for attention"),
        ({"fmm_bandwidth": 4}, "fmm_bandwidth must be odd, got 4"),
        ({"linformer_size": 0}, "linformer_size must be at least 1, got 0"),
        ({"fmm_kernels": ["cosine"]}, "fmm_kernels must be some of elu, .* got .*cosine"),
        ({"norm_position": "post", "skip_first_norm": True}, "skip_first_norm needs norm_position"),
        ({"image_size": 30}, "image_size must be a multiple of patch_size=16, got 30"),
        (
            {"image_size": 32, "input_features": 3},
            "one kind of input, got input_features and image",
        ),
        ({"category_sizes": [3, 0]}, r"category_sizes must be at least 1, got \[3, 0\]"),
        ({"num_numeric_features": -1}, "num_numeric_features must not be negative, got -1"),
        ({"pool2d": True}, "pool2d needs images"),
        (
            {"pool2d": True, "image_size": 48, "head_scales": [1, 2, 2, 4]},
            "largest tile, here 2 x 2 patches, divides the 3 x 3 patches",
        ),
        ({"image_size": 32, "tie_word_embeddings": True}, "but the model reads pixel_values"),
        ({"attention_type": "sparse"}, "attention_type"),
        ({"intermediate_dropout_prob": 1.5}, r"must lie in \[0, 1\), got 1.5"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes, message):
    with pytest.raises(Exception, match=message):
        ROW.config(**changes)


def test_presets_are_the_tables_of_the_supplement():
    widths = {name: MrsFormerConfig.preset(name) for name in MrsFormerConfig.presets}
    assert len(widths) == 10 + 3 + 2
    for name in ("pems_sf", "self_regulation_scp2", "uwave_gesture_library"):
        assert (widths[name].hidden_size, widths[name].intermediate_size) == (512, 2048)
    for name in ("ethanol_concentration", "heartbeat", "spoken_arabic_digits"):
        assert (widths[name].hidden_size, widths[name].intermediate_size) == (64, 256)
    for name in ("handwriting", "japanese_vowels", "self_regulation_scp1", "face_detection"):
        assert (widths[name].hidden_size, widths[name].intermediate_size) == (128, 256)
    for name in ("listops", "text", "retrieval"):
        config = widths[name]
        assert (config.hidden_size, config.intermediate_size) == (64, 128)
        assert config.hidden_size // config.num_attention_heads == 32
        assert config.head_scales == [1, 2]
    assert widths["japanese_vowels"].head_scales == [1, 1, 2, 2, 4, 4, 8, 8]
    assert widths["deit"].head_scales == [1, 2, 2, 4]
    assert widths["deit"].max_position_embeddings == 196
    table = MrsFormerConfig.preset("ft_transformer", num_numeric_features=6, category_sizes=[2, 9])
    assert table.max_position_embeddings == 8


@pytest.mark.parametrize("name", ["japanese_vowels", "listops", "deit", "ft_transformer"])
def test_a_preset_runs(name):
    model = MrsFormerForSequenceClassification(MrsFormerConfig.preset(name)).eval()
    with torch.no_grad():
        if name == "deit":
            logits = model(pixel_values=torch.randn(1, 3, 224, 224)).logits
        elif name == "ft_transformer":
            logits = model(numeric_values=torch.randn(1, 8)).logits
        else:
            logits = model(**model.dummy_inputs).logits
    assert logits.shape[1] == model.config.num_labels
    assert logits.isfinite().all()
