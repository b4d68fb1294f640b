"""Original ChordMixers: the released classifiers, the retrieval model, the pre-training code."""

from typing import Any

from transformers import PreTrainedModel
from transformers.utils import logging

from ..models.configuration_chordmixer import ChordMixerConfig
from ..models.configuration_mixer import NO_SPECIAL_TOKENS, PUBLISHED_FORM
from ..models.modeling_chordmixer import (
    ChordMixerForMaskedLM,
    ChordMixerForSequenceClassification,
    ChordMixerForSequencePairClassification,
)
from .states import (
    StateDict,
    compare_with_stated,
    count_modules,
    read_width,
    refuse_unknown,
    rename,
)

logger = logging.get_logger(__name__)


def convert_chordmixer(
    state: StateDict,
    *,
    track_size: int,
    max_seq_len: int | None = None,
    var_len: bool = False,
    mlp_dropout: float = 0.0,
    layer_dropout: float = 0.0,
    **stated,
) -> tuple[PreTrainedModel, StateDict]:
    """The released ChordMixer, classifier or retrieval, with any input and any norm."""
    refuse_unknown(
        stated,
        {
            "input_size",
            "output_size",
            "embedding_type",
            "decoder",
            "hidden_size",
            "prenorm",
            "norm",
        },
    )
    if stated.get("decoder", "linear") != "linear":
        raise ValueError(f"decoder must be 'linear', got {stated['decoder']!r}.")
    is_linear = "embedding.bias" in state or "linear.bias" in state
    is_pair = "decoder.2.weight" in state
    embedding = "model.embed_values" if is_linear else "model.embed_tokens"
    renamed = rename(
        state,
        [
            (r"(embedding|linear)\.(weight|bias)", rf"{embedding}.\2"),
            (r"(?:encoder\.)?chordmixer_blocks\.(\d+)\.", r"model.layers.\1."),
            (r"(model\.layers\.\d+)\.mixer\.", r"\1.mix."),
            (r"(model\.layers\.\d+)\.mlp\.network\.0\.", r"\1.mix.fc1."),
            (r"(model\.layers\.\d+)\.mlp\.network\.2\.", r"\1.mix.fc2."),
            (r"(model\.layers\.\d+)\.prenorm\.(?:bn\.|gn\.)?", r"\1.norm_before."),
            (r"(model\.layers\.\d+)\.norm\.(?:bn\.|gn\.)?", r"\1.norm_after."),
            (r"(?:decoder\.decoder|final)\.", "classifier."),
            (r"decoder\.0\.", "dense."),
            (r"decoder\.2\.", "classifier."),
        ],
    )
    blocks = _block_fields(renamed, "model.layers", track_size)
    vocabulary = read_width(renamed, f"{embedding}.weight", 1 if is_linear else 0)
    labels = read_width(renamed, "classifier.weight")
    blocks["input_features" if is_linear else "vocab_size"] = vocabulary
    config = ChordMixerConfig(
        **blocks,
        max_position_embeddings=max_seq_len or 2 ** blocks["num_hidden_layers"],
        block_order="mix_rotate",
        adaptive_depth=var_len,
        hidden_dropout_prob=mlp_dropout,
        rotate_dropout_prob=layer_dropout,
        pre_norm=_norm_kind(state, "prenorm"),
        post_norm=_norm_kind(state, "norm"),
        num_labels=labels,  # type: ignore[call-arg]  # a further keyword of every config
        **NO_SPECIAL_TOKENS,
        **PUBLISHED_FORM,
    )
    norms = {"none": "None", "layer": "LN", "batch": "BN", "group": "GN"}
    compare_with_stated(
        stated,
        {
            "input_size": vocabulary,
            "output_size": labels,
            "embedding_type": "linear" if is_linear else "sparse",
            "hidden_size": config.intermediate_size,
            "prenorm": norms[config.pre_norm],
            "norm": norms[config.post_norm],
        },
    )
    if is_pair:
        return ChordMixerForSequencePairClassification(config), renamed
    return ChordMixerForSequenceClassification(config), renamed


