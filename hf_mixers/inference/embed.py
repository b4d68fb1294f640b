"""One vector per sequence, or one per token, from any layer of a model."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .engine import Engine, Part, stream_parts
from .loading import load_encoder, make_engine
from .records import Source, read_records

Pooling = Literal["mean", "max", "first", "cls", "none"]


class Embedding(NamedTuple):
    """The vector of a record `(D,)`, or of its tokens `(L, D)`; None where it could not be read."""

    id: str
    length: int
    vector: np.ndarray | None
    note: str


def embed(
    model: str | PreTrainedModel,
    source: Source,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    layer: int = -1,
    pooling: Pooling = "mean",
    rc_average: bool = False,
    token_budget: int = 65536,
    shard: tuple[int, int] = (0, 1),
    strict: bool = False,
    **options: Any,
) -> Iterator[Embedding]:
    """Embeddings of the records of a source, one by one, in its order.

    Args:
        model: Any model of a family or of transformers, or its folder or Hub name.
        source: See `read_records`.
        tokenizer: That of a model which is given as such.
        layer: Which hidden states: 0 is the embedding, -1 the output of the model.
        pooling: `mean` and `max` over the tokens of a sequence, `first` token, `cls` (the pooled
            vector of the model itself), or `none` for a vector per token.
        rc_average: Average the vectors of both strands; not with `none`.
        token_budget: Most tokens in a batch.
        shard: `(i, n)` reads every n-th record, from the i-th on.
        strict: A record that cannot be read is an error instead of a note.
        options: See `load_model` (`device`, `dtype`, `compile`) and `read_records`.
    """
    check_pooling(pooling, layer, rc_average)
    engine = make_engine(
        model,
        tokenizer,
        load_encoder,
        options,
        token_budget=token_budget,
        both_strands=rc_average,
        strict=strict,
    )
    records = read_records(source, shard=shard, **options)
    return stream_parts(engine, records, partial(embed_part, layer=layer, pooling=pooling))


def check_pooling(pooling: str, layer: int, rc_average: bool) -> None:
    if pooling not in get_args(Pooling):
        accepted = ", ".join(get_args(Pooling))
        raise ValueError(f"pooling must be one of {accepted}, got {pooling!r}.")
    if pooling == "none" and rc_average:
        raise ValueError("Strands are averaged by sequence, which requires a pooling.")
    if pooling == "cls" and layer != -1:
        raise ValueError(f"The pooled vector of a model is that of layer -1, got layer={layer}.")


def embed_part(engine: Engine, part: Part, layer: int, pooling: Pooling) -> list[Embedding]:
    """Embeddings of the records of one part."""
    if pooling == "cls":
        # other vectors have no share of the k-mer part
        engine.watch_frame(part)
    results = engine.compute(part, make_forward(engine, layer, pooling))
    return [
        Embedding(item.record.id, len(item.record.sequence), vector, item.note)
        for item, vector in zip(part.items, results, strict=True)
    ]


# a vector per token takes much room: fewer batches make a part
TOKEN_LOOK_AHEAD = 2
EMBEDDING_COLUMNS = ("id", "length", "vector", "note")


def vector_size(engine: Engine, pooling: str) -> int:
    """Numbers of a vector; 0 where the config does not tell."""
    config = engine.model.config
    return getattr(config, "pooled_size" if pooling == "cls" else "hidden_size", 0)


def embedding_rows(
    engine: Engine, part: Part, layer: int, pooling: Pooling
) -> list[dict[str, Any]]:
    """A row for every record of a part."""
    return [
        {
            "id": one.id,
            "length": one.length,
            "vector": one.vector,
            "note": one.note,
        }
        for one in embed_part(engine, part, layer, pooling)
    ]


def make_forward(
    engine: Engine, layer: int, pooling: Pooling
) -> Callable[[dict[str, Tensor], list[int]], list[np.ndarray]]:
    """What gives the vectors of a batch."""
    trunk = engine.model.base_model

    def forward(inputs: dict[str, Tensor], lengths: list[int]) -> list[np.ndarray]:
        with torch.inference_mode():
            output = trunk(**inputs, **({} if layer == -1 else {"output_hidden_states": True}))
        if pooling == "cls":
            if getattr(output, "pooler_output", None) is None:
                name = type(engine.model).__name__
                raise ValueError(f"{name} has no pooled vector: use mean, max or first.")
            return list(output.pooler_output.float().cpu().numpy())
        hidden = output.last_hidden_state if layer == -1 else _choose(output.hidden_states, layer)
        tokens = _split_tokens(hidden.float(), lengths)
        return [_pool(one, pooling).cpu().numpy() for one in tokens]

    return forward


def _choose(layers: tuple[Tensor, ...], layer: int) -> Tensor:
    if not -len(layers) <= layer < len(layers):
        raise ValueError(f"layer must lie in {-len(layers)} to {len(layers) - 1}, got {layer}.")
    return layers[layer]


def _split_tokens(hidden: Tensor, lengths: list[int]) -> list[Tensor]:
    """Hidden states `(L, D)` of every sequence of a flat or padded batch."""
    if len(hidden) == 1 and hidden.shape[1] == sum(lengths):
        return list(hidden[0].split(lengths))
    return [row[:length] for row, length in zip(hidden, lengths, strict=True)]


def _pool(tokens: Tensor, pooling: Pooling) -> Tensor:
    if pooling == "mean":
        return tokens.mean(0)
    if pooling == "max":
        return tokens.amax(0)
    return tokens[0] if pooling == "first" else tokens
