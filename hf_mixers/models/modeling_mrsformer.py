"""MrsFormer: blocks of attention whose heads see the sequence at different scales, and its models.

Paper: MrsFormer: Transformer with Multiresolution-head Attention, ICLR 2023 submission, supplement.
Idea: a head of scale s attends between means of s neighbouring tokens, and every token of a group
  gets what the group hears; the heads of a layer have scales 1, 1, 2, 2, 4, 4, 8, 8, say.
Cost: sum over heads of (N / s)^2 per sequence, or of N / s with linear attention.
Depth: all sequences pass all blocks.
Ours differs: there is no public code, and what the supplement leaves open is a setting here; any
mix of lengths is exact. From the pack it needs lengths and positions, and its order.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_outputs import ImageClassifierOutput, SequenceClassifierOutput
from transformers.utils import can_return_tuple

from ._compat import assert_at_run_time, attention_name
from .attention_heads import FmmHeads, LinformerHeads, PerformerHeads
from .attention_multiresolution import make_attention
from .border import Border
from .configuration_mrsformer import MrsFormerConfig
from .embed_images import PatchEmbedding
from .embed_tables import ColumnEmbedding
from .heads import (
    MaskedLMHead,
    SequenceClassificationHead,
    SequencePairClassificationHead,
    TokenClassificationHead,
)
from .inputs import SequenceBatch, check_tensor
from .modeling_mixer import MixerModel, MixerPreTrainedModel
from .norms import make_norm
from .packing import Pack
from .starts import start_as_branch_end


class MrsFormerMLP(nn.Module):
    """Two linear layers with a GELU between, or with a ReLU that gates a third (`reglu`)."""

    def __init__(self, config: MrsFormerConfig):
        super().__init__()
        self.is_gated = config.hidden_act == "reglu"
        width, hidden = config.hidden_size, config.intermediate_size
        self.fc1 = nn.Linear(width, hidden)
        if self.is_gated:
            self.gate = nn.Linear(width, hidden)
        self.activation = nn.ReLU() if self.is_gated else nn.GELU()
        rate = config.intermediate_dropout_prob
        self.dropout = nn.Dropout(config.hidden_dropout_prob if rate is None else rate)
        self.fc2 = start_as_branch_end(nn.Linear(hidden, width), config)

    def forward(self, hidden: Tensor) -> Tensor:
        if self.is_gated:
            inner = self.fc1(hidden) * self.activation(self.gate(hidden))
        else:
            inner = self.activation(self.fc1(hidden))
        return self.fc2(self.dropout(inner))


class MrsFormerBlock(nn.Module):
    """Attention and MLP, each around a residual connection."""

    def __init__(self, config: MrsFormerConfig, index: int):
        super().__init__()
        self.is_pre_norm = config.norm_position == "pre"
        self.memory_size = config.memory_size

        def norm(is_there: bool = True) -> nn.Module | None:
            kind = config.norm_type if is_there else "none"
            return make_norm(kind, config.hidden_size, 1, config.norm_eps)

        self.attention_norm = norm(not (config.skip_first_norm and index == 0))
        self.attention = make_attention(config, index)
        self.mlp_norm = norm()
        self.mlp = MrsFormerMLP(config)
        is_last = index == config.num_hidden_layers - 1
        self.last_norm = norm(self.is_pre_norm and is_last)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden: Tensor, pack: Pack) -> Tensor:
        if self.is_pre_norm:
            normal = _normalise(self.attention_norm, hidden, pack)
            hidden = hidden + self.dropout(self.attention(normal, pack))
            hidden = hidden + self._mlp(self.mlp_norm(hidden, pack), pack)
            return _normalise(self.last_norm, hidden, pack)
        hidden = self.attention_norm(hidden + self.dropout(self.attention(hidden, pack)), pack)
        return self.mlp_norm(hidden + self._mlp(hidden, pack), pack)

    def _mlp(self, hidden: Tensor, pack: Pack) -> Tensor:
        out = self.dropout(self.mlp(hidden))
        if self.memory_size == 0:
            return out
        # what Luna remembers does not pass the MLP
        return out.masked_fill((pack.position < self.memory_size)[:, None], 0)


def _normalise(norm: nn.Module | None, hidden: Tensor, pack: Pack) -> Tensor:
    return hidden if norm is None else norm(hidden, pack)


class MrsFormerPreTrainedModel(MixerPreTrainedModel):
    """Initialisation, loading and saving of every MrsFormer."""

    config: MrsFormerConfig
    _no_split_modules = ["MrsFormerBlock"]
    _supports_sdpa = True

    @property
    def dummy_inputs(self) -> dict[str, Tensor]:
        config = self.config
        if config.image_size is not None:
            shape = (2, config.num_channels, config.image_size, config.image_size)
            return {"pixel_values": torch.zeros(shape, device=self.device, dtype=self.dtype)}
        if not config.num_columns:
            return super().dummy_inputs
        inputs = {}
        if config.num_numeric_features:
            columns = (2, config.num_numeric_features)
            inputs["numeric_values"] = torch.zeros(columns, device=self.device, dtype=self.dtype)
        if config.category_sizes:
            columns = (2, len(config.category_sizes))
            inputs["category_ids"] = torch.zeros(columns, device=self.device, dtype=torch.long)
        return inputs

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if isinstance(module, (FmmHeads, LinformerHeads, PerformerHeads, ColumnEmbedding)):
            module.reset_parameters()
        elif isinstance(module, nn.Conv2d):
            # of patches, for which it is a linear layer: Xavier-uniform, as all others
            bound = (6 / (module.weight[0].numel() + module.out_channels)) ** 0.5
            init.uniform_(module.weight, -bound, bound)


class MrsFormerModel(MrsFormerPreTrainedModel, MixerModel):
    """MrsFormer without a head; inputs and outputs are those of `MixerModel`, and

    Args:
        pixel_values: `(B, C, H, W)` images when `config.image_size` is set.
        numeric_values: `(B, n)` columns of numbers, and
        category_ids: `(B, m)` columns of categories, when the config names columns of tables.
        output_attentions: Also return `attentions`, for softmax attention of eager heads.
            `attentions[block][g]` is `(B, h, N, M)`: of the `h` heads of `config.head_groups()[g]`
            the attention of N groups of tokens to M groups, at the scales of their queries and
            keys. In front are the rows that are in no group (a CLS token, prefix tokens). N and M
            are those of the longest sequence; the rest of shorter ones is 0. With
            `head_mode="exact"` it is the attention of tokens, before any mean.

    >>> import torch
    >>> from hf_mixers import MrsFormerConfig, MrsFormerModel
    >>> model = MrsFormerModel(MrsFormerConfig(head_scales=[1, 2])).eval()
    >>> ids = torch.tensor([[5, 6, 7, 8], [6, 6, 0, 0]])
    >>> output = model(ids, attention_mask=ids != 0)
    >>> output.last_hidden_state.shape, output.pooler_output.shape
    (torch.Size([2, 4, 64]), torch.Size([2, 64]))
    """

    own_arguments = ("pixel_values", "numeric_values", "category_ids")
    # every token hears all others, however many there are
    beyond_built_length = "the model may never have learned from such lengths"

    def __init__(self, config: MrsFormerConfig):
        super().__init__(config)
        if config.has_shared_heads:
            self.shared_heads = LinformerHeads(config)
            for layer in self.layers:
                layer.attention.share_heads(self.shared_heads)
            self.post_init()

    @staticmethod
    def make_layer(config: MrsFormerConfig, index: int) -> MrsFormerBlock:
        return MrsFormerBlock(config, index)

    @staticmethod
    def make_embedding(config: MrsFormerConfig) -> nn.Module:
        if config.image_size is not None:
            return PatchEmbedding(config)
        return ColumnEmbedding(config) if config.num_columns else MixerModel.make_embedding(config)

    def read(
        self, batches: tuple[SequenceBatch, ...], own: dict, border: Border
    ) -> tuple[SequenceBatch, ...]:
        """Images and tables as embeddings."""
        names = self.own_arguments
        for name, value in own.items():
            check_tensor(name, value)
        (batch, *others), wanted = batches, self.config.main_input
        if not own:
            if wanted in names and all(part is None for part in batch[:3]):
                raise ValueError(f"This model reads {wanted}, got none.")
            return batches
        if others or any(part is not None for part in batch):
            raise ValueError(f"{' and '.join(own)} must be the only input.")
        reads = names[:1] if wanted == names[0] else names[1:] if wanted in names else ()
        unread = [name for name in own if name not in reads]
        if unread:
            raise ValueError(f"This model reads {wanted}, got {unread[0]}.")
        embedding: Any = self.get_input_embeddings()
        parts = [own.get(name) for name in reads]
        if isinstance(embedding, ColumnEmbedding):
            numbers, categories = parts
            embedding.check(numbers, categories, border)
            border.settle()
        embedded = embedding(*parts)
        return (SequenceBatch(inputs_embeds=embedded),)

    def check_attentions(self) -> None:
        kind, name = self.config.attention_type, attention_name(self.config)
        if kind != "softmax" or name != "eager":
            raise ValueError(
                "output_attentions=True needs attention_type='softmax' and"
                f" attn_implementation='eager', got {kind!r} and {name!r}."
            )

    def read_attentions(self, records: dict) -> list[list[Tensor]]:
        groups = range(len(self.config.head_groups()))
        return [[records[layer, group] for group in groups] for layer in range(len(self.layers))]

    def enter(self, content: Tensor, positions: Tensor | None) -> tuple[Tensor, ...]:
        if self.config.scale_embedding:
            content = content * self.config.hidden_size**0.5
        return super().enter(content, positions)

    def add_prefix(self, config: MrsFormerConfig) -> None:
        super().add_prefix(config)
        if config.memory_size:
            self.embed_memory = nn.Embedding(config.memory_size, config.hidden_size)

    def prefix(self, device: torch.device) -> Tensor | None:
        cls = super().prefix(device)
        if not self.config.memory_size:
            return cls
        memory = self.embed_memory(torch.arange(self.config.memory_size, device=device))
        return memory if cls is None else torch.cat([memory, cls])

    def _check_lengths(self, pack: Pack) -> None:
        limit = self.config.max_position_embeddings
        if self.config.attention_type == "linformer":
            why = (
                f"but attention_type='linformer' has weights for {limit} "
                "(config.max_position_embeddings)."
            )
            if not pack.is_static and pack.sizes[0] > limit:
                raise ValueError(f"The longest sequence has {pack.sizes[0]} tokens, {why}")
            if pack.is_compiled:
                # the compiled program looks; one that is exported has no weights to find
                fits = (pack.lengths <= limit).all()
                assert_at_run_time(fits, f"A sequence is longer, {why}")
        super()._check_lengths(pack)


class MrsFormerForMaskedLM(MrsFormerPreTrainedModel, MaskedLMHead):
    """MrsFormer that fills in masked tokens.

    >>> import torch
    >>> from hf_mixers import MrsFormerConfig, MrsFormerForMaskedLM
    >>> model = MrsFormerForMaskedLM(MrsFormerConfig(attention_type="linear")).eval()
    >>> model(torch.tensor([[5, 4, 7]])).logits.shape
    torch.Size([1, 3, 20])
    """

    model_class = MrsFormerModel


class MrsFormerForSequenceClassification(MrsFormerPreTrainedModel, SequenceClassificationHead):
    """MrsFormer for one prediction per sequence, or per row of a table.

    >>> import torch
    >>> from hf_mixers import MrsFormerConfig, MrsFormerForSequenceClassification
    >>> config = MrsFormerConfig(num_numeric_features=2, category_sizes=[5], pooling="cls")
    >>> model = MrsFormerForSequenceClassification(config).eval()
    >>> model(numeric_values=torch.zeros(1, 2), category_ids=torch.tensor([[4]])).logits.shape
    torch.Size([1, 2])
    """

    model_class = MrsFormerModel

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        input_values: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        cu_seq_lens_q: Tensor | None = None,
        max_length_q: int | None = None,
        numeric_values: Tensor | None = None,
        category_ids: Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        return super().forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            input_values=input_values,
            inputs_embeds=inputs_embeds,
            labels=labels,
            cu_seq_lens_q=cu_seq_lens_q,
            max_length_q=max_length_q,
            numeric_values=numeric_values,
            category_ids=category_ids,
            **kwargs,
        )


class MrsFormerForTokenClassification(MrsFormerPreTrainedModel, TokenClassificationHead):
    """MrsFormer for one prediction per token.

    >>> import torch
    >>> from hf_mixers import MrsFormerConfig, MrsFormerForTokenClassification
    >>> model = MrsFormerForTokenClassification(MrsFormerConfig()).eval()
    >>> model(torch.tensor([[5, 6, 7]])).logits.shape
    torch.Size([1, 3, 2])
    """

    model_class = MrsFormerModel


class MrsFormerForSequencePairClassification(
    MrsFormerPreTrainedModel, SequencePairClassificationHead
):
    """MrsFormer for one prediction per pair of sequences.

    >>> import torch
    >>> from hf_mixers import MrsFormerConfig, MrsFormerForSequencePairClassification
    >>> model = MrsFormerForSequencePairClassification(MrsFormerConfig()).eval()
    >>> model(torch.tensor([[5, 6, 7]]), input_ids_2=torch.tensor([[5, 6, 8, 8]])).logits.shape
    torch.Size([1, 2])
    """

    model_class = MrsFormerModel


class MrsFormerForImageClassification(MrsFormerPreTrainedModel, SequenceClassificationHead):
    """MrsFormer for one prediction per image.

    >>> import torch
    >>> from hf_mixers import MrsFormerConfig, MrsFormerForImageClassification
    >>> config = MrsFormerConfig(image_size=32, patch_size=8, pooling="cls", num_labels=3)
    >>> model = MrsFormerForImageClassification(config).eval()
    >>> model(torch.zeros(1, 3, 32, 32)).logits.shape
    torch.Size([1, 3])
    """

    model_class = MrsFormerModel
    main_input_name = "pixel_values"
    input_modalities = ("image",)  # type: ignore[assignment]  # transformers has tuples too

    def __init__(self, config: MrsFormerConfig):
        if config.image_size is None:
            raise ValueError("Image classification needs images: set config.image_size.")
        super().__init__(config)

    @can_return_tuple
    def forward(
        self,
        pixel_values: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | Sequence[int] | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> ImageClassifierOutput:
        output = super().forward(
            pixel_values=pixel_values,
            labels=labels,
            output_hidden_states=output_hidden_states,
            num_items_in_batch=num_items_in_batch,
            return_dict=True,
            **kwargs,
        )
        return ImageClassifierOutput(**output)
