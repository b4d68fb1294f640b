"""Published settings of Combiner: appendix E of the paper, and the released configurations."""

from .configuration_mixer import NO_SPECIAL_TOKENS, PUBLISHED_FORM

# E.1, E.2: 256 values of 32 x 32 x 3 and 64 x 64 x 3 channels, in the order of the image
_IMAGES = {
    **NO_SPECIAL_TOKENS,
    **PUBLISHED_FORM,
    "vocab_size": 256,
    "causal": True,
    "attention_bias": False,
    "hidden_act": "relu",
}
_ABLATION = {
    **_IMAGES,
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_attention_heads": 8,
    "num_hidden_layers": 6,
    "pattern": "axial_mixture",
}
# E.3, E.5 and the released TensorFlow configuration
_TEXT = {
    **NO_SPECIAL_TOKENS,
    **PUBLISHED_FORM,
    "vocab_size": 32_000,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pattern": "axial_rowmajor",
    "segment_length": 128,
    "hidden_act": "gelu_new",
    "norm_eps": 1e-5,
    "position_embedding_type": "absolute",
    "initializer_range": 0.02,
    "tie_word_embeddings": True,
}
# vocabulary, longest, classes, width, of the MLPs, heads, blocks: the defaults of the arena
_ARENA = {
    "listops": (32, 2048, 10, 512, 2048, 8, 6),
    "text": (512, 4096, 2, 256, 1024, 4, 4),
    "retrieval": (512, 4096, 2, 128, 512, 4, 4),
    "image": (256, 1024, 10, 32, 64, 1, 1),
    "pathfinder": (256, 1024, 2, 128, 128, 8, 4),
}


def _arena_settings(name: str) -> dict:
    vocabulary, longest, classes, width, inner, heads, blocks = _ARENA[name]
    return {
        **NO_SPECIAL_TOKENS,
        **PUBLISHED_FORM,
        "pad_token_id": 0,
        "vocab_size": vocabulary,
        "max_position_embeddings": longest,
        "num_labels": classes,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_hidden_layers": blocks,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "position_embedding_type": "absolute",
        "initializer_range": 0.02,
    }


PRESETS = {
    "cifar10": {**_ABLATION, "max_position_embeddings": 3072},
    "cifar10_12": {**_ABLATION, "max_position_embeddings": 3072, "num_hidden_layers": 12},
    "imagenet64": {**_ABLATION, "max_position_embeddings": 12_288},
    "imagenet64_large": {
        **_IMAGES,
        "max_position_embeddings": 12_288,
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
        "num_hidden_layers": 30,
        "pattern": "axial_rowmajor",
    },
    "wiki40b": {**_TEXT, "causal": True, "max_position_embeddings": 2048},
    "wiki40b_8k": {**_TEXT, "causal": True, "max_position_embeddings": 8192},
    "c4": {**_TEXT, "type_vocab_size": 2, "max_position_embeddings": 2048},
    "c4_8k": {**_TEXT, "type_vocab_size": 2, "max_position_embeddings": 8192},
    **{name: _arena_settings(name) for name in _ARENA},
}
