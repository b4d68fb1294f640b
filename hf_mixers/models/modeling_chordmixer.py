"""ChordMixer: blocks of rotation and channel mixing, and its models.

Paper: Khalitov, Yu, Cheng, Yang: ChordMixer, ICLR 2023.
Idea: rotate tracks of channels by powers of two, mix the channels of each token with an MLP,
  repeat.
Cost: O(T D h) per block; the rotation has no parameters.
Depth: a sequence of N tokens passes ceil(log2 N) blocks (`adaptive_depth`), whatever its company.
Ours differs: any mix of lengths in a batch, masks, and the paper's order of rotating and mixing as
default. From the pack it needs lengths and positions, and its order (longest first) for the depth.
"""

from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from .configuration_chordmixer import ChordMixerConfig
from .heads import (
    MaskedLMHead,
    SequenceClassificationHead,
    SequencePairClassificationHead,
    TokenClassificationHead,
)
from .mlp import TokenMLP
from .modeling_mixer import MixerModel, MixerPreTrainedModel, run_layers
from .norms import make_norm
from .ops_chord import rotate
from .packing import Pack


class ChordMixerBlock(GradientCheckpointingLayer):
    """Rotate and mix around a residual connection."""

    def __init__(
        self,
        config: ChordMixerConfig,
        track_size: int,
        intermediate_size: int,
        hidden_dropout_prob: float,
        rotate_dropout_prob: float,
    ):
        super().__init__()
        width = config.num_tracks * track_size
        groups = config.norm_groups or track_size
        self.track_size = track_size
        self.block_order = config.block_order
        self.norm_before = make_norm(config.pre_norm, width, groups, config.norm_eps)
        self.rotate_dropout = nn.Dropout(rotate_dropout_prob)
        self.mix = TokenMLP(width, intermediate_size, width, hidden_dropout_prob)
        self.norm_after = make_norm(config.post_norm, width, groups, config.norm_eps)

    def forward(self, hidden: Tensor, pack: Pack) -> Tensor:
        branch = hidden if self.norm_before is None else self.norm_before(hidden, pack)
        if self.block_order == "rotate_mix":
            branch = self.mix(self.rotate_dropout(rotate(branch, pack, self.track_size)))
        else:
            branch = rotate(self.rotate_dropout(self.mix(branch)), pack, self.track_size)
        hidden = hidden + branch
        return hidden if self.norm_after is None else self.norm_after(hidden, pack)


class ChordMixerDecoder(nn.Module):
    """A second, narrower ChordMixer between encoder and masked-language-model head (appendix J)."""

    def __init__(self, config: ChordMixerConfig):
        super().__init__()
        self.config = config
        self.project = nn.Linear(config.hidden_size, config.decoder_hidden_size)
        self.layers = nn.ModuleList(
            ChordMixerBlock(
                config,
                config.decoder_track_size,
                config.decoder_intermediate_size,
                config.decoder_hidden_dropout_prob,
                config.decoder_rotate_dropout_prob,
            )
            for _ in range(config.num_hidden_layers)
        )

    def forward(self, hidden: Tensor, pack: Pack) -> Tensor:
        return run_layers(self.layers, self.project(hidden), pack, self.config.skipped_length)


class ChordMixerPreTrainedModel(MixerPreTrainedModel):
    """Loading and saving of every ChordMixer."""

    config: ChordMixerConfig
    _no_split_modules = ["ChordMixerBlock"]


class ChordMixerModel(ChordMixerPreTrainedModel, MixerModel):
    """ChordMixer without a head; inputs and outputs are those of `MixerModel`.

    >>> import torch
    >>> from hf_mixers import ChordMixerConfig, ChordMixerModel
    >>> model = ChordMixerModel(ChordMixerConfig(track_size=4)).eval()
    >>> ids = torch.tensor([[5, 6, 7, 8], [6, 6, 0, 0]])
    >>> output = model(ids, attention_mask=ids != 0)
    >>> output.last_hidden_state.shape, output.pooler_output.shape
    (torch.Size([2, 4, 52]), torch.Size([2, 52]))
    """

    @staticmethod
    def make_layer(config: ChordMixerConfig, index: int) -> ChordMixerBlock:
        return ChordMixerBlock(
            config,
            config.track_size,
            config.intermediate_size,
            config.hidden_dropout_prob,
            config.rotate_dropout_prob,
        )


class ChordMixerForMaskedLM(ChordMixerPreTrainedModel, MaskedLMHead):
    """ChordMixer that fills in masked tokens, with a linear or a ChordMixer decoder.

    >>> import torch
    >>> from hf_mixers import ChordMixerConfig, ChordMixerForMaskedLM
    >>> config = ChordMixerConfig(track_size=4, decoder_type="chordmixer")
    >>> model = ChordMixerForMaskedLM(config).eval()
    >>> model(torch.tensor([[5, 4, 7]])).logits.shape
    torch.Size([1, 3, 20])
    """

    model_class = ChordMixerModel

    def make_decoder(self, config: ChordMixerConfig) -> tuple[nn.Module | None, int]:
        if config.decoder_type == "linear":
            return super().make_decoder(config)
        return ChordMixerDecoder(config), config.decoder_hidden_size


class ChordMixerForSequenceClassification(ChordMixerPreTrainedModel, SequenceClassificationHead):
    """ChordMixer for one prediction per sequence.

    >>> import torch
    >>> from hf_mixers import ChordMixerConfig, ChordMixerForSequenceClassification
    >>> config = ChordMixerConfig(track_size=4, num_labels=3)
    >>> model = ChordMixerForSequenceClassification(config).eval()
    >>> model(torch.tensor([[5, 6, 7]]), labels=torch.tensor([2])).logits.shape
    torch.Size([1, 3])
    """

    model_class = ChordMixerModel


class ChordMixerForTokenClassification(ChordMixerPreTrainedModel, TokenClassificationHead):
    """ChordMixer for one prediction per token.

    >>> import torch
    >>> from hf_mixers import ChordMixerConfig, ChordMixerForTokenClassification
    >>> model = ChordMixerForTokenClassification(ChordMixerConfig(track_size=4)).eval()
    >>> model(torch.tensor([[5, 6, 7]])).logits.shape
    torch.Size([1, 3, 2])
    """

    model_class = ChordMixerModel


class ChordMixerForSequencePairClassification(
    ChordMixerPreTrainedModel, SequencePairClassificationHead
):
    """ChordMixer for one prediction per pair of sequences.

    >>> import torch
    >>> from hf_mixers import ChordMixerConfig, ChordMixerForSequencePairClassification
    >>> model = ChordMixerForSequencePairClassification(ChordMixerConfig(track_size=4)).eval()
    >>> model(torch.tensor([[5, 6, 7]]), input_ids_2=torch.tensor([[5, 6, 8, 8]])).logits.shape
    torch.Size([1, 2])
    """

    model_class = ChordMixerModel
