"""Any model of transformers as a peer: one trunk by its model type, the heads of the arena on top.

A peer reads what the mixers read in padded batches (`input_ids` or `input_values`, with
`attention_mask`, and a second sequence with suffix `_2`) and answers in the same shapes. The heads
are those of the Long Range Arena: the mean over tokens, one hidden layer with ReLU, and of a pair
the features `[u, v, u * v, u - v]`.
"""

import inspect
from dataclasses import dataclass
from typing import Any, Literal

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import (
    BaseModelOutput,
    MaskedLMOutput,
    SequenceClassifierOutput,
)

from ..models.losses import IGNORED, sequence_loss

# these have a causal language model only, and see both sides all the same
_SEE_BOTH_SIDES = ("xlnet", "bert-generation")


@strict
class PeerConfig(PreTrainedConfig):
    """Configuration of a peer.

    Args:
        trunk: Config of the trunk as a dictionary, with its `model_type`.
        input_features: Width of continuous input; None: the model reads token ids.
        head_size: Width of the hidden layer of the classification heads; None: that of the trunk.
        pooling: How token outputs become one vector per sequence: their mean, the first or last.
        fixed_length: Tokens to which every batch is padded; None: as it comes.
        num_tasks: Sequence pairs only: `num_labels` outputs per task, and `task_ids` choose.
    """

    model_type = "peer"

    trunk: dict | None = None
    vocab_size: int = 20
    input_features: int | None = None
    max_position_embeddings: int = 4096
    head_size: int | None = None
    pooling: Literal["mean", "first", "last"] = "mean"
    fixed_length: int | None = None
    num_tasks: int | None = None
    pad_token_id: int | None = 0

    def make_trunk(self) -> PreTrainedConfig:
        """The config of the trunk."""
        if not self.trunk:
            raise ValueError("A peer needs the config of its trunk, got none.")
        fields = {name: value for name, value in self.trunk.items() if name != "model_type"}
        return AutoConfig.for_model(self.trunk["model_type"], **fields)

    @property
    def trunk_type(self) -> str:
        """The model type of the trunk."""
        return (self.trunk or {}).get("model_type", "")

    @property
    def is_causal(self) -> bool:
        """Whether tokens depend on earlier ones only: models that predict the next token, and
        not hidden ones."""
        if not self.trunk or self.trunk_type in _SEE_BOTH_SIDES:
            return False
        kind = type(self.make_trunk())
        return kind in MODEL_FOR_CAUSAL_LM_MAPPING and kind not in MODEL_FOR_MASKED_LM_MAPPING

    @property
    def hidden_size(self) -> int:
        return self.make_trunk().hidden_size

    @property
    def main_input(self) -> str:
        """Name of the argument that the model reads."""
        return "input_ids" if self.input_features is None else "input_values"

    def describe_input(self) -> str:
        """What the model reads, in words, as in "built for ..."."""
        longest = f"sequences of up to {self.max_position_embeddings:,}"
        if self.input_features is not None:
            return f"{longest} steps of {self.input_features} numbers"
        return f"{longest} tokens"

    def describe_answers(self) -> str:
        """What holds for the answers of every model, in a sentence."""
        return f"Its trunk is a `{self.trunk_type}` of transformers, its head that of the arena."

    def describe_limits(self) -> list[str]:
        """What users must know about the lengths that the model reads, in sentences."""
        return [f"Built for up to {self.max_position_embeddings:,} tokens, in padded batches."]

    def example_inputs(self) -> dict[str, str]:
        """Code of made-up inputs for two examples, by argument of the model."""
        if self.input_features is not None:
            return {"input_values": f"torch.randn(2, 10, {self.input_features})"}
        return {"input_ids": f"torch.randint({self.vocab_size}, (2, 10))"}


