"""The configuration of ChordMixer."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_mixer import NO_SPECIAL_TOKENS, PUBLISHED_FORM, MixerConfig, bit_length

# the released models: outputs, longest sequence, whether lengths vary, track size, width and
# dropout of the MLPs, norms before and after, input
_RELEASED = {
    "longdoc": (4, 131000, True, 16, 196, 0.2, "none", "none", {"vocab_size": 4000}),
    "carassius_labeo": (2, 100101, True, 16, 128, 0.1, "none", "none", {"vocab_size": 20}),
    "danio_cyprinus": (2, 261943, True, 12, 96, 0.1, "none", "none", {"vocab_size": 20}),
    "sus_bos": (2, 447010, True, 8, 96, 0.1, "none", "none", {"vocab_size": 20}),
    "mus_rattus": (2, 261093, True, 12, 96, 0.1, "none", "none", {"vocab_size": 20}),
    "adding_200": (1, 6700, True, 16, 128, 0.0, "none", "none", {"input_features": 2}),
    "adding_1000": (1, 31800, True, 16, 128, 0.0, "none", "none", {"input_features": 2}),
    "adding_16000": (1, 242400, True, 16, 128, 0.0, "none", "none", {"input_features": 2}),
    "adding_128000": (1, 1500000, True, 8, 88, 0.0, "none", "none", {"input_features": 2}),
    "listops": (10, 2048, False, 8, 88, 0.1, "layer", "batch", {"vocab_size": 20}),
    "image": (10, 1024, False, 28, 420, 0.0, "batch", "batch", {"input_features": 1}),
    "text": (2, 4096, False, 16, 96, 0.1, "layer", "batch", {"vocab_size": 1000}),
    "retrieval": (2, 4000, False, 20, 128, 0.1, "layer", "batch", {"vocab_size": 100}),
    "pathfinder": (2, 1024, False, 24, 320, 0.0, "batch", "batch", {"input_features": 1}),
    "pathfinderx": (2, 16384, False, 10, 128, 0.0, "batch", "batch", {"input_features": 1}),
}


def _released_settings(task: str) -> dict:
    num_labels, longest, varies, track_size, hidden, dropout, before, after, inputs = _RELEASED[
        task
    ]
    return {
        **NO_SPECIAL_TOKENS,
        **PUBLISHED_FORM,
        "num_labels": num_labels,
        "problem_type": "regression" if num_labels == 1 else "single_label_classification",
        "max_position_embeddings": longest,
        "adaptive_depth": varies,
        "track_size": track_size,
        "intermediate_size": hidden,
        "hidden_dropout_prob": dropout,
        "pre_norm": before,
        "post_norm": after,
        "block_order": "mix_rotate",
        **inputs,
    }


_BLOCK_DROPOUTS = (
    "hidden_dropout_prob",
    "rotate_dropout_prob",
    "decoder_hidden_dropout_prob",
    "decoder_rotate_dropout_prob",
)


@strict
class ChordMixerConfig(MixerConfig):
    r"""Configuration of a ChordMixer: tracks of channels rotate by powers of two, then mix.

    Besides the fields that all families share:

    Args:
        track_size: Channels per track; `hidden_size` is `num_tracks * track_size`.
        num_tracks: Tracks; track 0 stays, track t is rotated by 2^(t-1) positions. Default
            ceil(log2 max_position_embeddings) + 1; published pre-training checkpoints have one
            less.
        num_hidden_layers: Blocks. Default ceil(log2 max_position_embeddings).
        block_order: `"rotate_mix"` is the paper's equation, `"mix_rotate"` the authors' code.
        rotation: `"forward"` shifts tracks by 1, 2, 4, 8, ... as in the paper: a token hears those
            after it soon, and those before it only around the end of the sequence. `"alternating"`
            shifts by 1, -2, 4, -8, ...: it hears both sides alike, and everything in as many
            blocks.
        adaptive_depth: A sequence of N tokens passes ceil(log2 N) blocks instead of all.
        pre_norm: Normalisation of the branch of a block: over channels (`"layer"`), over all tokens
            of the batch (`"batch"`), or over the tokens of one sequence (`"group"`).
        post_norm: The same after the residual sum.
        norm_groups: Groups of channels of `"group"`; default `track_size`, as in the authors' code.
        norm_eps: Added to the variance.
        rotate_dropout_prob: Dropout between rotating and mixing.
        use_triton: On CUDA devices, use the Triton kernels (`pip install hf-mixers[triton]`). They
            are tested in Triton's interpreter, and have not been timed on a GPU.
        fused: Rotate and mix chunk by chunk and compute what lies between again in the backward
            pass: faster and smaller. Turn it off for gradients of gradients. Dropout turns it off
            in training.
        reversible: Couple the blocks in two streams so that training stores no activations: memory
            does not grow with depth. Another network than without; needs no `post_norm`, no norm or
            `"layer"` before, and no dropout in the blocks.
        decoder_type: Masked language modelling with one linear layer, or with a second ChordMixer
            (appendix J of the paper) that the `decoder_...` fields describe.
        decoder_track_size: Channels per track of that decoder; it has as many tracks as the
            encoder.
        decoder_intermediate_size: Width inside its MLPs.
        decoder_hidden_dropout_prob: Dropout inside its MLPs.
        decoder_rotate_dropout_prob: Dropout between its rotating and mixing.

    `ChordMixerConfig.preset` has the released configurations: `longdoc`; `carassius_labeo`,
    `danio_cyprinus`, `sus_bos` and `mus_rattus` of GenBank; `adding_200`, `_1000`, `_16000` and
    `_128000`; `listops`, `image`, `text`, `retrieval`, `pathfinder` and `pathfinderx` of the Long
    Range Arena. Their ids have no special tokens.

    >>> config = ChordMixerConfig(max_position_embeddings=1000, track_size=8)
    >>> config.num_hidden_layers, config.num_tracks, config.hidden_size
    (10, 11, 88)
    """

    model_type = "chordmixer"
    presets = {task: _released_settings(task) for task in _RELEASED}

    track_size: int = 16
    num_tracks: int | None = None
    num_hidden_layers: int | None = None
    block_order: Literal["rotate_mix", "mix_rotate"] = "rotate_mix"
    rotation: Literal["forward", "alternating"] = "forward"
    adaptive_depth: bool = True
    pre_norm: Literal["none", "layer", "batch", "group"] = "none"
    post_norm: Literal["none", "layer", "batch", "group"] = "none"
    norm_groups: int | None = None
    norm_eps: float = 1e-5
    rotate_dropout_prob: float | int = 0.0
    fused: bool = True
    use_triton: bool = False
    reversible: bool = False
    decoder_type: Literal["linear", "chordmixer"] = "linear"
    decoder_track_size: int = 8
    decoder_intermediate_size: int = 64
    decoder_hidden_dropout_prob: float | int = 0.0
    decoder_rotate_dropout_prob: float | int = 0.0

    def __post_init__(self, **kwargs) -> None:
        needed = max(1, bit_length(self.max_position_embeddings))
        if self.num_hidden_layers is None:
            self.num_hidden_layers = needed
        if self.num_tracks is None:
            self.num_tracks = needed + 1
        if (width := kwargs.pop("hidden_size", None)) is not None:
            self.hidden_size = width
        super().__post_init__(**kwargs)

    @property
    def hidden_size(self) -> int:
        return self.num_tracks * self.track_size

    @hidden_size.setter
    def hidden_size(self, value: int) -> None:
        if value != self.hidden_size:
            raise ValueError(
                f"hidden_size is num_tracks * track_size = {self.num_tracks} * {self.track_size} = "
                f"{self.hidden_size}, got {value}: set track_size instead."
            )

    @property
    def decoder_hidden_size(self) -> int:
        return self.num_tracks * self.decoder_track_size

    def skipped_length(self, index: int) -> int:
        """Block k is for sequences longer than 2^k, so that N tokens pass ceil(log2 N) blocks."""
        return 1 << index if self.adaptive_depth else 0

    def validate_chord(self) -> None:
        """Part of `validate`: widths and groups that do not fit together."""
        for name in ("track_size", "num_tracks", "decoder_track_size", "decoder_intermediate_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if "group" in (self.pre_norm, self.post_norm):
            for width, groups in self._group_norms():
                if groups < 1 or width % groups:
                    raise ValueError(f"norm_groups must divide the width {width}, got {groups}.")
        if self.tie_word_embeddings and self.decoder_type != "linear":
            raise ValueError(
                "tie_word_embeddings needs decoder_type='linear': another decoder ends in its own "
                "width."
            )

    def validate_reversible(self) -> None:
        """Part of `validate`: what cannot be undone."""
        if not self.reversible:
            return
        if self.post_norm != "none" or self.pre_norm not in ("none", "layer"):
            raise ValueError(
                "reversible needs post_norm='none' and pre_norm 'none' or 'layer', got "
                f"{self.post_norm!r} and {self.pre_norm!r}."
            )
        rates = [name for name in _BLOCK_DROPOUTS if getattr(self, name)]
        if rates:
            raise ValueError(f"reversible needs blocks without dropout, but {rates[0]} is set.")

    def _group_norms(self) -> list[tuple[int, int]]:
        pairs = [(self.hidden_size, self.norm_groups or self.track_size)]
        if self.decoder_type == "chordmixer":
            pairs.append((self.decoder_hidden_size, self.norm_groups or self.decoder_track_size))
        return pairs
