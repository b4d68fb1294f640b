"""Combiner: blocks of full attention, most of it through summaries of spans, and its models.

Paper: Combiner: Full Attention Transformer with Sparse Computation Cost, NeurIPS 2021.
Idea: a token attends to a few others directly and to all the rest through summaries of spans, in
  one softmax; which tokens and which spans is the pattern.
Cost: n sqrt(n) per sequence of n tokens, n log(n) for logsparse.
Depth: all sequences pass all blocks.
Ours differs in disjoint supports by default, and any mix of lengths is exact. From the pack it
needs lengths and positions, and its order.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn
from transformers.utils import logging

from .attention_combiner import ClusterCentroids, CombinerAttention
from .border import Border
from .cache_combiner import CombinerCache, CombinerCacheLayer
from .configuration_combiner import CombinerConfig
from .heads import (
    MaskedLMHead,
    SequenceClassificationHead,
    SequencePairClassificationHead,
    TokenClassificationHead,
)
from .heads_causal import CausalLMHead
from .inputs import SequenceBatch, ask_ids, check_batches, check_extras
from .modeling_mixer import Encoded, HiddenStates, MixerModel, MixerPreTrainedModel
from .packing import Pack, make_pack
from .starts import start_as_branch_end

logger = logging.get_logger(__name__)

ACTIVATIONS = {"gelu": "none", "gelu_new": "tanh"}


class CombinerMLP(nn.Module):
    """Two linear layers with a GELU or a ReLU between."""

    def __init__(self, config: CombinerConfig):
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        kind = config.hidden_act
        self.activation = nn.ReLU() if kind == "relu" else nn.GELU(approximate=ACTIVATIONS[kind])
        fc2 = nn.Linear(config.intermediate_size, config.hidden_size)
        self.fc2 = start_as_branch_end(fc2, config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.dropout(self.fc2(self.dropout(self.activation(self.fc1(hidden)))))


class CombinerBlock(nn.Module):
    """Attention and MLP, each after a layer norm and around a residual connection."""

    def __init__(self, config: CombinerConfig, index: int):
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
        self.attention = CombinerAttention(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.mlp_norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
        self.mlp = CombinerMLP(config)
        is_last = index == config.num_hidden_layers - 1
        self.last_norm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps) if is_last else None

    def forward(
        self, hidden: Tensor, pack: Pack, cache: CombinerCacheLayer | None = None
    ) -> Tensor:
        heard = self.attention(self.attention_norm(hidden), pack, cache)
        hidden = hidden + self.dropout(heard)
        hidden = hidden + self.mlp(self.mlp_norm(hidden))
        return hidden if self.last_norm is None else self.last_norm(hidden)


class CombinerPreTrainedModel(MixerPreTrainedModel):
    """Initialisation, loading and saving of every Combiner."""

    config: CombinerConfig
    _no_split_modules = ["CombinerBlock"]

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if isinstance(module, ClusterCentroids):
            module.reset_parameters()


class CombinerModel(CombinerPreTrainedModel, MixerModel):
    """Combiner without a head; inputs and outputs are those of `MixerModel`, and

    Args:
        token_type_ids: `(B, L)` ids below `config.type_vocab_size`, 0 where not given.

    >>> import torch
    >>> from hf_mixers import CombinerConfig, CombinerModel
    >>> model = CombinerModel(CombinerConfig(pattern="axial_rowmajor", segment_length=2)).eval()
    >>> ids = torch.tensor([[5, 6, 7, 8], [6, 6, 0, 0]])
    >>> output = model(ids, attention_mask=ids != 0)
    >>> output.last_hidden_state.shape, output.pooler_output.shape
    (torch.Size([2, 4, 64]), torch.Size([2, 64]))
    """

    own_arguments = ("token_type_ids", "token_type_ids_2", "past_key_values")
    # every token hears all others, however many there are
    beyond_built_length = "the model may never have learned from such lengths"

    def __init__(self, config: CombinerConfig):
        super().__init__(config)
        if config.type_vocab_size:
            self.embed_token_types = nn.Embedding(config.type_vocab_size, config.hidden_size)
            self.post_init()

    @staticmethod
    def make_layer(config: CombinerConfig, index: int) -> CombinerBlock:
        return CombinerBlock(config, index)

    def read(
        self, batches: tuple[SequenceBatch, ...], own: dict, border: Border
    ) -> tuple[SequenceBatch, ...]:
        if not self.config.type_vocab_size:
            return batches
        done = []
        for batch, name in zip(batches, ("token_type_ids", "token_type_ids_2"), strict=False):
            ids = own.get(name)
            if torch.is_tensor(ids):
                _check_shape_of_types(name, ids, batch)
                limit = self.config.type_vocab_size
                ask_ids(border, "token_type_ids", ids, limit, " (config.type_vocab_size)")
            done.append(batch._replace(token_type_ids=ids))
        return tuple(done)

    def _encode(
        self, batches: tuple[SequenceBatch, ...], output_hidden_states: bool | None, extras: dict
    ) -> Encoded:
        cache = extras.pop("past_key_values", None)
        if self.config.pattern == "learnable" and self.training:
            for layer in self.layers:
                layer.attention.routing.commit()
        if cache is None:
            return super()._encode(batches, output_hidden_states, extras)
        if not isinstance(cache, CombinerCache):
            raise ValueError(
                f"past_key_values must be a CombinerCache, got {type(cache).__name__}."
            )
        own = {name: extras.pop(name) for name in self.own_arguments if name in extras}
        border = extras.pop("border", None) or Border(self.config.check_inputs)
        (batch,) = self.read(batches, own, border)
        check_extras(extras, batches, self.own_arguments)
        return self._encode_next(batch, cache, output_hidden_states, border)

    def _encode_next(
        self,
        batch: SequenceBatch,
        cache: CombinerCache,
        output_hidden_states: bool | None,
        border: Border,
    ) -> Encoded:
        """What follows the sequences of a cache, or begins them, through the trunk."""
        seen, past = cache.get_seq_length(), cache.lengths
        if seen:
            batch = _only_new(batch, seen, len(past))
        boundaries = check_batches((batch,), self.config, border)
        pack = make_pack(boundaries)
        if pack.is_static:
            raise ValueError("past_key_values cannot be compiled or exported.")
        shifted = pack
        if past:
            offsets = torch.tensor(past, device=pack.lengths.device)
            lengths = offsets + pack.lengths
            longest = int(lengths.max())
            shifted = replace(
                pack,
                position=pack.position + offsets[pack.sequence],
                lengths=lengths,
                sizes=(longest, *pack.sizes[1:]),
            )
        self._check_lengths(shifted)
        (hidden,) = self.enter(*self._embed((batch,), shifted))
        shapes = [part.shape for part in boundaries]
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        states = HiddenStates(pack, None, shapes) if output_hidden_states else None
        for layer, past_of_layer in zip(self.layers, cache.layers, strict=True):
            hidden = hidden if states is None else states.record(hidden)
            hidden = layer(hidden, pack, cache=past_of_layer)
        hidden = hidden if self.final_norm is None else self.final_norm(hidden, pack)
        hidden = hidden if states is None else states.record(hidden)
        for past_of_layer in cache.layers:
            past_of_layer.seen += boundaries[0].shape[1]
        recorded = None if states is None else list(zip(*states.recorded, strict=True))
        return Encoded(hidden, pack, None, self.config, shapes, recorded)

    def _embed(
        self, batches: tuple[SequenceBatch, ...], pack: Pack
    ) -> tuple[Tensor, Tensor | None]:
        content, positions = super()._embed(batches, pack)
        if self.config.type_vocab_size:
            content = content + self.embed_token_types(self._token_types(batches, pack))
        return content, positions

    def _token_types(self, batches: tuple[SequenceBatch, ...], pack: Pack) -> Tensor:
        parts = []
        for batch in batches:
            ids = batch.token_type_ids
            if ids is None:
                shape = batch.given()[1].shape[:2]
                ids = torch.zeros(shape, dtype=torch.long, device=pack.lengths.device)
            parts.append(ids.flatten())
        return pack.blank(pack.gather(torch.cat(parts))).long()

    def _embed_positions(self, positions: Tensor) -> Tensor:
        if self.config.position_embedding_type == "sinusoidal":
            return sinusoids(positions, self.config.hidden_size).to(self.dtype)
        return super()._embed_positions(positions)


def _check_shape_of_types(name: str, ids: Tensor, batch: SequenceBatch) -> None:
    # what a batch without content is told comes later
    contents = [part for part in batch[:3] if torch.is_tensor(part)]
    for content in contents:
        if ids.shape != content.shape[:2]:
            raise ValueError(
                f"{name} must have shape {tuple(content.shape[:2])} like the input, got "
                f"{tuple(ids.shape)}."
            )


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Waves `(T, D)` of positions `(T,)`: sines, then cosines, of wavelengths 2 pi to 20000 pi."""
    half = (width + 1) // 2
    steps = torch.arange(half, device=positions.device, dtype=torch.float32) / max(1, half - 1)
    angles = positions[:, None] * torch.exp(-math.log(10_000) * steps)
    return torch.cat([angles.sin(), angles.cos()], 1)[:, :width]


