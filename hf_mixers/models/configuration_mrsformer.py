"""The configuration of MrsFormer."""

from typing import Literal, NamedTuple

from huggingface_hub.dataclasses import strict

from .configuration_mixer import MixerConfig
from .ops_multiresolution import count_groups
from .presets_mrsformer import PRESETS

# the supplement's lists, by number of heads
_SCALES = {1: [1], 2: [1, 2], 4: [1, 2, 2, 4], 8: [1, 1, 2, 2, 4, 4, 8, 8]}


class HeadGroup(NamedTuple):
    """Heads that work at the same scales, and run together."""

    scale: int  # of queries
    key_scale: int  # of keys and values
    heads: tuple[int, ...]


@strict
class MrsFormerConfig(MixerConfig):
    r"""Configuration of a MrsFormer: attention whose heads see groups of 1, 2, 4, ... tokens.

    Besides the fields that all families share:

    Args:
        hidden_size: Width of the embedding.
        num_hidden_layers: Blocks.
        position_embedding_type: Default `"absolute"`: attention does not know the order of tokens
            otherwise; `"none"` for tables, whose columns have vectors of their own.
        initializer_range: Default 0.02, so that learned positions do not drown what is at them.
        num_attention_heads: Heads. Default as many as `head_scales`, or 8.
        head_scales: Tokens per group for every head. Default the supplement's lists for 1, 2, 4 and
            8 heads.
        key_scales: The same for keys and values; default `head_scales`.
        head_mode: `"efficient"` attends between means of groups; `"exact"` computes attention of
            all tokens and averages that, for comparison (softmax only).
        attention_type: What a head computes at its scale.
        group_size_bias: Attention to a group counts as often as the group has tokens.
        num_prefix_tokens: First tokens of a sequence, with those that the model adds, that are in
            no group. Default: a CLS token (`pooling` `"cls"` or `"first"`), and Luna's memory.
        norm_position: Norms before attention and MLP and at the end (`"pre"`), or after each sum.
        norm_type: Norms over the channels of a token, or over all tokens of a batch.
        norm_eps: Added to the variance.
        final_norm: Default `"none"`: the last block ends in a norm of its own.
        skip_first_norm: No norm before the first attention, as in FT-Transformer.
        hidden_act: Of the MLPs; `"reglu"` multiplies by the ReLU of a second linear layer.
        attention_probs_dropout_prob: Dropout of attention; of its output where there are no
            probabilities (linear, Performer and the far fields of FMM).
        hidden_dropout_prob: Dropout of the output of attention and of MLP.
        intermediate_dropout_prob: Dropout inside the MLPs. Default `hidden_dropout_prob`.
        scale_embedding: Embeddings are multiplied by the square root of `hidden_size`.
        linear_normalized: Linear attention is a mean; else a sum over sqrt(N).
        linformer_size: Rows that Linformer projects keys and values to, at most.
        linformer_shared: All layers have the same projections.
        num_random_features: Features of a Performer.
        performer_kernel: `"exp"` approximates softmax, `"relu"` does not.
        feature_seed: The random directions of Performers are drawn from it.
        fmm_bandwidth: Keys in the near field of FMM, an odd number.
        fmm_kernels: Far fields of FMM: `"elu"`, `"negative_elu"`, `"tanh"`.
        luna_memory_size: Rows of Luna's memory.
        luna_tied_values: Luna's values are its keys, as in its original.
        image_size: The model reads square images of this size (`pixel_values`).
        patch_size: Size of the square patches that become tokens.
        num_channels: Channels of images.
        pool2d: Groups of patches are rectangles of the image instead of runs in a row; patches then
            go into the model tile by tile.
        num_numeric_features: The model reads tables with so many columns of numbers
            (`numeric_values`) and
        category_sizes: columns of categories (`category_ids`), so many in each.

    `MrsFormerConfig.preset` has the ten time series of table 6 of the supplement, `listops`, `text`
    and `retrieval` of table 7, `deit`, and `ft_transformer`, to be given your columns.

    >>> config = MrsFormerConfig(head_scales=[1, 2, 2, 4], pooling="cls")
    >>> config.num_attention_heads, config.prefix_size
    (4, 1)
    """

    model_type = "mrsformer"
    presets = PRESETS

    hidden_size: int = 64
    num_hidden_layers: int = 2
    max_position_embeddings: int | None = None
    position_embedding_type: Literal["none", "absolute"] | None = None
    num_attention_heads: int | None = None
    head_scales: list[int] | None = None
    key_scales: list[int] | None = None
    head_mode: Literal["efficient", "exact"] = "efficient"
    attention_type: Literal["softmax", "linear", "linformer", "performer", "fmm", "luna"] = (
        "softmax"
    )
    group_size_bias: bool = False
    num_prefix_tokens: int | None = None
    norm_position: Literal["pre", "post"] = "pre"
    norm_type: Literal["layer", "batch"] = "layer"
    norm_eps: float = 1e-5
    final_norm: Literal["none", "layer"] = "none"
    skip_first_norm: bool = False
    hidden_act: Literal["gelu", "reglu"] = "gelu"
    attention_probs_dropout_prob: float | int = 0.0
    intermediate_dropout_prob: float | int | None = None
    scale_embedding: bool = False
    linear_normalized: bool = True
    linformer_size: int = 256
    linformer_shared: bool = False
    num_random_features: int = 256
    performer_kernel: Literal["exp", "relu"] = "exp"
    feature_seed: int = 0
    fmm_bandwidth: int = 5
    fmm_kernels: list[str] | None = None
    luna_memory_size: int = 16
    luna_tied_values: bool = True
    image_size: int | None = None
    patch_size: int = 16
    num_channels: int = 3
    pool2d: bool = False
    num_numeric_features: int | None = None
    category_sizes: list[int] | None = None

    def __post_init__(self, **kwargs) -> None:
        if self.num_attention_heads is None:
            self.num_attention_heads = len(self.head_scales or _SCALES[8])
        if self.head_scales is None and self.num_attention_heads in _SCALES:
            self.head_scales = list(_SCALES[self.num_attention_heads])
        if self.fmm_kernels is None:
            self.fmm_kernels = ["elu", "negative_elu"]
        if self.max_position_embeddings is None:
            self.max_position_embeddings = self._natural_length()
        if self.position_embedding_type is None:
            self.position_embedding_type = "none" if self.num_columns else "absolute"
        if self.initializer_range is None and not self.tie_word_embeddings:
            self.initializer_range = 0.02
        super().__post_init__(**kwargs)

    @property
    def main_input(self) -> str:
        if self.image_size is not None:
            return "pixel_values"
        if self.num_columns:
            return "numeric_values"
        # said again: compilers cannot follow super() in a property
        return "input_ids" if self.input_features is None else "input_values"

    def describe_input(self) -> str:
        if self.main_input == "pixel_values":
            size = f"{self.image_size} x {self.image_size}"
            return f"images of {size} pixels in {self.num_channels} channels"
        if self.main_input == "numeric_values":
            numbers, categories = self.num_numeric_features or 0, len(self.category_sizes or ())
            return f"tables with {numbers} columns of numbers and {categories} of categories"
        return super().describe_input()

    def describe_limits(self) -> list[str]:
        has_lengths = self.main_input in ("input_ids", "input_values")
        return super().describe_limits() if has_lengths else []

    def _describe_longer(self) -> str:
        return "longer sequences are read as well."

    def example_inputs(self) -> dict[str, str]:
        if self.main_input == "pixel_values":
            shape = f"2, {self.num_channels}, {self.image_size}, {self.image_size}"
            return {"pixel_values": f"torch.randn({shape})"}
        if self.main_input != "numeric_values":
            return super().example_inputs()
        columns = {}
        if self.num_numeric_features:
            columns["numeric_values"] = f"torch.randn(2, {self.num_numeric_features})"
        if self.category_sizes:
            shape = f"2, {len(self.category_sizes)}"
            columns["category_ids"] = f"torch.zeros({shape}, dtype=torch.long)"
        return columns

    @property
    def num_columns(self) -> int:
        """Columns of a table, numbers and categories."""
        return (self.num_numeric_features or 0) + len(self.category_sizes or ())

    @property
    def memory_size(self) -> int:
        """Rows of memory that the model puts in front of every sequence."""
        return self.luna_memory_size if self.attention_type == "luna" else 0

    @property
    def has_shared_heads(self) -> bool:
        """Whether the model owns the weights of heads that all layers use."""
        return self.attention_type == "linformer" and self.linformer_shared

    @property
    def prefix_size(self) -> int:
        """First rows of a sequence, with those that the model adds, that are in no group."""
        if self.num_prefix_tokens is None:
            return self.memory_size + (self.pooling in ("cls", "first"))
        return self.num_prefix_tokens

    @property
    def length_limit(self) -> int | None:
        if self.attention_type == "linformer":
            return self.max_position_embeddings
        return super().length_limit

    @property
    def longest_mixed(self) -> int:
        """Rows of the longest sequence, with those that the model adds."""
        return self.max_position_embeddings + self.memory_size + (self.pooling == "cls")

    def count_groups(self, scale: int) -> int:
        """Groups of the longest sequence at a scale."""
        return count_groups(self.longest_mixed, scale, self.prefix_size)

    def head_groups(self) -> tuple[HeadGroup, ...]:
        """Heads of equal scales together, in the order in which scales first occur."""
        groups: dict[tuple[int, int], list[int]] = {}
        pairs = zip(self.head_scales, self.key_scales or self.head_scales, strict=True)
        for head, pair in enumerate(pairs):
            groups.setdefault(pair, []).append(head)
        return tuple(HeadGroup(*pair, tuple(heads)) for pair, heads in groups.items())

    def _natural_length(self) -> int:
        if self.image_size is not None:
            return (self.image_size // max(1, self.patch_size)) ** 2
        return self.num_columns or 4096

    def validate_scales(self) -> None:
        """Part of `validate`: one scale per head, and heads that divide the width."""
        heads = self.num_attention_heads
        if heads < 1 or self.hidden_size % heads:
            raise ValueError(
                f"num_attention_heads must divide hidden_size={self.hidden_size}, got {heads}."
            )
        if self.head_scales is None:
            raise ValueError(f"head_scales must be given for num_attention_heads={heads}.")
        for name in ("head_scales", "key_scales"):
            scales = getattr(self, name)
            if scales is not None and (len(scales) != heads or min(scales) < 1):
                raise ValueError(
                    f"{name} must hold one number of at least 1 for each of the {heads} heads, got "
                    f"{scales}."
                )
        if self.attention_type == "fmm" and self.key_scales not in (None, self.head_scales):
            raise ValueError(
                "key_scales must be head_scales for attention_type='fmm': a near field needs one "
                "scale."
            )
        added = self.memory_size + (self.pooling == "cls")
        if self.prefix_size < added:
            raise ValueError(
                f"num_prefix_tokens must be at least {added}, the rows that the model adds (a CLS "
                f"token, Luna's memory), got {self.num_prefix_tokens}."
            )

    def validate_attention(self) -> None:
        """Part of `validate`: settings that an attention type does not have."""
        for name in (
            "linformer_size",
            "num_random_features",
            "fmm_bandwidth",
            "luna_memory_size",
            "patch_size",
            "num_channels",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.head_mode == "exact" and (self.attention_type != "softmax" or self.group_size_bias):
            raise ValueError(
                "head_mode='exact' is for attention_type='softmax' without group_size_bias."
            )
        if self.group_size_bias and self.attention_type == "linformer":
            raise ValueError(
                "group_size_bias has no meaning for attention_type='linformer', whose keys are not "
                "groups."
            )
        if self.fmm_bandwidth % 2 == 0:
            raise ValueError(f"fmm_bandwidth must be odd, got {self.fmm_bandwidth}.")
        known = ("elu", "negative_elu", "tanh")
        if not self.fmm_kernels or any(kernel not in known for kernel in self.fmm_kernels):
            raise ValueError(
                f"fmm_kernels must be some of {', '.join(known)}, got {self.fmm_kernels}."
            )
        if self.norm_position == "post" and self.skip_first_norm:
            raise ValueError("skip_first_norm needs norm_position='pre': there is none to skip.")

    def validate_inputs(self) -> None:
        """Part of `validate`: one kind of input, images that patches divide, columns."""
        kinds = {
            "input_features": self.input_features is not None,
            "image_size": self.image_size is not None,
            "num_numeric_features or category_sizes": bool(self.num_columns),
        }
        given = [name for name, is_set in kinds.items() if is_set]
        if len(given) > 1:
            raise ValueError(f"A model reads one kind of input, got {' and '.join(given)}.")
        if self.num_numeric_features is not None and self.num_numeric_features < 0:
            raise ValueError(
                f"num_numeric_features must not be negative, got {self.num_numeric_features}."
            )
        if any(size < 1 for size in self.category_sizes or ()):
            raise ValueError(f"category_sizes must be at least 1, got {self.category_sizes}.")
        if self.image_size is not None and self.image_size % self.patch_size:
            raise ValueError(
                f"image_size must be a multiple of patch_size={self.patch_size}, got "
                f"{self.image_size}."
            )
        if self.pool2d:
            self._check_tiles()

    def _check_tiles(self) -> None:
        if self.image_size is None:
            raise ValueError("pool2d needs images: set image_size.")
        scales = [*self.head_scales, *(self.key_scales or ())]
        side = self.image_size // self.patch_size
        height, width = tile_shape(max(scales))
        if any(scale & (scale - 1) for scale in scales) or side % height or side % width:
            raise ValueError(
                f"pool2d needs scales that are powers of two and whose largest tile, here {height} "
                f"x {width} patches, divides the {side} x {side} patches of an image."
            )


def tile_shape(scale: int) -> tuple[int, int]:
    """Height and width in patches of a group of `scale`, a power of two.

    >>> [tile_shape(scale) for scale in (1, 2, 4, 8)]
    [(1, 1), (1, 2), (2, 2), (2, 4)]
    """
    doublings = scale.bit_length() - 1
    return 1 << doublings // 2, 1 << (doublings + 1) // 2
