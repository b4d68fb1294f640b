"""The trunk of all families: inputs -> pack -> embedding -> blocks -> caller's layout."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import can_return_tuple, logging

from .border import Border
from .configuration_mixer import MixerConfig
from .inputs import SequenceBatch, check_batches, check_extras, count_sequences
from .mlp import input_dtype
from .norms import RunningStandardize, TokenLayerNorm
from .packing import (
    Pack,
    make_pack,
    segment_attention,
    segment_first,
    segment_flat,
    segment_max,
    segment_mean,
)
from .recording import HiddenStates, check_blocks, split_attentions, unpack_batches
from .sharing import current_group, share_pack
from .stack import MixerStack, is_plain
from .words import KmerEncoder, kmer_profile, words_around

logger = logging.get_logger(__name__)

POOLERS = {"mean": segment_mean, "max": segment_max, "first": segment_first}

# the module that embeds each kind of input
EMBEDDINGS = {
    "input_ids": "embed_tokens",
    "input_values": "embed_values",
    "pixel_values": "embed_patches",
    "numeric_values": "embed_columns",
}


class Encoded(NamedTuple):
    """What the trunk hands to a head."""

    hidden: Tensor  # (T, D) token outputs in pack order
    pack: Pack
    cls: Tensor | None  # (B, D) outputs of the CLS tokens, if the model adds them
    config: MixerConfig
    shapes: list[tuple[int, int]]  # (B, L) of every batch that went in
    hidden_states: list[tuple[Tensor | None, ...]] | None  # of every batch, in its layout

    # of every batch, one entry per block
    attentions: list[tuple] | None = None
    scores: Tensor | None = None  # (T, 1) of attention pooling
    expand: nn.Module | None = None  # what rows pass before they are pooled
    norm: nn.Module | None = None  # what pooled vectors pass
    kmers: nn.Module | None = None  # makes the second part of pooled vectors
    ids: Tensor | None = None  # (T,) token ids in pack order, of models that count k-mers

    def pool(self) -> Tensor:
        """One vector per sequence, in the caller's order and batch after batch.

        It is `(B, config.pooled_size)`.
        """
        pooling, length = self.config.pooling, self.config.max_position_embeddings
        rows = self.cls if pooling == "cls" else self.hidden
        rows = rows if self.expand is None else self.expand(rows)
        if pooling == "cls":
            pooled = rows
        elif pooling == "flat":
            pooled = segment_flat(rows, self.pack, length)
        elif pooling == "attention":
            pooled = segment_attention(rows, self.scores, self.pack)
        else:
            pooled = POOLERS[pooling](rows, self.pack)
        if self.kmers is not None:
            pooled = torch.cat([pooled, self.kmers(self.profile()).to(pooled.dtype)], dim=1)
        pooled = pooled if self.norm is None else self.norm(pooled)
        return self.pack.restore(pooled).to(self.hidden.dtype)

    def profile(self) -> Tensor:
        """Square roots of the frequencies of k-mers `(B, words)`, in pack order."""
        if self.ids is None:
            raise ValueError("A model with config.kmer_size reads input_ids, got embeddings.")
        if "kmer profile" not in self.pack.notes:
            self.pack.notes["kmer profile"] = kmer_profile(self.ids, self.pack, self.config)
        return self.pack.notes["kmer profile"]

    def unpack(self, rows: Tensor) -> list[Tensor]:
        """Pack rows `(T, ...)` -> one `(B, L, ...)` tensor per batch that went in."""
        return unpack_batches(rows, self.pack, self.shapes)

    def hidden_states_of(self, batch: int = 0) -> tuple[Tensor | None, ...] | None:
        return None if self.hidden_states is None else self.hidden_states[batch]

    def attentions_of(self, batch: int = 0) -> tuple | None:
        return None if self.attentions is None else self.attentions[batch]


class MixerPreTrainedModel(PreTrainedModel):
    """Initialisation, loading and saving of every mixer."""

    config: MixerConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _can_compile_fullgraph = True
    # that of transformers assumes causal attention of all tokens to all
    _supports_context_parallel = False

    def __init__(self, config: MixerConfig):
        # settings may have been changed since the config checked them
        config.validate()
        super().__init__(config)
        self.main_input_name = config.main_input

    @property
    def dummy_inputs(self) -> dict[str, Tensor]:
        """A small batch that the model can read, for tools that want to see it run."""
        length = self.config.max_position_embeddings if self.config.pooling == "flat" else 8
        if self.config.input_features is None:
            return {"input_ids": torch.zeros(2, length, dtype=torch.long, device=self.device)}
        shape = (2, length, self.config.input_features)
        return {"input_values": torch.zeros(shape, device=self.device, dtype=self.dtype)}

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args, **kwargs):
        if self.config.main_input != "input_ids":
            raise ValueError(
                f"This model reads {self.config.main_input}: it has no token embeddings to resize."
            )
        return super().resize_token_embeddings(new_num_tokens, *args, **kwargs)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if isinstance(module, nn.Linear):
            self._init_linear(module)
        elif isinstance(module, RunningStandardize):
            # of another size than a checkpoint's, they would be what is in memory
            init.zeros_(module.running_mean)
            init.ones_(module.running_var)

    def _init_linear(self, layer: nn.Linear) -> None:
        """Xavier-uniform, unless the layer ends a branch or a head, see `starts`."""
        if (deviation := getattr(layer, "start_deviation", None)) is not None:
            init.normal_(layer.weight, 0, deviation)
        else:
            init.xavier_uniform_(layer.weight, getattr(layer, "start_gain", 1.0))


class MixerModel(MixerPreTrainedModel):
    """Embedding, blocks and pooling; a family says with `make_layer` what a block is.

    Every family's model takes the same inputs:

    Args:
        input_ids: `(B, L)` token ids, or
        input_values: `(B, L, F)` continuous features when `config.input_features` is set, or
        inputs_embeds: `(B, L, D)` embeddings.
        attention_mask: `(B, L)`, 1 where there is a token, 0 elsewhere: such places are absent.
        cu_seq_lens_q: Boundaries `0 = c_0 < ... < c_B = T` of B sequences in flat input `(1, T)`.
        max_length_q: Length of the longest of them; only checked.
        output_hidden_states: Also return the embedding and the output of every block; with a list
            of numbers, one entry per block, which is `None` for those that are not in the list.

    Returns:
        `last_hidden_state` in the layout of the input, zero where there is no token;
        `pooler_output` `(B, config.pooled_size)`, one vector per sequence as `config.pooling` says;
        `hidden_states` on request.
    """

    # arguments of `forward` that a family reads besides those of every model; `read` gets them
    own_arguments: tuple[str, ...] = ()
    # whether several processes can share a pack, see `sharing`
    can_share_packs = False
    # what is to be said of sequences that are longer than the model is built for
    beyond_built_length = (
        "tokens farther apart than that may be outside each other's receptive field"
    )

    def __init__(self, config: MixerConfig):
        super().__init__(config)
        width = config.hidden_size
        self.set_input_embeddings(self.make_embedding(config))
        if config.ngram_size is not None:
            self.embed_ngrams = nn.Embedding(config.num_ngrams, width)
        if config.position_embedding_type == "absolute":
            self.embed_positions = nn.Embedding(config.max_position_embeddings, width)
        self.add_prefix(config)
        self.embedding_dropout = nn.Dropout(config.embedding_dropout)
        self.layers = self.stack_class(config)(
            config, (self.make_layer(config, index) for index in range(config.num_hidden_layers))
        )
        self.final_norm = TokenLayerNorm(width) if config.final_norm == "layer" else None
        if config.pooling == "attention":
            self.pool_scores = nn.Linear(width, 1, bias=False)
            # all tokens alike at first
            self.pool_scores.start_deviation = 0.0  # type: ignore[assignment]
        self.pool_expand = None
        if config.pooling_size is not None:
            self.pool_expand = nn.Sequential(nn.Linear(width, config.pooling_size), nn.GELU())
        self.kmers = None if config.kmer_size is None else KmerEncoder(config)
        is_running = config.pooled_norm == "running"
        self.pooled_norm = RunningStandardize(config.pooled_size) if is_running else None
        self.post_init()

    @staticmethod
    def make_layer(config: MixerConfig, index: int) -> nn.Module:
        """Block `index`, to be called with `(hidden, pack)` and what else `enter` gives."""
        raise NotImplementedError

    @staticmethod
    def make_embedding(config: MixerConfig) -> nn.Module:
        """What turns the argument `config.main_input` into vectors."""
        if config.input_features is None:
            return nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        return nn.Linear(config.input_features, config.hidden_size)

    @staticmethod
    def stack_class(config: MixerConfig) -> type[MixerStack]:
        """How the blocks are joined."""
        return MixerStack

    def read(
        self, batches: tuple[SequenceBatch, ...], own: dict, border: Border
    ) -> tuple[SequenceBatch, ...]:
        """Batches, into which a family puts what the caller gave of its `own_arguments`.

        What is to be known of their values is asked at the `border`.
        """
        return batches

    def add_prefix(self, config: MixerConfig) -> None:
        """Create what `prefix` gives."""
        if config.pooling == "cls":
            self.embed_cls = nn.Embedding(1, config.hidden_size)

    def prefix(self, device: torch.device) -> Tensor | None:
        """Learned rows `(n, D)` for the front of every sequence; a CLS token is the last one."""
        if self.config.pooling != "cls":
            return None
        return self.embed_cls(torch.zeros(1, dtype=torch.long, device=device))

    def enter(self, content: Tensor, positions: Tensor | None) -> tuple[Tensor, ...]:
        """What the first block gets, then what every block reads besides it.

        Takes embedded tokens and learned positions; all are `(T, D)`.
        """
        hidden = content if positions is None else content + positions
        return (self.embedding_dropout(hidden),)

    def check_attentions(self) -> None:
        """Refuse `output_attentions=True` where there are none to return."""
        raise ValueError(
            f"{type(self).__name__} has no attention: output_attentions must be False."
        )

    def read_attentions(self, records: dict) -> list[list[Tensor]]:
        """What blocks have left of their attention: tensors of each, with sequences in front."""
        raise NotImplementedError

    def get_input_embeddings(self) -> nn.Module:
        return getattr(self, EMBEDDINGS[self.config.main_input])

    def set_input_embeddings(self, value: nn.Module):
        setattr(self, EMBEDDINGS[self.config.main_input], value)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        input_values: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        cu_seq_lens_q: Tensor | None = None,
        max_length_q: int | None = None,
        output_hidden_states: bool | Sequence[int] | None = None,
        batches: tuple[SequenceBatch, ...] | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPooling | Encoded:
        # heads hand over one or two batches and take the packed result: no padding is ever made
        if batches is not None:
            return self._encode(batches, output_hidden_states, kwargs)
        batch = SequenceBatch(
            input_ids, input_values, inputs_embeds, attention_mask, cu_seq_lens_q, max_length_q
        )
        encoded = self._encode((batch,), output_hidden_states, kwargs)
        return BaseModelOutputWithPooling(
            last_hidden_state=encoded.unpack(encoded.hidden)[0],
            pooler_output=encoded.pool(),
            hidden_states=encoded.hidden_states_of(),
            attentions=encoded.attentions_of(),
        )

    def _encode(
        self,
        batches: tuple[SequenceBatch, ...],
        output_hidden_states: bool | Sequence[int] | None,
        extras: dict,
    ) -> Encoded:
        """All sequences of all batches through the trunk in one pack."""
        own = {name: extras.pop(name) for name in self.own_arguments if name in extras}
        output_attentions = extras.pop("output_attentions", None)
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        if output_attentions:
            self.check_attentions()
        # heads may have asked about labels
        border = extras.pop("border", None) or Border(self.config.check_inputs)
        given = {name: own[name] for name in own if own[name] is not None}
        batches = self.read(batches, given, border)
        check_extras(extras, batches, self.own_arguments)
        for batch in batches:
            self._ask_about_padding(batch, border)
        boundaries = check_batches(batches, self.config, border)
        pack = self._share(make_pack(boundaries))
        self._check_lengths(pack)
        hidden, *beside = self.enter(*self._embed(batches, pack))

        mixed, token_rows, cls = pack, None, None
        prefix = self.prefix(hidden.device)
        if prefix is not None:
            mixed, token_rows, prefix_rows = pack.with_prefix(prefix.shape[0])
            first_rows = prefix.to(hidden.dtype).repeat(pack.num_sequences, 1)

            def add_prefix(tokens: Tensor) -> Tensor:
                rows = tokens.new_empty(mixed.num_rows, tokens.shape[1])
                return rows.index_copy(0, token_rows, tokens).index_copy(0, prefix_rows, first_rows)

            hidden, *beside = (add_prefix(tokens) for tokens in (hidden, *beside))

        shapes = [batch.shape for batch in boundaries]
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        states = None
        if output_hidden_states:
            blocks = check_blocks(output_hidden_states, len(self.layers))
            states = HiddenStates(pack, token_rows, shapes, blocks)
        # embeddings that the caller or a hook has seen are theirs
        ours = is_plain(self.get_input_embeddings()) and batches[0].inputs_embeds is None
        if output_attentions:
            mixed = replace(mixed, records={})
        hidden = self.layers.run(hidden, mixed, states, beside, may_overwrite=ours)
        if self.final_norm is not None:
            hidden = self.final_norm(hidden, mixed)
            if states is not None:
                hidden = states.record_again(hidden)

        tokens = hidden if token_rows is None else hidden.index_select(0, token_rows)
        if self.config.pooling == "cls":
            cls = hidden.index_select(0, mixed.starts + (prefix.shape[0] - 1))
        recorded = None if states is None else states.by_batch()
        attentions = None
        if output_attentions:
            counts = [count_sequences(batch) for batch in boundaries]
            attentions = split_attentions(self.read_attentions(mixed.records), pack, counts)
        scores = self.pool_scores(tokens) if self.config.pooling == "attention" else None
        return Encoded(
            tokens,
            pack,
            cls,
            self.config,
            shapes,
            recorded,
            attentions,
            scores,
            self.pool_expand,
            self.pooled_norm,
            self.kmers,
            self._find_ids(batches, pack),
        )

    def _share(self, pack: Pack) -> Pack:
        """The rows of a pack that this process has; all of them unless packs are shared."""
        group = current_group()
        if group is None:
            return pack
        config = self.config
        reasons = {
            f"{type(self).__name__}": not self.can_share_packs,
            "compiled models": pack.is_static,
            f"pooling={config.pooling!r}": config.pooling in ("cls", "flat"),
            "ngram_size and kmer_size": config.reads_words,
            "batch norm": any(isinstance(part, nn.BatchNorm1d) for part in self.modules()),
        }
        for name, is_so in reasons.items():
            if is_so:
                raise ValueError(f"Sequences cannot be shared by processes with {name}.")
        return share_pack(pack, group)

    def _ask_about_padding(self, batch: SequenceBatch, border: Border) -> None:
        """Warn, as all models of transformers do, of what looks like padding without a mask."""
        ids, pad = batch.input_ids, self.config.pad_token_id
        # flat pooling reads padding as tokens, and with a mask there would be too few of them
        if self.config.pooling == "flat" or pad is None or not torch.is_tensor(ids):
            return
        is_plain = batch.attention_mask is None and batch.cu_seq_lens_q is None
        if is_plain and border.checks and ids.dim() == 2 and ids.numel():
            ends = torch.stack([ids[:, 0], ids[:, -1]]) == pad
            border.ask_if(ends, lambda: self.warn_if_padding_and_no_attention_mask(ids, None))

    @staticmethod
    def _gather(batches: tuple[SequenceBatch, ...], pack: Pack) -> Tensor:
        """The content of all batches as rows of the pack."""
        rows = pack.gather(torch.cat([batch.given()[1].flatten(0, 1) for batch in batches]))
        # padding may hold anything: what it holds must not even reach a gradient as 0 * NaN
        return pack.blank(rows)

    def _find_ids(self, batches: tuple[SequenceBatch, ...], pack: Pack) -> Tensor | None:
        """Token ids `(T,)` in pack order, where something is counted in them."""
        is_wanted = self.kmers is not None and batches[0].input_ids is not None
        return self._gather(batches, pack).long() if is_wanted else None

    def _embed(
        self, batches: tuple[SequenceBatch, ...], pack: Pack
    ) -> tuple[Tensor, Tensor | None]:
        """Embedded tokens and their learned positions, `(T, D)` each."""
        name, _ = batches[0].given()
        rows = self._gather(batches, pack)
        if name == "input_ids":
            rows = self._hide_tokens(rows.long())
            hidden = embed_rows(self.embed_tokens, rows, pack)
            if self.config.ngram_size is not None:
                hidden = hidden + self.embed_ngrams(words_around(rows, pack, self.config))
        elif name == "input_values":
            rows = rows.to(input_dtype(self.embed_values))
            hidden = embed_rows(self.embed_values, rows, pack)
        elif self.config.ngram_size is not None:
            raise ValueError("A model with config.ngram_size reads input_ids, got embeddings.")
        else:
            hidden = rows.to(self.dtype)
        if self.config.position_embedding_type == "none":
            return hidden, None
        return hidden, self._embed_positions(pack.blank(pack.position))

    def _embed_positions(self, positions: Tensor) -> Tensor:
        """Vectors `(T, D)` of positions."""
        return self.embed_positions(positions)

    def _hide_tokens(self, ids: Tensor) -> Tensor:
        """In training, some tokens behind the mask token; special ones stay."""
        config = self.config
        if not (self.training and config.token_dropout):
            return ids
        chosen = torch.rand(ids.shape, device=ids.device) < config.token_dropout
        for special in (config.pad_token_id, config.cls_token_id, config.sep_token_id):
            if special is not None:
                chosen = chosen & (ids != special)
        return torch.where(chosen, config.mask_token_id, ids)

    def _check_lengths(self, pack: Pack) -> None:
        limit = self.config.max_position_embeddings
        if pack.is_static or pack.sizes[0] <= limit:
            return
        if self.config.position_embedding_type == "absolute":
            raise ValueError(
                f"The longest sequence has {pack.sizes[0]} tokens, but the model has learned "
                "positions "
                f"for {limit} (config.max_position_embeddings)."
            )
        # without the length: the warning would come back for every new one
        logger.warning_once(
            f"A sequence is longer than the {limit} tokens that this model was built for "
            f"(config.max_position_embeddings): it runs, but {self.beyond_built_length}."
        )


def embed_rows(embedding: nn.Module, rows: Tensor, pack: Pack) -> Tensor:
    """Embedded rows of a pack, `(T, D)`, with the noise of NEFTune if that is on.

    Hooks see `(1, T, D)`. That of NEFTune scales its noise by the length it sees, which would be
    that of the whole pack: the noise here has the length of each sequence.
    """
    alpha = getattr(embedding, "neftune_noise_alpha", None)
    if alpha is None or not embedding.training:
        return embedding(rows[None])[0]
    embedding.neftune_noise_alpha = 0.0  # type: ignore[assignment]  # an attribute of Trainer
    try:
        hidden = embedding(rows[None])[0]
    finally:
        embedding.neftune_noise_alpha = alpha
    size = alpha * (pack.row_lengths[:, None] * hidden.shape[1]) ** -0.5
    return hidden + (torch.rand_like(hidden) * 2 - 1) * size.to(hidden.dtype)