class PeerPreTrainedModel(PreTrainedModel):
    """Base of trunk and heads."""

    config_class = PeerConfig
    base_model_prefix = "model"
    # losses are means over the rows at hand
    accepts_loss_kwargs = False
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_attention_backend = True

    def _init_weights(self, module: nn.Module):
        """Trunks initialise themselves; other linear layers are Xavier-uniform."""
        if isinstance(module, nn.Linear) and not getattr(module, "_is_hf_initialized", False):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


class PeerModel(PeerPreTrainedModel):
    """The trunk: padded sequences in, `last_hidden_state` `(B, L, D)` out."""

    def __init__(self, config: PeerConfig):
        super().__init__(config)
        trunk = config.make_trunk()
        self.trunk = AutoModel.from_config(trunk)
        self.embed_values = None
        if config.input_features is not None:
            self.embed_values = nn.Linear(config.input_features, trunk.hidden_size)
        self.takes_mask = "attention_mask" in inspect.signature(self.trunk.forward).parameters
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.trunk.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module):
        self.trunk.set_input_embeddings(value)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        input_values: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        if input_values is not None:
            inputs_embeds = self.embed_values(input_values)
        content = input_ids if inputs_embeds is None else inputs_embeds
        if content is None:
            raise ValueError("A peer takes input_ids, input_values or inputs_embeds, got none.")
        length = content.shape[1]
        if attention_mask is None:
            attention_mask = torch.ones(content.shape[:2], dtype=torch.long, device=content.device)
        content, attention_mask = self._pad(content, attention_mask)
        options: dict[str, Any] = {"return_dict": True}
        if self.takes_mask:
            options["attention_mask"] = self._shape_mask(attention_mask, content)
        if output_attentions:
            options["output_attentions"] = True
        if output_hidden_states:
            options["output_hidden_states"] = True
        name = "input_ids" if inputs_embeds is None else "inputs_embeds"
        output = self.trunk(**{name: content}, **options)
        return BaseModelOutput(
            last_hidden_state=output.last_hidden_state[:, :length],
            hidden_states=getattr(output, "hidden_states", None),
            attentions=getattr(output, "attentions", None),
        )

    def _shape_mask(self, mask: Tensor, content: Tensor) -> Tensor:
        """The mask as the trunk takes it."""
        if self.config.trunk_type != "nystromformer":
            return mask
        # its scores are (B, H, landmarks, L), to which a mask (B, 1, L, L) does not fit
        dtype = content.dtype if content.is_floating_point() else self.dtype
        return (1 - mask[:, None, None].to(dtype)) * torch.finfo(dtype).min

    def _pad(self, content: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """A batch of the width that the trunk is made for."""
        wanted = self.config.fixed_length
        if wanted is None or content.shape[1] == wanted:
            return content, mask
        missing = wanted - content.shape[1]
        if missing < 0:
            raise ValueError(f"This peer reads {wanted} tokens, got {content.shape[1]}.")
        shape = (len(content), missing, *content.shape[2:])
        value = self.config.pad_token_id or 0 if content.dim() == 2 else 0
        content = torch.cat([content, content.new_full(shape, value)], 1)
        return content, torch.cat([mask, mask.new_zeros(len(mask), missing)], 1)


class _PeerHead(PeerPreTrainedModel):
    """A trunk called `model` and something on top."""

    def __init__(self, config: PeerConfig):
        super().__init__(config)
        self.model = PeerModel(config)
        self.add_head(config)
        self.post_init()

    def add_head(self, config: PeerConfig) -> None:
        raise NotImplementedError

    def get_input_embeddings(self) -> nn.Module:
        return self.model.get_input_embeddings()

    def pool(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """One vector `(B, D)` per sequence."""
        if mask is None:
            mask = torch.ones(hidden.shape[:2], device=hidden.device)
        if self.config.pooling == "first":
            return hidden[:, 0]
        if self.config.pooling == "last":
            # the last token that is there, on whichever side padding is
            places = torch.arange(mask.shape[1], device=mask.device)
            rows = torch.arange(len(hidden), device=hidden.device)
            return hidden[rows, (mask * places).argmax(1)]
        weights = mask.to(hidden.dtype).unsqueeze(-1)
        return (hidden * weights).sum(1) / weights.sum(1)


class PeerForSequenceClassification(_PeerHead):
    """Classes or numbers of a sequence."""

    def add_head(self, config: PeerConfig) -> None:
        width = config.head_size or config.hidden_size
        self.dense = nn.Linear(config.hidden_size, width)
        self.classifier = nn.Linear(width, config.num_labels)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        input_values: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs,
    ) -> SequenceClassifierOutput:
        output = self.model(input_ids, attention_mask, input_values, inputs_embeds, **kwargs)
        pooled = self.pool(output.last_hidden_state, attention_mask)
        logits = self.classifier(torch.relu(self.dense(pooled)))
        loss = _loss(self.config, logits, labels)
        return SequenceClassifierOutput(
            loss=loss,
            logits=logits,
            hidden_states=output.hidden_states,
            attentions=output.attentions,
        )


class PeerForSequencePairClassification(_PeerHead):
    """Classes or numbers of two sequences, which the trunk reads one after the other."""

    def add_head(self, config: PeerConfig) -> None:
        width = config.head_size or config.hidden_size
        self.dense = nn.Linear(4 * config.hidden_size, width)
        self.classifier = nn.Linear(width, config.num_labels * (config.num_tasks or 1))

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        input_ids_2: Tensor | None = None,
        attention_mask_2: Tensor | None = None,
        input_values: Tensor | None = None,
        input_values_2: Tensor | None = None,
        task_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs,
    ) -> SequenceClassifierOutput:
        first = self.model(input_ids, attention_mask, input_values, **kwargs)
        second = self.model(input_ids_2, attention_mask_2, input_values_2, **kwargs)
        u = self.pool(first.last_hidden_state, attention_mask)
        v = self.pool(second.last_hidden_state, attention_mask_2)
        features = torch.relu(self.dense(torch.cat([u, v, u * v, u - v], 1)))
        logits = self.classifier(features)
        if self.config.num_tasks is not None:
            if task_ids is None:
                raise ValueError(f"A model with num_tasks={self.config.num_tasks} needs task_ids.")
            logits = logits.unflatten(1, (self.config.num_tasks, self.config.num_labels))
            logits = logits[torch.arange(len(logits), device=logits.device), task_ids]
        return SequenceClassifierOutput(loss=_loss(self.config, logits, labels), logits=logits)


