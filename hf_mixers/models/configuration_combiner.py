"""The configuration of Combiner."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_mixer import MixerConfig
from .presets_combiner import PRESETS

PATTERNS = Literal[
    "fixed",
    "logsparse",
    "axial_rowmajor",
    "axial_vertical",
    "axial_horizontal",
    "axial_mixture",
    "learnable",
]


@strict
class CombinerConfig(MixerConfig):
    r"""Configuration of a Combiner: full attention, most of it through summaries of spans.

    Besides the fields that all families share:

    Args:
        hidden_size: Width of the embedding.
        num_hidden_layers: Blocks.
        num_attention_heads: Heads, which divide `hidden_size`.
        pattern: Which tokens are attended directly, and which spans are summarised.
        causal: A token attends to itself and to tokens before it, as language models need it.
        segment_length: Tokens of a segment (`fixed`), of a row of the grid (`axial_*`), or at most
            of a part of a cluster (`learnable`). Default the power of two nearest to the square
            root of `max_position_embeddings`.
        span_pool: Query and key of a span are the largest values of its tokens' (`"max"`), their
            means (`"mean"`), or the largest values of what a learned layer makes of them
            (`"deepset"`). `axial_rowmajor` pools nothing.
        row_summary: `axial_rowmajor` only: the key of a row for a column is that of the row's token
            in the column (`"none"`), the attention-weighted sum of the row's keys (`"wsum"`), or a
            projection of the weighted sum of values (`"proj"`) or of keys (`"wsum_proj"`).
        exclude_own_span: Summaries leave out what a token attends to directly. The released code
            counts such tokens twice where it is not causal: False.
        prefix_pool: `axial_vertical`, `axial_horizontal` and `axial_mixture` only: `"sum"` pools
            parts of rows and columns by sums, as the released TensorFlow code does; default as
            `span_pool`.
        use_summaries: False leaves only direct attention: the sparse pattern without Combiner.
        num_clusters: `learnable` only: clusters of each head. Default `max_position_embeddings`
            over `segment_length`.
        cluster_decay: `learnable` only: share of a centroid that a training step keeps.
        attention_bias: Projections to queries, keys, values and output have a bias.
        hidden_act: Of the MLPs.
        norm_eps: Added to the variance in layer norms.
        final_norm: Default `"none"`: the last block ends in a norm of its own.
        attention_probs_dropout_prob: Dropout of attention, inside of spans too.
        hidden_dropout_prob: Dropout inside MLPs and of the outputs of attention and MLP.
        position_embedding_type: `"sinusoidal"` adds fixed waves, for any length.
        type_vocab_size: Number of `token_type_ids`, such as 2 for two segments of text; 0: they
            are not read.

    `CombinerConfig.preset` has the models of appendix E (`cifar10`, `cifar10_12`, `imagenet64`,
    `imagenet64_large`, `wiki40b`, `wiki40b_8k`, `c4`, `c4_8k`) and of the Long Range Arena.

    >>> config = CombinerConfig(max_position_embeddings=4096)
    >>> config.pattern, config.segment_length
    ('fixed', 64)
    """

    model_type = "combiner"
    presets = PRESETS

    hidden_size: int = 64
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    pattern: PATTERNS = "fixed"
    causal: bool = False
    segment_length: int | None = None
    span_pool: Literal["max", "mean", "deepset"] = "max"
    row_summary: Literal["none", "wsum", "proj", "wsum_proj"] = "proj"
    exclude_own_span: bool = True
    prefix_pool: Literal["sum"] | None = None
    use_summaries: bool = True
    num_clusters: int | None = None
    cluster_decay: float | int = 0.999
    attention_bias: bool = True
    hidden_act: Literal["gelu", "gelu_new", "relu"] = "gelu"
    norm_eps: float = 1e-6
    final_norm: Literal["none", "layer"] = "none"
    attention_probs_dropout_prob: float | int = 0.0
    # one kind more
    position_embedding_type: Literal["none", "absolute", "sinusoidal"] = "sinusoidal"  # type: ignore[assignment]
    type_vocab_size: int = 0

    def __post_init__(self, **kwargs):
        if self.segment_length is None:
            self.segment_length = nearest_power(self.max_position_embeddings)
        if self.num_clusters is None:
            self.num_clusters = max(1, self.max_position_embeddings // max(1, self.segment_length))
        super().__post_init__(**kwargs)

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @property
    def pool_kind(self) -> str:
        """How queries and keys of spans are pooled: `max`, `mean` or `sum`."""
        if self.prefix_pool is not None:
            return self.prefix_pool
        return "mean" if self.span_pool == "mean" else "max"

    @property
    def has_cache(self) -> bool:
        """Whether a step of generation costs less than the whole sequence again."""
        return self.causal and self.pattern in ("fixed", "logsparse", "axial_rowmajor")

    def validate_ngrams(self) -> None:
        """Part of `validate`: words around a token hold later tokens."""
        if self.causal and self.ngram_size is not None:
            raise ValueError("ngram_size lets a token see those after it: causal must be False.")

    def validate_pattern(self) -> None:
        """Part of `validate`: sizes, and settings that a pattern does not have."""
        for name in ("num_attention_heads", "segment_length", "num_clusters"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"num_attention_heads must divide hidden_size={self.hidden_size}, got "
                f"{self.num_attention_heads}."
            )
        if self.type_vocab_size < 0:
            raise ValueError(f"type_vocab_size must not be negative, got {self.type_vocab_size}.")
        if not 0 <= self.cluster_decay <= 1:
            raise ValueError(f"cluster_decay must lie in [0, 1], got {self.cluster_decay}.")
        if self.prefix_pool and self.pattern not in (
            "axial_vertical",
            "axial_horizontal",
            "axial_mixture",
        ):
            raise ValueError(
                "prefix_pool is for the patterns axial_vertical, axial_horizontal and "
                f"axial_mixture, got pattern={self.pattern!r}."
            )
        if not self.use_summaries and self.pattern == "logsparse":
            raise ValueError(
                "use_summaries=False is not for pattern='logsparse', which is nothing but "
                "summaries."
            )

    def validate_causal(self) -> None:
        """Part of `validate`: what a causal model cannot have."""
        if not self.causal:
            return
        if not self.exclude_own_span:
            raise ValueError(
                "exclude_own_span=False is for causal=False: a summary of the own span would show "
                "a token what comes after it."
            )
        if self.pooling in ("cls", "first"):
            raise ValueError(
                f"pooling={self.pooling!r} is for causal=False: the first token of a causal model "
                "sees no other."
            )


def nearest_power(length: int) -> int:
    """The power of two that is nearest to the square root of a length.

    >>> [nearest_power(length) for length in (1, 16, 2048, 3000, 4096, 65536)]
    [1, 4, 32, 64, 64, 256]
    """
    root = length**0.5
    below = 1 << (int(root).bit_length() - 1)
    return below if root - below <= 2 * below - root else 2 * below
