"""The head that predicts the next token, and generation with it."""

import torch
from torch import Tensor, nn
from transformers import GenerationMixin
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils import can_return_tuple, logging

from .border import make_border
from .configuration_mixer import MixerConfig
from .heads import MixerHead
from .inputs import SequenceBatch
from .labels import ask_about_tokens, pack_labels
from .losses import IGNORED, token_loss
from .packing import Pack
from .starts import start_as_output

logger = logging.get_logger(__name__)


class CausalLMHead(MixerHead, GenerationMixin):
    """Predicts at each position the token that follows.

    Takes the inputs of the trunk, `labels` in their layout (usually `input_ids`; -100 where there
    is nothing to predict), which are shifted inside of each sequence, and

    Args:
        past_key_values: A cache that the model has filled with what comes before `input_ids`;
            `attention_mask` is then of both.
        use_cache: Return a cache.
        logits_to_keep: Compute logits for this many last columns of the input only, or for the
            columns of a tensor of indices; 0: for all.
    """

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}
    loss_function = staticmethod(token_loss)

    def __init__(self, config: MixerConfig):
        if not getattr(config, "causal", False):
            raise ValueError(f"{type(self).__name__} needs config.causal=True.")
        super().__init__(config)

    def add_head(self, config: MixerConfig) -> None:
        self.lm_head = start_as_output(nn.Linear(config.hidden_size, config.vocab_size), config)

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Linear):
        self.lm_head = new_embeddings

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        input_values: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        past_key_values=None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        cu_seq_lens_q: Tensor | None = None,
        max_length_q: int | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs,
    ) -> CausalLMOutputWithPast:
        batch = SequenceBatch(
            input_ids, input_values, inputs_embeds, attention_mask, cu_seq_lens_q, max_length_q
        )
        if use_cache and past_key_values is None:
            past_key_values = self.make_cache()
        border = make_border(self.config.check_inputs)
        checked = ask_about_tokens(self, border, batch, labels, self.config.vocab_size)
        encoded = self.model(
            batches=(batch,),
            border=border,
            output_hidden_states=output_hidden_states,
            token_type_ids=token_type_ids,
            past_key_values=past_key_values,
            **kwargs,
        )
        hidden, loss = encoded.hidden, None
        # all columns where it is 0
        kept = logits_to_keep if torch.is_tensor(logits_to_keep) else slice(-logits_to_keep, None)
        if labels is not None:
            targets = next_tokens(
                pack_labels(labels, encoded.shapes[0], encoded.pack), encoded.pack
            )
            packed = self.lm_head(hidden)
            loss = self.loss_function(
                packed, targets, num_items_in_batch=num_items_in_batch, **checked
            )
            logits = encoded.unpack(packed)[0][:, kept]
        elif torch.is_tensor(logits_to_keep) or logits_to_keep:
            logits = self.lm_head(encoded.unpack(hidden)[0][:, kept])
        else:
            logits = encoded.unpack(self.lm_head(hidden))[0]
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            past_key_values=past_key_values,
            hidden_states=encoded.hidden_states_of(),
        )

    def make_cache(self):
        """An empty cache, or None with one warning if the model computes everything again."""
        raise NotImplementedError

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        # of transformers: whether `generate` makes a cache of keys and values; we make our own
        return False

    def prepare_inputs_for_generation(
        self,
        input_ids: Tensor,
        next_sequence_length: int | None = None,
        past_key_values=None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> dict:
        if past_key_values is None:
            past_key_values = self.make_cache() if use_cache else None
            # either nothing has been read yet, or all is read again
            next_sequence_length = None
        if past_key_values is None and inputs_embeds is not None:
            raise ValueError(
                "inputs_embeds need a cache to generate from: every step would read them again, "
                "with the ids of new tokens."
            )
        return super().prepare_inputs_for_generation(  # type: ignore[misc]  # a mixin
            input_ids,
            next_sequence_length=next_sequence_length,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            **kwargs,
        )


def next_tokens(labels: Tensor, pack: Pack) -> Tensor:
    """Labels `(T,)` -> those of the next token of the same sequence; the last token has none."""
    following = torch.cat([labels[1:], labels.new_full((1,), IGNORED)])
    return torch.where(pack.position + 1 < pack.row_lengths, following, IGNORED)
