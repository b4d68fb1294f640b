"""The configuration of Paramixer."""

from typing import Any, Literal

from huggingface_hub.dataclasses import strict

from .configuration_mixer import NO_SPECIAL_TOKENS, PUBLISHED_FORM, MixerConfig, bit_length

# table 1 of the supplement: outputs, longest sequence, protocol, width, width of the MLPs,
# positions, pooling
_PUBLISHED = {
    "adding": (1, 32768, "chord", 32, 32, "absolute", "flat"),
    "temporal_order": (4, 16384, "chord", 32, 32, "absolute", "flat"),
    "listops": (10, 2000, "chord", 32, 32, "absolute", "flat"),
    "cifar10": (10, 1024, "cdil", 32, 32, "absolute", "flat"),
    "text": (2, 4096, "cdil", 32, 128, "none", "cls"),
    "pathfinder": (2, 1024, "chord", 32, 32, "absolute", "flat"),
    "long_document_16k": (4, 16384, "chord", 100, 128, "none", "cls"),
    "long_document_32k": (4, 32768, "chord", 100, 128, "none", "cls"),
    "genome": (2, 16384, "chord", 32, 128, "absolute", "flat"),
    "genome_with_n": (2, 16384, "chord", 32, 128, "absolute", "flat"),
}
# what tasks read, and what is special about them; flat models are padded by an ordinary token
_SPECIAL: dict[str, dict[str, Any]] = {
    "adding": {"input_features": 2},
    # the authors' code asks for this residual from 16,384 tokens on
    "temporal_order": {"vocab_size": 6, "residual_mode": "initial"},
    "listops": {"vocab_size": 16},
    "cifar10": {"vocab_size": 256, "num_links": 3},
    "text": {"vocab_size": 97, "pad_token_id": 95, "cls_token_id": 96, "num_hidden_layers": 3},
    "pathfinder": {"vocab_size": 256},
    "long_document_16k": {"vocab_size": 4290, "pad_token_id": 4288, "cls_token_id": 4289},
    "long_document_32k": {"vocab_size": 4290, "pad_token_id": 4288, "cls_token_id": 4289},
    # ids of GenomeTokenizer; the second task has a letter more, and two blocks were best for it
    "genome": {"vocab_size": 5, "pad_token_id": 4},
    "genome_with_n": {"vocab_size": 6, "pad_token_id": 5, "num_hidden_layers": 2},
}


def _published_settings(task: str) -> dict:
    num_labels, longest, protocol, width, hidden, positions, pooling = _PUBLISHED[task]
    return {
        **NO_SPECIAL_TOKENS,
        **PUBLISHED_FORM,
        "num_labels": num_labels,
        "problem_type": "regression" if num_labels == 1 else "single_label_classification",
        "max_position_embeddings": longest,
        "link_protocol": protocol,
        "hidden_size": width,
        "intermediate_size": hidden,
        "position_embedding_type": positions,
        "pooling": pooling,
        **_SPECIAL[task],
    }


@strict
class ParamixerConfig(MixerConfig):
    r"""Configuration of a Paramixer: a chain of sparse factors whose entries MLPs compute.

    Besides the fields that all families share:

    Args:
        hidden_size: Width of the embedding and of the values.
        num_hidden_layers: Blocks; all of them compute their links from the same embedding.
        link_protocol: Where links point from position i, circularly: `"chord"` to i and i + 2^k
            for all k, in every factor; `"cdil"` to i and as many positions before as behind it, 2^m
            apart in factor m.
        num_links: Links of a position. Default num_factors + 1 for `"chord"`, 9 for `"cdil"`, where
            it must be odd.
        num_factors: Factors of a block. Default ceil(log2 max_position_embeddings), with which
            every position of a block hears every other one.
        use_triton: On CUDA devices, use the Triton kernels (`pip install hf-mixers[triton]`). They
            are tested in Triton's interpreter, and have not been timed on a GPU.
        residual_mode: What is added to the product of a factor: the values before it, the values
            before the first factor, or nothing.
        links_see_position: Links are computed from the embedding with its learned positions, as in
            the authors' code, or without, as in the paper's figure.
        value_dropout: Dropout of the values, after that of the embedding. Default the same rate, as
            in the authors' code.
        hidden_dropout_prob: Dropout of the output of every block.
        checkpoint_segment_size: Must be `None`: gradient checkpointing goes factor by factor.

    `ParamixerConfig.preset` has table 1 of the paper's supplement: `adding`, `temporal_order`,
    `listops`, `cifar10`, `text`, `pathfinder`, `long_document_16k`, `long_document_32k`, and
    `genome` and `genome_with_n`, which read ids of `GenomeTokenizer`: those of A, G, C, T and
    padding, and for the paper's second genome task of N too.

    >>> config = ParamixerConfig(max_position_embeddings=2000)
    >>> config.num_factors, config.num_links
    (11, 12)
    """

    model_type = "paramixer"
    presets = {task: _published_settings(task) for task in _PUBLISHED}

    hidden_size: int = 32
    num_hidden_layers: int = 1
    link_protocol: Literal["chord", "cdil"] = "chord"
    num_links: int | None = None
    num_factors: int | None = None
    residual_mode: Literal["previous", "initial", "none"] = "previous"
    use_triton: bool = False
    links_see_position: bool = True
    value_dropout: float | int | None = None

    def __post_init__(self, **kwargs) -> None:
        if self.num_factors is None:
            self.num_factors = max(1, bit_length(self.max_position_embeddings))
        if self.num_links is None:
            self.num_links = self.num_factors + 1 if self.link_protocol == "chord" else 9
        super().__post_init__(**kwargs)

    def validate_links(self) -> None:
        """Part of `validate`: links that a protocol does not have, positions that nobody sees."""
        if self.num_factors < 1:
            raise ValueError(f"num_factors must be at least 1, got {self.num_factors}.")
        if self.num_links < 2:
            raise ValueError(f"num_links must be at least 2, got {self.num_links}.")
        if self.link_protocol == "cdil" and self.num_links % 2 == 0:
            raise ValueError(
                f"num_links must be odd for link_protocol='cdil', got {self.num_links}: a position "
                "is linked to itself and to as many before as behind it."
            )
        if self.checkpoint_segment_size is not None and self.checkpoint_segment_size > 0:
            raise ValueError(
                "checkpoint_segment_size has no meaning here: gradient checkpointing goes factor "
                "by factor."
            )
        if not self.links_see_position and self.position_embedding_type == "none":
            raise ValueError(
                "links_see_position=False needs position_embedding_type='absolute': there are no "
                "positions to hide."
            )
