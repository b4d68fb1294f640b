"""The configuration of Paramixer."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_mixer import MixerConfig, bit_length


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
        residual_mode: What is added to the product of a factor: the values before it, the values
            before the first factor, or nothing.
        links_see_position: Links are computed from the embedding with its learned positions, as in
            the authors' code, or without, as in the paper's figure.
        value_dropout: Dropout of the values, after that of the embedding. Default the same rate, as
            in the authors' code.
        hidden_dropout_prob: Dropout of the output of every block.

    >>> config = ParamixerConfig(max_position_embeddings=2000)
    >>> config.num_factors, config.num_links
    (11, 12)
    """

    model_type = "paramixer"

    hidden_size: int = 32
    num_hidden_layers: int = 1
    link_protocol: Literal["chord", "cdil"] = "chord"
    num_links: int | None = None
    num_factors: int | None = None
    residual_mode: Literal["previous", "initial", "none"] = "previous"
    links_see_position: bool = True
    value_dropout: float | int | None = None

    def __post_init__(self, **kwargs):
        if self.num_factors is None:
            self.num_factors = max(1, bit_length(self.max_position_embeddings))
        if self.num_links is None:
            self.num_links = self.num_factors + 1 if self.link_protocol == "chord" else 9
        super().__post_init__(**kwargs)

    def validate_links(self):
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
        if not self.links_see_position and self.position_embedding_type == "none":
            raise ValueError(
                "links_see_position=False needs position_embedding_type='absolute': there are no "
                "positions to hide."
            )
