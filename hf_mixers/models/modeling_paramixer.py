"""Paramixer: blocks of sparse factors with computed entries, and its models.

Paper: Yu, Khalitov, Cheng, Yang: Paramixer, CVPR 2022.
Idea: attention as a product of sparse matrices; an MLP computes the K entries of a row from the
  token's embedding, without softmax and without dot products between tokens.
Cost: O(T K D) per factor besides the MLPs; K is ceil(log2 N) + 1 for CHORD, a constant for CDIL.
Depth: all sequences pass all ceil(log2 N_max) factors of a block; one block hears everything.
Ours differs: links modulo the length of each sequence, so that any mix of lengths is exact, and
padding is absent. From the pack it needs lengths and positions.
"""

from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer

from .configuration_paramixer import ParamixerConfig
from .heads import (
    MaskedLMHead,
    SequenceClassificationHead,
    SequencePairClassificationHead,
    TokenClassificationHead,
)
from .mlp import TokenMLP
from .modeling_mixer import MixerModel, MixerPreTrainedModel
from .ops_links import link_offsets, mix_links
from .packing import Pack


class ParamixerFactor(GradientCheckpointingLayer):
    """One sparse factor: its entries from the embedding, its product with the values.

    The unit of gradient checkpointing: the MLP's activations are most of what a block keeps.
    """

    def __init__(self, config: ParamixerConfig, index: int):
        super().__init__()
        self.use_triton = config.use_triton
        self.offsets = link_offsets(config.link_protocol, config.num_links, index)
        self.links = TokenMLP(config.hidden_size, config.intermediate_size, config.num_links)

    def forward(
        self, values: Tensor, pack: Pack, embedded: Tensor, residual: Tensor | None
    ) -> Tensor:
        mixed = mix_links(values, self.links(embedded), pack, self.offsets, self.use_triton)
        return mixed if residual is None else mixed + residual


class ParamixerBlock(nn.Module):
    """Values of the tokens, mixed by one factor after the other."""

    def __init__(self, config: ParamixerConfig):
        super().__init__()
        self.residual_mode = config.residual_mode
        width = config.hidden_size
        self.values = TokenMLP(width, config.intermediate_size, width)
        self.factors = nn.ModuleList(
            ParamixerFactor(config, index) for index in range(config.num_factors)
        )
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden: Tensor, pack: Pack, embedded: Tensor) -> Tensor:
        initial = values = self.values(hidden)
        for factor in self.factors:
            residual = {"previous": values, "initial": initial, "none": None}[self.residual_mode]
            values = factor(values, pack, embedded, residual)
        return self.dropout(values)


class ParamixerPreTrainedModel(MixerPreTrainedModel):
    """Initialisation, loading and saving of every Paramixer."""

    config: ParamixerConfig
    _no_split_modules = ["ParamixerBlock"]

    def _init_linear(self, layer: nn.Linear) -> None:
        if hasattr(layer, "start_deviation"):
            super()._init_linear(layer)
            return
        # torch's own, as in the authors' code: nothing normalises the links, and with larger ones
        # the values would grow by orders of magnitude from the first factor to the last
        bound = layer.in_features**-0.5
        init.uniform_(layer.weight, -bound, bound)
        init.uniform_(layer.bias, -bound, bound)


class ParamixerModel(ParamixerPreTrainedModel, MixerModel):
    """Paramixer without a head; inputs and outputs are those of `MixerModel`.

    >>> import torch
    >>> from hf_mixers import ParamixerConfig, ParamixerModel
    >>> model = ParamixerModel(ParamixerConfig()).eval()
    >>> ids = torch.tensor([[5, 6, 7, 8], [6, 6, 0, 0]])
    >>> output = model(ids, attention_mask=ids != 0)
    >>> output.last_hidden_state.shape, output.pooler_output.shape
    (torch.Size([2, 4, 32]), torch.Size([2, 32]))
    """

    can_share_packs = True

    def __init__(self, config: ParamixerConfig):
        super().__init__(config)
        rate = config.embedding_dropout if config.value_dropout is None else config.value_dropout
        self.value_dropout = nn.Dropout(rate)

    @staticmethod
    def make_layer(config: ParamixerConfig, index: int) -> ParamixerBlock:
        return ParamixerBlock(config)

    def enter(self, content: Tensor, positions: Tensor | None) -> tuple[Tensor, Tensor]:
        """The values, and the embedding that the links of every block are computed from."""
        (embedded,) = super().enter(content, positions if self.config.links_see_position else None)
        values = embedded
        if not self.config.links_see_position:
            values = embedded + positions
        return self.value_dropout(values), embedded


class ParamixerForMaskedLM(ParamixerPreTrainedModel, MaskedLMHead):
    """Paramixer that fills in masked tokens.

    >>> import torch
    >>> from hf_mixers import ParamixerConfig, ParamixerForMaskedLM
    >>> model = ParamixerForMaskedLM(ParamixerConfig(link_protocol="cdil")).eval()
    >>> model(torch.tensor([[5, 4, 7]])).logits.shape
    torch.Size([1, 3, 20])
    """

    model_class = ParamixerModel


class ParamixerForSequenceClassification(ParamixerPreTrainedModel, SequenceClassificationHead):
    """Paramixer for one prediction per sequence.

    >>> import torch
    >>> from hf_mixers import ParamixerConfig, ParamixerForSequenceClassification
    >>> model = ParamixerForSequenceClassification(ParamixerConfig(num_labels=3)).eval()
    >>> model(torch.tensor([[5, 6, 7]]), labels=torch.tensor([2])).logits.shape
    torch.Size([1, 3])
    """

    model_class = ParamixerModel


class ParamixerForTokenClassification(ParamixerPreTrainedModel, TokenClassificationHead):
    """Paramixer for one prediction per token.

    >>> import torch
    >>> from hf_mixers import ParamixerConfig, ParamixerForTokenClassification
    >>> model = ParamixerForTokenClassification(ParamixerConfig()).eval()
    >>> model(torch.tensor([[5, 6, 7]])).logits.shape
    torch.Size([1, 3, 2])
    """

    model_class = ParamixerModel


class ParamixerForSequencePairClassification(
    ParamixerPreTrainedModel, SequencePairClassificationHead
):
    """Paramixer for one prediction per pair of sequences.

    >>> import torch
    >>> from hf_mixers import ParamixerConfig, ParamixerForSequencePairClassification
    >>> model = ParamixerForSequencePairClassification(ParamixerConfig()).eval()
    >>> model(torch.tensor([[5, 6, 7]]), input_ids_2=torch.tensor([[5, 6, 8, 8]])).logits.shape
    torch.Size([1, 2])
    """

    model_class = ParamixerModel