def _only_new(batch: SequenceBatch, seen: int, count: int) -> SequenceBatch:
    """A batch whose mask is also of what is in the cache, without its mask."""
    shape = tuple(batch.given()[1].shape[:2])
    mask = batch.attention_mask
    if shape[0] != count:
        raise ValueError(f"past_key_values hold {count} sequences, got {shape[0]}.")
    if batch.cu_seq_lens_q is not None:
        raise ValueError("cu_seq_lens_q is for sequences from their beginning, not with a cache.")
    if mask is not None:
        width = seen + shape[1]
        if tuple(mask.shape) != (count, width) or not bool((mask[:, seen:] == 1).all()):
            raise ValueError(
                f"attention_mask must have shape {(count, width)}, of {seen} columns in the cache "
                f"and {shape[1]} new ones that all hold tokens, got {tuple(mask.shape)}."
            )
    return batch._replace(attention_mask=None)


class TokenTypes:
    """The arguments of heads, with the one that this family adds to them."""

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        input_values: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        cu_seq_lens_q: Tensor | None = None,
        max_length_q: int | None = None,
        **kwargs,
    ):
        return super().forward(  # type: ignore[misc]  # that of the head
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            input_values=input_values,
            inputs_embeds=inputs_embeds,
            labels=labels,
            cu_seq_lens_q=cu_seq_lens_q,
            max_length_q=max_length_q,
            **kwargs,
        )