def convert_chordmixer_pretraining(
    state: StateDict,
    *,
    encoder_track_size: int,
    decoder_track_size: int,
    max_seq_len: int | None = None,
    variable_length: bool = False,
    encoder_mlp_dropout: float = 0.0,
    encoder_layer_dropout: float = 0.0,
    decoder_mlp_dropout: float = 0.0,
    decoder_layer_dropout: float = 0.0,
    **stated,
) -> tuple[PreTrainedModel, StateDict]:
    """The pre-training auto-encoder on one-hot DNA, one track short of the paper's count."""
    refuse_unknown(stated, {"vocab_size", "encoder_hidden_size", "decoder_hidden_size"})
    if variable_length:
        logger.warning(
            "The original decoder for variable length rotates channels instead of positions; the "
            "converted one rotates positions, so only the encoder gives the same numbers."
        )
    renamed = rename(
        state,
        [
            (r"encoder\.prelinear\.", "model.embed_values."),
            (r"encoder\.chordmixer_blocks\.(\d+)\.mixer\.", r"model.layers.\1.mix."),
            (r"decoder\.prelinear\.", "decoder.project."),
            (r"decoder\.chordmixer_blocks\.(\d+)\.mixer\.", r"decoder.layers.\1.mix."),
            (r"decoder\.mlm_classifier\.", "lm_head."),
        ],
    )
    blocks = _block_fields(renamed, "model.layers", encoder_track_size)
    decoder = _block_fields(renamed, "decoder.layers", decoder_track_size)
    for name in ("num_tracks", "num_hidden_layers"):
        if decoder[name] != blocks[name]:
            raise ValueError(
                f"Encoder and decoder must agree in {name}, got {blocks[name]} and {decoder[name]}."
            )
    config = ChordMixerConfig(
        **blocks,
        input_features=read_width(renamed, "model.embed_values.weight", 1),
        vocab_size=read_width(renamed, "lm_head.weight"),
        max_position_embeddings=max_seq_len or 2 ** blocks["num_hidden_layers"],
        block_order="mix_rotate",
        adaptive_depth=variable_length,
        hidden_dropout_prob=encoder_mlp_dropout,
        rotate_dropout_prob=encoder_layer_dropout,
        decoder_type="chordmixer",
        decoder_track_size=decoder_track_size,
        decoder_intermediate_size=decoder["intermediate_size"],
        decoder_hidden_dropout_prob=decoder_mlp_dropout,
        decoder_rotate_dropout_prob=decoder_layer_dropout,
        **NO_SPECIAL_TOKENS,
        **PUBLISHED_FORM,
    )
    compare_with_stated(
        stated,
        {
            "vocab_size": config.vocab_size,
            "encoder_hidden_size": config.intermediate_size,
            "decoder_hidden_size": config.decoder_intermediate_size,
        },
    )
    return ChordMixerForMaskedLM(config), renamed


def _block_fields(state: StateDict, prefix: str, track_size: int) -> dict[str, Any]:
    """Config fields that the weights of a stack of blocks tell."""
    num_blocks = count_modules(state, prefix)
    intermediate_size, width = state[f"{prefix}.0.mix.fc1.weight"].shape
    if width % track_size:
        raise ValueError(
            f"track_size must divide the width of the weights, {width}, got {track_size}."
        )
    num_tracks = width // track_size
    if num_tracks not in (num_blocks, num_blocks + 1):
        raise ValueError(
            f"{num_blocks} blocks go with {num_blocks} or {num_blocks + 1} tracks, but "
            f"track_size={track_size} makes {num_tracks} of the width {width}."
        )
    return {
        "track_size": track_size,
        "num_tracks": num_tracks,
        "num_hidden_layers": num_blocks,
        "intermediate_size": intermediate_size,
    }


def _norm_kind(state: StateDict, name: str) -> Any:
    keys = [key for key in state if f".{name}." in key]
    if not keys:
        return "none"
    return "batch" if ".bn." in keys[0] else "group" if ".gn." in keys[0] else "layer"
