"""Published settings of MrsFormer: time series, long-range arena, images, tables."""

from .configuration_mixer import NO_SPECIAL_TOKENS, PUBLISHED_FORM

# table 6 of the supplement: width, width of the MLPs; channels, longest series and classes are
# those of the data sets
_TIME_SERIES = {
    "ethanol_concentration": (64, 256, 3, 1751, 4),
    "face_detection": (128, 256, 144, 62, 2),
    "handwriting": (128, 256, 3, 152, 26),
    "heartbeat": (64, 256, 61, 405, 2),
    "japanese_vowels": (128, 256, 12, 29, 9),
    "pems_sf": (512, 2048, 963, 144, 7),
    "self_regulation_scp1": (128, 256, 6, 896, 2),
    "self_regulation_scp2": (512, 2048, 7, 1152, 2),
    "spoken_arabic_digits": (64, 256, 13, 93, 10),
    "uwave_gesture_library": (512, 2048, 3, 315, 8),
}
# these follow Flowformer, which has layer norms; the others Zerveas et al., with batch norms
_LIKE_FLOWFORMER = ("pems_sf", "self_regulation_scp2", "uwave_gesture_library")
# table 7: vocabulary, longest sequence, classes
_LONG_RANGE = {
    "listops": (32, 2048, 10),
    "text": (512, 4096, 2),
    "retrieval": (512, 4096, 2),
}


def _time_series_settings(name: str) -> dict:
    width, hidden, channels, longest, classes = _TIME_SERIES[name]
    return {
        **NO_SPECIAL_TOKENS,
        **PUBLISHED_FORM,
        "hidden_size": width,
        "intermediate_size": hidden,
        "input_features": channels,
        "max_position_embeddings": longest,
        "num_labels": classes,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "norm_position": "pre" if name in _LIKE_FLOWFORMER else "post",
        "norm_type": "layer" if name in _LIKE_FLOWFORMER else "batch",
        "scale_embedding": True,
        "position_embedding_type": "absolute",
        "initializer_range": 0.02,
        "embedding_dropout": 0.1,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "classifier_dropout": 0.1,
    }


def _long_range_settings(name: str) -> dict:
    vocabulary, longest, classes = _LONG_RANGE[name]
    return {
        **NO_SPECIAL_TOKENS,
        **PUBLISHED_FORM,
        "pad_token_id": 0,
        "vocab_size": vocabulary,
        "max_position_embeddings": longest,
        "num_labels": classes,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "position_embedding_type": "absolute",
        "initializer_range": 0.02,
        "embedding_dropout": 0.1,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
    }


_DEIT = {
    **NO_SPECIAL_TOKENS,
    **PUBLISHED_FORM,
    "image_size": 224,
    "patch_size": 16,
    "hidden_size": 192,
    "intermediate_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 4,
    "position_embedding_type": "absolute",
    "pooling": "cls",
    "initializer_range": 0.02,
    "num_labels": 1000,
}

# for the eight columns of California housing; the defaults of FT-Transformer do not depend on them
_FT_TRANSFORMER = {
    **NO_SPECIAL_TOKENS,
    **PUBLISHED_FORM,
    "num_numeric_features": 8,
    "hidden_size": 192,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "hidden_act": "reglu",
    "skip_first_norm": True,
    "pooling": "cls",
    "attention_probs_dropout_prob": 0.2,
    "hidden_dropout_prob": 0.0,
    "intermediate_dropout_prob": 0.1,
    "initializer_range": 192**-0.5,
    "num_labels": 1,
    "problem_type": "regression",
}

PRESETS = {
    **{name: _time_series_settings(name) for name in _TIME_SERIES},
    **{name: _long_range_settings(name) for name in _LONG_RANGE},
    "deit": _DEIT,
    "ft_transformer": _FT_TRANSFORMER,
}
