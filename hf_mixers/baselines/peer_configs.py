"""Configs of peers: any model type of transformers at given sizes and lengths."""

from collections.abc import Callable, Mapping
from typing import Any

from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from .peers import PeerConfig, PeerSizes

Fields = dict[str, Any]

# these count positions from behind the id of padding
_POSITIONS_BEHIND_PADDING = (
    "longformer",
    "roberta",
    "xlm-roberta",
    "camembert",
    "mpnet",
    "data2vec-text",
    "luke",
    "mra",
    "nystromformer",
    "yoso",
)
_SPECIAL = ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
_MAMBA_EXPANSION = 2


def peer_config(
    model_type: str,
    *,
    max_length: int,
    vocab_size: int | None = None,
    input_features: int | None = None,
    pad_token_id: int | None = None,
    sizes: PeerSizes | None = None,
    settings: Mapping[str, Any] | None = None,
    **fields: Any,
) -> PeerConfig:
    """The config of a peer.

    Args:
        model_type: Of transformers, such as `bert`, `longformer` or `mamba2`.
        max_length: Longest sequence.
        vocab_size, input_features, pad_token_id: What the peer reads.
        sizes: Width, depth and heads, as far as the model type has them.
        settings: Further fields of the trunk's config, which come before all others.
        fields: Further fields of the peer's config, such as `num_labels`.

    >>> peer_config("bert", max_length=128, vocab_size=20).trunk["hidden_size"]
    64
    """
    kind = find_config(model_type)
    known = set(kind().to_dict()) | set(kind.attribute_map)
    sizes = sizes or PeerSizes()
    trunk: Fields = {name: value for name, value in vars(sizes).items() if name in known}
    trunk |= dict.fromkeys((name for name in _SPECIAL if name in known), None)
    if "embedding_size" in known:
        trunk["embedding_size"] = sizes.hidden_size
    if "num_key_value_heads" in known:
        # as many as heads: defaults are for models of other sizes
        trunk["num_key_value_heads"] = sizes.num_attention_heads
    if pad_token_id is None:
        # of values there is no id, but some trunks count positions with it
        pad_token_id = 0
    trunk |= {"vocab_size": vocab_size or 2, "pad_token_id": pad_token_id}
    if "max_position_embeddings" in known:
        trunk["max_position_embeddings"] = max_length
    if model_type in _POSITIONS_BEHIND_PADDING:
        trunk["max_position_embeddings"] = max_length + pad_token_id + 2
    peer: Fields = {"max_position_embeddings": max_length}
    adjust = _ADJUSTMENTS.get(model_type)
    if adjust is not None:
        peer |= adjust(trunk, max_length)
    unknown = sorted(set(settings or {}) - known)
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not a config field of {model_type}.")
    trunk |= dict(settings or {})
    made = kind(**trunk)
    if not hasattr(made, "hidden_size") or "vocab_size" not in known or made.is_encoder_decoder:
        raise ValueError(f"{model_type} is not one stack of blocks over tokens.")
    return PeerConfig(
        trunk={**made.to_diff_dict(), "model_type": model_type},
        vocab_size=vocab_size or 2,
        input_features=input_features,
        pad_token_id=pad_token_id,
        **{**peer, **fields},
    )


def find_config(model_type: str) -> type[PreTrainedConfig]:
    """The config class of a model type of transformers."""
    if model_type not in CONFIG_MAPPING:
        raise ValueError(
            f"{model_type!r} is neither a family of hf_mixers nor a model type of transformers."
        )
    return CONFIG_MAPPING[model_type]


def _round_up(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple


def _nystromformer(trunk: Fields, length: int) -> Fields:
    # the length must be that of the landmarks times a whole number
    landmarks = min(64, max(2, length // 4))
    fixed = _round_up(length, landmarks)
    trunk |= {"num_landmarks": landmarks, "segment_means_seq_len": fixed}
    trunk["max_position_embeddings"] = max(trunk["max_position_embeddings"], fixed + 2)
    return {"fixed_length": fixed}


def _longformer(trunk: Fields, length: int) -> Fields:
    # even, and no wider than the sequences
    window = max(2, min(512, 2 * (length // 2)))
    trunk["attention_window"] = window
    trunk["max_position_embeddings"] += window
    return {}


def _big_bird(trunk: Fields, length: int) -> Fields:
    block = 64 if length >= 1024 else 16
    # shorter sequences have fewer blocks than the pattern needs
    is_short = length <= 11 * block
    trunk |= {"block_size": block, "num_random_blocks": 3}
    trunk["attention_type"] = "original_full" if is_short else "block_sparse"
    trunk["max_position_embeddings"] = _round_up(length, block)
    return {} if is_short else {"fixed_length": _round_up(length, block)}


def _mra(trunk: Fields, length: int) -> Fields:
    # whole blocks of 32 tokens
    fixed = _round_up(length, 32)
    trunk["max_position_embeddings"] = max(trunk["max_position_embeddings"], fixed + 2)
    return {"fixed_length": fixed}


def _mamba2(trunk: Fields, length: int) -> Fields:
    width = _MAMBA_EXPANSION * trunk["hidden_size"]
    head = next(size for size in (64, 32, 16, 8, 4, 2, 1) if width % size == 0 and width > size)
    trunk |= {"expand": _MAMBA_EXPANSION, "head_dim": head, "num_heads": width // head}
    trunk |= {"n_groups": 1, "state_size": 64, "chunk_size": 64}
    return {}


def _xlnet(trunk: Fields, length: int) -> Fields:
    trunk["d_head"] = trunk["hidden_size"] // trunk["num_attention_heads"]
    return {}


def _gpt_neo(trunk: Fields, length: int) -> Fields:
    trunk["attention_types"] = [[["global"], trunk["num_hidden_layers"]]]
    return {}


_ADJUSTMENTS: dict[str, Callable[[Fields, int], Fields]] = {
    "nystromformer": _nystromformer,
    "longformer": _longformer,
    "big_bird": _big_bird,
    "mra": _mra,
    "mamba2": _mamba2,
    "xlnet": _xlnet,
    "gpt_neo": _gpt_neo,
}
