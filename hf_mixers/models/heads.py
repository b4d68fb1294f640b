"""The heads of every family: masked tokens, tokens, sequences and pairs of sequences.

A family's class names its trunk (`model_class`) and inherits the rest. Heads read the pack, not the
padded layout, so they too do no work on padding.

Every forward spells out its arguments, because the Trainer reads from them which columns to keep.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import (
    MaskedLMOutput,
    ModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple

from .border import make_border
from .configuration_mixer import MixerConfig
from .inputs import SequenceBatch, ask_ids, check_tensor
from .labels import (
    ask_about_sequences,
    ask_about_tokens,
    count_items,
    count_labels,
    pack_labels,
)
from .losses import IGNORED, sequence_loss, token_loss
from .mlp import input_dtype
from .modeling_mixer import Encoded, MixerModel, MixerPreTrainedModel
from .packing import find_true
from .starts import start_as_output


class MixerHead(MixerPreTrainedModel):
    """A trunk called `model` and something on top.

    A head takes the inputs of `MixerModel` and:

    Args:
        labels: What to predict; with them the output has a `loss`.
        num_items_in_batch: What the sum of losses is divided by, if not by the labels at hand; the
            `Trainer` gives it.
    """

    model_class: type[MixerModel]

    def __init__(self, config: MixerConfig):
        super().__init__(config)
        self.model = self.model_class(config)
        self.add_head(config)
        self.post_init()

    def add_head(self, config: MixerConfig) -> None:
        """Create the modules on top of the trunk."""
        raise NotImplementedError


class MaskedLMHead(MixerHead):
    """Predicts the token at each position.

    Takes the inputs of the trunk and `labels` in their layout, -100 where there is nothing to
    predict. While training, logits are computed at labelled positions only, `(number of labels, V)`
    in the order of `labels[labels != -100]`; otherwise everywhere, in the layout of the input (as
    in training on an accelerator with `config.check_inputs=False`: labels are not counted there).
    """

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}
    loss_function = staticmethod(token_loss)

    def add_head(self, config: MixerConfig) -> None:
        self.decoder, width = self.make_decoder(config)
        self.lm_head = start_as_output(nn.Linear(width, config.vocab_size), config)

    def make_decoder(self, config: MixerConfig) -> tuple[nn.Module | None, int]:
        """What stands between trunk and `lm_head`, called with `(hidden, pack)`; and its width."""
        return None, config.hidden_size

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.lm_head = new_embeddings

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        input_values: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        cu_seq_lens_q: Tensor | None = None,
        max_length_q: int | None = None,
        output_hidden_states: bool | Sequence[int] | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        batch = SequenceBatch(
            input_ids, input_values, inputs_embeds, attention_mask, cu_seq_lens_q, max_length_q
        )
        border = make_border(self.config.check_inputs)
        checked = ask_about_tokens(self, border, batch, labels, self.config.vocab_size)
        count = count_labels(border, batch, labels) if self.training else None
        encoded = self.model(
            batches=(batch,), output_hidden_states=output_hidden_states, border=border, **kwargs
        )
        loss, logits, sparse = self.guess(encoded, labels, num_items_in_batch, count, **checked)
        return MaskedLMOutput(
            loss=loss,
            logits=logits if sparse else encoded.unpack(logits)[0],
            hidden_states=encoded.hidden_states_of(),
            attentions=encoded.attentions_of(),
        )

    def guess(
        self,
        encoded: Encoded,
        labels: Tensor | None,
        num_items_in_batch: Tensor | int | None = None,
        count: list[int] | None = None,
        **checked: bool,
    ) -> tuple[Tensor | None, Tensor, bool]:
        """Loss, logits in pack order, and whether these are of labelled positions only.

        Takes what the trunk gave, labels in the layout of its input, and of `count_labels` how many
        there are.
        """
        hidden, pack = encoded.hidden, encoded.pack
        if self.decoder is not None:
            hidden = self.decoder(hidden, pack)
        if labels is not None:
            labels = pack_labels(labels, encoded.shapes[0], pack)
        sparse = labels is not None and self.training and not pack.is_static
        # counting labels on an accelerator makes the host wait, which it shall not without checks
        sparse = sparse and (bool(count) or self.config.check_inputs or hidden.device.type == "cpu")
        if sparse:
            number = count[0] if count and pack.share is None else None
            rows = pack.in_callers_order(find_true(labels != IGNORED, number))
            hidden, labels = hidden.index_select(0, rows), labels[rows]
        logits = self.lm_head(hidden)
        loss = None
        if labels is not None:
            items = count_items(labels, num_items_in_batch, pack)
            loss = self.loss_function(logits, labels, num_items_in_batch=items, **checked)
            loss = loss if pack.share is None else pack.share.sum(loss)
        return loss, logits, sparse


class ClassifierHead(MixerHead):
    """A linear layer with one output per label."""

    def add_head(self, config: MixerConfig) -> None:
        config.check_class_weights()
        self.dropout = nn.Dropout(config.classifier_dropout)
        classifier = nn.Linear(self.read_size(config), config.num_labels)
        self.classifier = start_as_output(classifier, config)

    def read_size(self, config: MixerConfig) -> int:
        """Width of what is classified."""
        raise NotImplementedError


class TokenClassificationHead(ClassifierHead):
    """Predicts a class for each token; `labels` are laid out like the input, -100 for none."""

    loss_function = staticmethod(token_loss)

    def read_size(self, config: MixerConfig) -> int:
        return config.hidden_size

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        input_values: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        cu_seq_lens_q: Tensor | None = None,
        max_length_q: int | None = None,
        output_hidden_states: bool | Sequence[int] | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> TokenClassifierOutput:
        batch = SequenceBatch(
            input_ids, input_values, inputs_embeds, attention_mask, cu_seq_lens_q, max_length_q
        )
        border = make_border(self.config.check_inputs)
        checked = ask_about_tokens(self, border, batch, labels, self.config.num_labels)
        encoded = self.model(
            batches=(batch,), output_hidden_states=output_hidden_states, border=border, **kwargs
        )
        logits = self.classifier(self.dropout(encoded.hidden))
        loss = None
        if labels is not None:
            packed = pack_labels(labels, encoded.shapes[0], encoded.pack)
            loss = self.loss_function(
                logits,
                packed,
                class_weights=self.config.class_weights,
                num_items_in_batch=count_items(packed, num_items_in_batch, encoded.pack),
                **checked,
            )
            share = encoded.pack.share
            loss = loss if share is None else share.sum(loss)
        return TokenClassifierOutput(
            loss=loss,
            logits=encoded.unpack(logits)[0],
            hidden_states=encoded.hidden_states_of(),
            attentions=encoded.attentions_of(),
        )


class SequenceClassificationHead(ClassifierHead):
    """Predicts classes or numbers for each sequence, `config.problem_type` saying which."""

    loss_function = staticmethod(sequence_loss)

    def add_head(self, config: MixerConfig) -> None:
        super().add_head(config)
        self.kmer_classifier = None
        if config.kmer_size is not None:
            self.kmer_classifier = nn.Linear(config.num_kmers, config.num_labels, bias=False)
            self.kmer_classifier.start_deviation = 0.0  # type: ignore[assignment]

    def read_size(self, config: MixerConfig) -> int:
        return config.pooled_size

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        input_values: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        cu_seq_lens_q: Tensor | None = None,
        max_length_q: int | None = None,
        output_hidden_states: bool | Sequence[int] | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        batch = SequenceBatch(
            input_ids, input_values, inputs_embeds, attention_mask, cu_seq_lens_q, max_length_q
        )
        border = make_border(self.config.check_inputs)
        checked = ask_about_sequences(self, border, labels)
        encoded = self.model(
            batches=(batch,), output_hidden_states=output_hidden_states, border=border, **kwargs
        )
        logits = self.classifier(self.dropout(encoded.pool()))
        if self.kmer_classifier is not None:
            profile = encoded.profile().to(input_dtype(self.kmer_classifier))
            logits = logits + encoded.pack.restore(self.kmer_classifier(profile))
        return SequenceClassifierOutput(
            loss=sequence_head_loss(self, logits, labels, num_items_in_batch, **checked),
            logits=logits,
            hidden_states=encoded.hidden_states_of(),
            attentions=encoded.attentions_of(),
        )


@dataclass
class SequencePairClassifierOutput(ModelOutput):
    """Output of the pair heads; what ends in `_2` belongs to the second sequences."""

    loss: Tensor | None = None
    logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    hidden_states_2: tuple[Tensor, ...] | None = None
    attentions: tuple[tuple[Tensor, ...], ...] | None = None
    attentions_2: tuple[tuple[Tensor, ...], ...] | None = None


class SequencePairClassificationHead(MixerHead):
    """Predicts classes or numbers for two sequences, such as a reference and a variant.

    Both go through one trunk in one pack; an MLP reads `[u, v, u * v, u - v]` of their pooled
    vectors. The second sequence comes in the same arguments with suffix `_2`. With
    `config.num_tasks`, each example's `task_ids` `(B,)` choose which task's outputs it gets (say,
    the effect in one tissue).
    """

    loss_function = staticmethod(sequence_loss)

    def add_head(self, config: MixerConfig) -> None:
        config.check_class_weights()
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.dense = nn.Linear(4 * config.pooled_size, config.hidden_size)
        self.activation = nn.GELU()
        outputs = config.num_labels * (config.num_tasks or 1)
        self.classifier = start_as_output(nn.Linear(config.hidden_size, outputs), config)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        input_ids_2: Tensor | None = None,
        attention_mask_2: Tensor | None = None,
        input_values: Tensor | None = None,
        input_values_2: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        inputs_embeds_2: Tensor | None = None,
        task_ids: Tensor | None = None,
        labels: Tensor | None = None,
        cu_seq_lens_q: Tensor | None = None,
        cu_seq_lens_q_2: Tensor | None = None,
        max_length_q: int | None = None,
        max_length_q_2: int | None = None,
        output_hidden_states: bool | Sequence[int] | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> SequencePairClassifierOutput:
        first = SequenceBatch(
            input_ids, input_values, inputs_embeds, attention_mask, cu_seq_lens_q, max_length_q
        )
        second = SequenceBatch(
            input_ids_2,
            input_values_2,
            inputs_embeds_2,
            attention_mask_2,
            cu_seq_lens_q_2,
            max_length_q_2,
        )
        border = make_border(self.config.check_inputs)
        checked = ask_about_sequences(self, border, labels)
        num_tasks = self.config.num_tasks
        if border is not None and num_tasks is not None and torch.is_tensor(task_ids):
            ask_ids(border, "task_ids", task_ids, num_tasks)
        encoded = self.model(
            batches=(first, second),
            output_hidden_states=output_hidden_states,
            border=border,
            **kwargs,
        )
        pooled = encoded.pool()
        # not `chunk`: exporters would take the number of pairs for a constant
        count = pooled.shape[0] // 2
        u, v = pooled[:count], pooled[count:]
        features = self.activation(self.dense(torch.cat([u, v, u * v, u - v], dim=1)))
        logits = self._choose_task(self.classifier(self.dropout(features)), task_ids)
        return SequencePairClassifierOutput(
            loss=sequence_head_loss(self, logits, labels, num_items_in_batch, **checked),
            logits=logits,
            hidden_states=encoded.hidden_states_of(0),
            hidden_states_2=encoded.hidden_states_of(1),
            attentions=encoded.attentions_of(0),
            attentions_2=encoded.attentions_of(1),
        )

    def _choose_task(self, logits: Tensor, task_ids: Tensor | None) -> Tensor:
        num_tasks = self.config.num_tasks
        if (num_tasks is None) != (task_ids is None):
            needed = "no task_ids" if num_tasks is None else f"task_ids in 0..{num_tasks - 1}"
            raise ValueError(
                f"A model with config.num_tasks={num_tasks} takes {needed}, "
                f"got {'none' if task_ids is None else 'some'}."
            )
        if num_tasks is None:
            return logits
        check_tensor("task_ids", task_ids)
        logits = logits.unflatten(1, (num_tasks, self.config.num_labels))
        if task_ids.shape != logits.shape[:1]:
            raise ValueError(
                f"task_ids must hold one task per pair, shape {tuple(logits.shape[:1])}, "
                f"got {tuple(task_ids.shape)}."
            )
        index = task_ids.to(logits.device).long().view(-1, 1, 1)
        return logits.take_along_dim(index, dim=1).squeeze(1)


def sequence_head_loss(
    head: MixerHead,
    logits: Tensor,
    labels: Tensor | None,
    num_items_in_batch: Tensor | int | None,
    **checked: bool,
) -> Tensor | None:
    """The loss of a head with one prediction per sequence, `None` without labels."""
    if labels is None:
        return None
    check_tensor("labels", labels)
    return head.loss_function(
        logits,
        labels,
        problem_type=head.config.problem_type,
        class_weights=head.config.class_weights,
        num_items_in_batch=num_items_in_batch,
        **checked,
    )
