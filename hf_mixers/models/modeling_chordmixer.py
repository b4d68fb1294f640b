"""ChordMixer: blocks of rotation and channel mixing, and its models.

Paper: Khalitov, Yu, Cheng, Yang: ChordMixer, ICLR 2023.
Idea: rotate tracks of channels by powers of two, mix the channels of each token with an MLP,
  repeat.
Cost: O(T D h) per block; the rotation has no parameters.
Depth: a sequence of N tokens passes ceil(log2 N) blocks (`adaptive_depth`), whatever its company.
Ours differs: any mix of lengths in a batch, masks, and the paper's order of rotating and mixing as
default. From the pack it needs lengths and positions, and its order (longest first) for the depth.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ._compat import in_function_transform
from .accelerated import find_kernels
from .configuration_chordmixer import ChordMixerConfig
from .heads import (
    MaskedLMHead,
    SequenceClassificationHead,
    SequencePairClassificationHead,
    TokenClassificationHead,
)
from .mlp import TokenMLP
from .modeling_mixer import MixerModel, MixerPreTrainedModel
from .norms import TokenLayerNorm, make_norm
from .ops_chord import chord_offsets, rotate
from .ops_chord_fused import BranchSettings, ChordBranch, add_branch, product_dtype
from .ops_chord_triton import TritonBranch
from .packing import Pack
from .stack import MixerStack, is_plain
from .stack_reversible import ReversibleStack
from .starts import start_as_branch_end


class ChordMixerBlock(nn.Module):
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
        self.rotate_first = config.block_order == "rotate_mix"
        self.norm_before = make_norm(config.pre_norm, width, groups, config.norm_eps)
        self.rotate_dropout = nn.Dropout(rotate_dropout_prob)
        self.mix = TokenMLP(width, intermediate_size, width, hidden_dropout_prob)
        start_as_branch_end(self.mix.fc2, config)
        self.norm_after = make_norm(config.post_norm, width, groups, config.norm_eps)
        self.fused, self.use_triton = config.fused, config.use_triton
        self.offsets = chord_offsets(config.num_tracks, config.rotation == "alternating")
        self.settings = BranchSettings(self.offsets, self.rotate_first, config.norm_eps)

    def forward(self, hidden: Tensor, pack: Pack, residual: Tensor | None = None) -> Tensor:
        """The branch of `hidden`, added to `hidden` itself or to another residual."""
        # quantized layers may fail without rows; gradients of 0 come from the layers
        if pack.sizes == () and not torch.is_grad_enabled():
            return hidden if residual is None else residual
        hidden = self._add_branch(hidden, hidden if residual is None else residual, pack)
        return hidden if self.norm_after is None else self.norm_after(hidden, pack)

    def _add_branch(self, source: Tensor, residual: Tensor, pack: Pack) -> Tensor:
        fuse = self.can_fuse(pack)
        if self.norm_before is not None and not (fuse and self.norm_is_fused):
            source = self.norm_before(source, pack)
        if fuse:
            residual = None if source is residual else residual
            return add_branch(source, residual, pack, self.settings, self.fused_weights())
        if self.rotate_first:
            branch = self.mix(self.rotate_dropout(rotate(source, pack, self.offsets)))
        else:
            branch = rotate(self.rotate_dropout(self.mix(source)), pack, self.offsets)
        return residual + branch

    def infer(
        self, hidden: Tensor, pack: Pack, spare: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """`forward` without gradients, which may write to `hidden` and to `spare`.

        Returns the result, and memory of at least as many rows for the next block.
        """
        branch = self.fused_branch(hidden, pack)
        if branch is None:
            return self(hidden, pack), spare
        spare = torch.empty_like(hidden) if spare is None else spare[: hidden.shape[0]]
        if branch.needs_scratch:
            return branch.add(hidden, hidden, out=hidden, scratch=spare), spare
        return branch.add(hidden, hidden, out=spare), hidden

    def fused_branch(self, hidden: Tensor, pack: Pack) -> ChordBranch | None:
        """All of the block as one operation, or `None` if it must go module by module."""
        norms_fit = self.norm_after is None and (self.norm_before is None or self.norm_is_fused)
        if not (norms_fit and self.can_fuse(pack) and is_plain(self)):
            return None
        what = self.settings, pack, self.fused_weights(), product_dtype(hidden)
        kernels = None
        if pack.share is None:
            kernels = find_kernels(self.use_triton, hidden, hidden.shape[1])
        return ChordBranch(*what) if kernels is None else TritonBranch(kernels, *what)

    def fused_weights(self) -> tuple[Tensor | None, ...]:
        """Weights of the branch in the order of `ChordBranch`."""
        fc1, fc2 = self.mix.fc1, self.mix.fc2
        norm: Any = self.norm_before
        of_norm = (norm.weight, norm.bias) if self.norm_is_fused else (None, None)
        return fc1.weight, fc1.bias, fc2.weight, fc2.bias, *of_norm

    @property
    def norm_is_fused(self) -> bool:
        return self.norm_before is not None and is_plain(self.norm_before, TokenLayerNorm)

    def can_fuse(self, pack: Pack) -> bool:
        """Whether rotation and MLP may run as one: no dropout now, no adapters or hooks inside."""
        return (
            self.fused
            and not pack.is_static
            # torch.func differentiates operation by operation
            and not in_function_transform()
            and not (self.training and (self.rotate_dropout.p or self.mix.dropout.p))
            and all(is_plain(layer, nn.Linear) for layer in (self.mix.fc1, self.mix.fc2))
            and all(is_plain(part) for part in (self.mix, self.mix.activation, self.rotate_dropout))
        )


def stack_class(config: ChordMixerConfig) -> type[MixerStack]:
    """Blocks one after another, or coupled so that they can be undone."""
    return ReversibleStack if config.reversible else MixerStack


class ChordMixerDecoder(nn.Module):
    """A second, narrower ChordMixer between encoder and masked-language-model head (appendix J)."""

    def __init__(self, config: ChordMixerConfig):
        super().__init__()
        self.project = nn.Linear(config.hidden_size, config.decoder_hidden_size)
        self.layers = stack_class(config)(
            config,
            (
                ChordMixerBlock(
                    config,
                    config.decoder_track_size,
                    config.decoder_intermediate_size,
                    config.decoder_hidden_dropout_prob,
                    config.decoder_rotate_dropout_prob,
                )
                for _ in range(config.num_hidden_layers)
            ),
        )
        is_normal = config.final_norm == "layer"
        self.final_norm = TokenLayerNorm(config.decoder_hidden_size) if is_normal else None

    def forward(self, hidden: Tensor, pack: Pack) -> Tensor:
        hidden = self.layers.run(self.project(hidden), pack)
        return hidden if self.final_norm is None else self.final_norm(hidden, pack)


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

    can_share_packs = True

    @staticmethod
    def make_layer(config: ChordMixerConfig, index: int) -> ChordMixerBlock:
        return ChordMixerBlock(
            config,
            config.track_size,
            config.intermediate_size,
            config.hidden_dropout_prob,
            config.rotate_dropout_prob,
        )

    @staticmethod
    def stack_class(config: ChordMixerConfig) -> type[MixerStack]:
        return stack_class(config)


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