class PeerForMaskedLM(_PeerHead):
    """Predicts tokens at labelled positions; causal trunks predict the label of the next one."""

    def add_head(self, config: PeerConfig) -> None:
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs,
    ) -> MaskedLMOutput:
        output = self.model(input_ids, attention_mask, None, inputs_embeds, **kwargs)
        logits = self.lm_head(output.last_hidden_state)
        if labels is None:
            return MaskedLMOutput(logits=logits)
        found = logits
        if self.config.is_causal:
            found, labels = logits[:, :-1], labels[:, 1:]
        loss = nn.functional.cross_entropy(
            found.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED
        )
        return MaskedLMOutput(loss=loss, logits=logits)


def _loss(config: PeerConfig, logits: Tensor, labels: Tensor | None) -> Tensor | None:
    if labels is None:
        return None
    return sequence_loss(logits, labels, problem_type=config.problem_type)


@dataclass(frozen=True)
class PeerSizes:
    """Sizes of a peer in the words that most configs share."""

    hidden_size: int = 64
    num_hidden_layers: int = 2
    num_attention_heads: int = 2
    intermediate_size: int = 128


AutoConfig.register(PeerConfig.model_type, PeerConfig, exist_ok=True)
AutoModel.register(PeerConfig, PeerModel, exist_ok=True)
AutoModelForSequenceClassification.register(
    PeerConfig, PeerForSequenceClassification, exist_ok=True
)
AutoModelForMaskedLM.register(PeerConfig, PeerForMaskedLM, exist_ok=True)