class CombinerForCausalLM(CombinerPreTrainedModel, CausalLMHead):
    """Combiner that predicts the next token, and generates.

    >>> import torch
    >>> from hf_mixers import CombinerConfig, CombinerForCausalLM
    >>> model = CombinerForCausalLM(CombinerConfig(causal=True)).eval()
    >>> model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=2, do_sample=False).shape
    torch.Size([1, 5])
    """

    model_class = CombinerModel

    def make_cache(self) -> CombinerCache | None:
        if self.config.has_cache:
            return CombinerCache(self.config)
        logger.warning_once(
            f"pattern={self.config.pattern!r} has no cache: every step of generation computes the "
            "whole sequence again."
        )
        return None


class CombinerForMaskedLM(TokenTypes, CombinerPreTrainedModel, MaskedLMHead):
    """Combiner that fills in masked tokens.

    >>> import torch
    >>> from hf_mixers import CombinerConfig, CombinerForMaskedLM
    >>> model = CombinerForMaskedLM(CombinerConfig(type_vocab_size=2)).eval()
    >>> ids, types = torch.tensor([[5, 4, 7]]), torch.tensor([[0, 0, 1]])
    >>> model(ids, token_type_ids=types).logits.shape
    torch.Size([1, 3, 20])
    """

    model_class = CombinerModel


class CombinerForSequenceClassification(
    TokenTypes, CombinerPreTrainedModel, SequenceClassificationHead
):
    """Combiner for one prediction per sequence.

    >>> import torch
    >>> from hf_mixers import CombinerConfig, CombinerForSequenceClassification
    >>> model = CombinerForSequenceClassification(CombinerConfig(pattern="logsparse")).eval()
    >>> model(torch.tensor([[5, 6, 7]])).logits.shape
    torch.Size([1, 2])
    """

    model_class = CombinerModel


class CombinerForTokenClassification(TokenTypes, CombinerPreTrainedModel, TokenClassificationHead):
    """Combiner for one prediction per token.

    >>> import torch
    >>> from hf_mixers import CombinerConfig, CombinerForTokenClassification
    >>> model = CombinerForTokenClassification(CombinerConfig()).eval()
    >>> model(torch.tensor([[5, 6, 7]])).logits.shape
    torch.Size([1, 3, 2])
    """

    model_class = CombinerModel


class CombinerForSequencePairClassification(
    CombinerPreTrainedModel, SequencePairClassificationHead
):
    """Combiner for one prediction per pair of sequences.

    >>> import torch
    >>> from hf_mixers import CombinerConfig, CombinerForSequencePairClassification
    >>> model = CombinerForSequencePairClassification(CombinerConfig()).eval()
    >>> model(torch.tensor([[5, 6, 7]]), input_ids_2=torch.tensor([[5, 6, 8, 8]])).logits.shape
    torch.Size([1, 2])
    """

    model_class = CombinerModel
