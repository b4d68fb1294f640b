"""Checkpoints of the authors' implementations -> models of this package.

A converter reads what it can from the shapes of the weights and the rest from the arguments with
which the original model was built. Every weight must find its place: missing and unexpected keys
are errors.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import logging

from .models.configuration_chordmixer import ChordMixerConfig
from .models.modeling_chordmixer import (
    ChordMixerForMaskedLM,
    ChordMixerForSequenceClassification,
    ChordMixerForSequencePairClassification,
)

logger = logging.get_logger(__name__)

StateDict = dict[str, Tensor]


def from_original(
    source: str | Path | Mapping[str, Tensor], family: str, **original_constructor_arguments
) -> PreTrainedModel:
    """A model of this package with the weights of an original checkpoint.

    Args:
        source: Path of a `.safetensors` or `.pt` file (read with `weights_only=True`), or a state
            dict.
        family: `chordmixer` (classifiers and the retrieval model) or `chordmixer_pretraining`.
        original_constructor_arguments: As given to the original class, for example `track_size=16`.
    """
    if family not in CONVERTERS:
        raise ValueError(f"family must be one of {', '.join(CONVERTERS)}, got {family!r}.")
    state = source if isinstance(source, Mapping) else read_state_dict(Path(source))
    model, renamed = CONVERTERS[family](
        _without_prefix(dict(state)), **original_constructor_arguments
    )
    _load_exactly(model, renamed)
    return model.eval()


def read_state_dict(path: Path) -> StateDict:
    """The tensors of a `.safetensors` or `.pt` file, never executing anything from it."""
    if not path.is_file():
        raise ValueError(f"{path} is not a file.")
    if path.suffix == ".safetensors":
        return load_file(path)
    if path.suffix not in (".pt", ".pth", ".bin", ".ckpt"):
        raise ValueError(
            f"A checkpoint ends in .safetensors, .pt, .pth, .bin or .ckpt, got {path.name}."
        )
    loaded = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(loaded, dict):
        loaded = loaded.get("state_dict", loaded)
    if not isinstance(loaded, dict):
        raise ValueError(f"{path.name} holds a {type(loaded).__name__}, needed is a state dict.")
    if not all(torch.is_tensor(value) for value in loaded.values()):
        raise ValueError(f"{path.name} holds more than the tensors of a state dict.")
    return loaded


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
    _refuse_unknown(
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
    renamed = _rename(
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
    vocabulary = _width(renamed, f"{embedding}.weight", 1 if is_linear else 0)
    labels = _width(renamed, "classifier.weight")
    config = ChordMixerConfig(
        **blocks,
        **({"input_features": vocabulary} if is_linear else {"vocab_size": vocabulary}),
        max_position_embeddings=max_seq_len or 2 ** blocks["num_hidden_layers"],
        block_order="mix_rotate",
        adaptive_depth=var_len,
        hidden_dropout_prob=mlp_dropout,
        rotate_dropout_prob=layer_dropout,
        pre_norm=_norm_kind(state, "prenorm"),
        post_norm=_norm_kind(state, "norm"),
        num_labels=labels,
        **NO_SPECIAL_TOKENS,
    )
    norms = {"none": "None", "layer": "LN", "batch": "BN", "group": "GN"}
    _compare_with_stated(
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
    _refuse_unknown(stated, {"vocab_size", "encoder_hidden_size", "decoder_hidden_size"})
    if variable_length:
        logger.warning(
            "The original decoder for variable length rotates channels instead of positions; the "
            "converted one rotates positions, so only the encoder gives the same numbers."
        )
    renamed = _rename(
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
        input_features=_width(renamed, "model.embed_values.weight", 1),
        vocab_size=_width(renamed, "lm_head.weight"),
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
    )
    _compare_with_stated(
        stated,
        {
            "vocab_size": config.vocab_size,
            "encoder_hidden_size": config.intermediate_size,
            "decoder_hidden_size": config.decoder_intermediate_size,
        },
    )
    return ChordMixerForMaskedLM(config), renamed


# what the original vocabularies do not have
NO_SPECIAL_TOKENS = {
    "pad_token_id": None,
    "cls_token_id": None,
    "sep_token_id": None,
    "mask_token_id": None,
}

CONVERTERS: dict[str, Callable[..., tuple[PreTrainedModel, StateDict]]] = {
    "chordmixer": convert_chordmixer,
    "chordmixer_pretraining": convert_chordmixer_pretraining,
}


def _without_prefix(state: StateDict) -> StateDict:
    """Keys without what DataParallel, Lightning and the retrieval wrapper put in front of them."""
    return {
        re.sub(r"^(module\.|backbone\.|model\.)+", "", key): value for key, value in state.items()
    }


def _rename(state: StateDict, rules: list[tuple[str, str]]) -> StateDict:
    """Every key after all rules, each anchored at its start, one after the other."""
    renamed = {}
    for key, value in state.items():
        new = key
        for pattern, replacement in rules:
            new = re.sub(f"^{pattern}", replacement, new)
        if new in renamed:
            raise ValueError(f"Two weights of the checkpoint are {new}, one of them is {key}.")
        renamed[new] = value
    return renamed


def _block_fields(state: StateDict, prefix: str, track_size: int) -> dict[str, int]:
    """Config fields that the weights of a stack of blocks tell."""
    numbers = [int(m[1]) for key in state if (m := re.match(rf"{re.escape(prefix)}\.(\d+)\.", key))]
    if not numbers:
        raise ValueError(f"The checkpoint has no blocks: no key was recognised as {prefix}.")
    intermediate_size, width = state[f"{prefix}.0.mix.fc1.weight"].shape
    if width % track_size:
        raise ValueError(
            f"track_size must divide the width of the weights, {width}, got {track_size}."
        )
    num_tracks, num_blocks = width // track_size, max(numbers) + 1
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


def _width(state: StateDict, key: str, dimension: int = 0) -> int:
    if key not in state:
        raise ValueError(f"The checkpoint has no weight for {key}.")
    return state[key].shape[dimension]


def _norm_kind(state: StateDict, name: str) -> str:
    keys = [key for key in state if f".{name}." in key]
    if not keys:
        return "none"
    return "batch" if ".bn." in keys[0] else "group" if ".gn." in keys[0] else "layer"


def _refuse_unknown(stated: dict, known: set[str]) -> None:
    if unknown := sorted(set(stated) - known):
        raise ValueError(f"The original constructor has no argument {', '.join(unknown)}.")


def _compare_with_stated(stated: dict, seen: dict) -> None:
    for name, value in seen.items():
        if stated.get(name, value) != value:
            raise ValueError(f"{name}={stated[name]!r} was stated, but the weights say {value!r}.")


def _load_exactly(model: PreTrainedModel, state: StateDict) -> None:
    wanted = model.state_dict()
    missing, unexpected = sorted(wanted.keys() - state.keys()), sorted(state.keys() - wanted.keys())
    if missing or unexpected:
        raise ValueError(
            f"The checkpoint does not fit: missing {missing or 'nothing'}, unexpected "
            f"{unexpected or 'nothing'}."
        )
    for key, value in wanted.items():
        if value.shape != state[key].shape:
            raise ValueError(
                f"{key} has shape {tuple(state[key].shape)} in the checkpoint, needed is "
                f"{tuple(value.shape)}."
            )
    model.load_state_dict(state)
