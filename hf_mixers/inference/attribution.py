"""What every base of a sequence adds to the score of a class: gradients and mutagenesis."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..models.tokenization_dna import DnaTokenizer
from .engine import Engine, Item, Part, stream_parts
from .loading import load_classifier, make_engine
from .records import Source, read_records

Method = Literal["gradient_x_input", "integrated_gradients", "mutagenesis"]
BASES = "ACGT"


class Attribution(NamedTuple):
    """What the bases of a record add to the score of a class.

    Args:
        target: Name of the class, or of the number of a regression.
        score: The logit of the target.
        values: `(L,)`, one number per base; None where the record could not be read.
        effects: `(L, 4)`, by how much the score changes with A, C, G or T in place of a base; of
            `mutagenesis` only.
        note: Why a record was not read, or what a reader should know of it.
    """

    id: str
    sequence: str
    target: str
    score: float | None
    values: np.ndarray | None
    effects: np.ndarray | None
    note: str


def attribute(
    model: str | PreTrainedModel,
    source: Source,
    *,
    method: Method = "gradient_x_input",
    target: str | None = None,
    steps: int = 32,
    tokenizer: PreTrainedTokenizerBase | None = None,
    token_budget: int = 65536,
    shard: tuple[int, int] = (0, 1),
    strict: bool = False,
    **options: Any,
) -> Iterator[Attribution]:
    """Attributions of the records of a source, one by one, in its order.

    Args:
        model: A sequence classifier with `DnaTokenizer`, or its folder or Hub name.
        source: See `read_records`.
        method: `gradient_x_input`; `integrated_gradients` from a sequence of N on, whose values sum
            to the difference of both scores; or `mutagenesis`, minus the mean change of the score
            over the three other bases, which takes three passes per base.
        target: Which class; by default the most probable one of each record.
        steps: Of the integral.
        tokenizer: That of a model which is given as such.
        token_budget: Most tokens in a batch.
        shard: `(i, n)` reads every n-th record, from the i-th on.
        strict: A record that cannot be read is an error instead of a note.
        options: See `load_classifier` (`device`, `dtype`, `compile`) and `read_records`.
    """
    settings = {"token_budget": token_budget, "strict": strict}
    engine = make_engine(model, tokenizer, load_classifier, options, **settings)
    check_method(engine, method, target, steps)
    records = read_records(source, shard=shard, **options)
    compute = partial(attribute_part, method=method, target=target, steps=steps)
    return stream_parts(engine, records, compute)


def check_method(engine: Engine, method: str, target: str | None, steps: int) -> None:
    """Refuse what the model of an engine cannot be asked."""
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}, got {method!r}.")
    if not isinstance(engine.tokenizer, DnaTokenizer):
        name = type(engine.tokenizer).__name__
        raise ValueError(f"Attributions are of bases: they require DnaTokenizer, got {name}.")
    names = _names(engine)
    if target is not None and target not in names:
        raise ValueError(f"target must be one of {', '.join(names)}, got {target!r}.")
    if engine.both_strands:
        raise ValueError("Attributions are of the strand that is given, not of both strands.")
    if steps < 1:
        raise ValueError(f"steps={steps} was given: at least 1 is accepted.")
    if method != "mutagenesis" and getattr(engine.model.config, "kmer_size", None) is not None:
        raise ValueError(
            f"The model counts k-mers, which have no gradient: {method} requires a model without"
            " config.kmer_size; mutagenesis reads any."
        )


def _names(engine: Engine) -> list[str]:
    id2label: Any = engine.model.config.id2label
    return [str(id2label[number]) for number in range(engine.model.config.num_labels)]


def attribute_part(
    engine: Engine, part: Part, method: Method, target: str | None = None, steps: int = 32
) -> list[Attribution]:
    """Attributions of the records of one part."""
    names = _names(engine)
    chosen = None if target is None else names.index(target)
    if method == "mutagenesis":
        found = _mutate(engine, part, chosen)
    else:
        count = steps if method == "integrated_gradients" else 0
        found = engine.compute(part, _make_gradient_forward(engine, chosen, count))
    return [
        _make_attribution(item, result, names)
        for item, result in zip(part.items, found, strict=True)
    ]


class _Result(NamedTuple):
    """Values of the tokens of a sequence, with its target."""

    target: int
    score: float
    values: np.ndarray
    effects: np.ndarray | None = None


def _make_attribution(item: Item, result: _Result | None, names: Sequence[str]) -> Attribution:
    record = item.record
    if result is None or item.ids is None:
        return Attribution(record.id, record.sequence, "", None, None, None, item.note)
    return Attribution(
        record.id,
        record.sequence,
        names[result.target],
        result.score,
        result.values,
        result.effects,
        item.note,
    )


# gradients


def _make_gradient_forward(
    engine: Engine, chosen: int | None, steps: int
) -> Callable[[dict[str, Tensor], list[int]], list[_Result]]:
    """What gives results of a batch; without steps the gradient is that at the sequence itself."""
    model = engine.model
    unknown: Any = engine.tokenizer.convert_tokens_to_ids("N")
    outer = [engine.tokenizer.pad_token_id, *engine.tokenizer.all_special_ids]

    def forward(inputs: dict[str, Tensor], lengths: list[int]) -> list[_Result]:
        ids = inputs["input_ids"]
        is_base = ~torch.isin(ids, torch.tensor(outer, device=ids.device))
        with torch.no_grad():
            logits, entries = _read_entries(model, inputs)
            targets = _choose_targets(logits, chosen)
            if steps:
                blank = {**inputs, "input_ids": torch.where(is_base, unknown, ids)}
                starts = _read_entries(model, blank)[1]
            else:
                starts = [torch.zeros_like(one) for one in entries]
        shares = [(step + 0.5) / steps for step in range(steps)] or [1.0]
        totals = [torch.zeros_like(one, dtype=torch.float32) for one in entries]
        for share in shares:
            points = [a + share * (b - a) for a, b in zip(starts, entries, strict=True)]
            slopes = _find_slopes(model, inputs, points, targets)
            for total, slope in zip(totals, slopes, strict=True):
                total += slope.float() / len(shares)
        shares_of_entries = [
            (slope * (entry - start)).sum(-1)
            for slope, entry, start in zip(totals, entries, starts, strict=True)
        ]
        values = torch.stack([one.reshape(ids.shape) for one in shares_of_entries]).sum(0)
        rows = _split_rows(values, is_base, lengths)
        scores = logits.float().gather(1, targets[:, None])[:, 0].tolist()
        return [_Result(*one) for one in zip(targets.tolist(), scores, rows, strict=True)]

    return forward


def _choose_targets(logits: Tensor, chosen: int | None) -> Tensor:
    """The target `(B,)` of every sequence."""
    if chosen is None:
        return logits.argmax(-1)
    return torch.full((len(logits),), chosen, device=logits.device)


def _find_entries(model: PreTrainedModel) -> list[nn.Module]:
    """Modules whose outputs are all that a model reads of the letters."""
    ngrams = getattr(model.base_model, "embed_ngrams", None)
    return [model.get_input_embeddings(), *([] if ngrams is None else [ngrams])]


def _read_entries(model: PreTrainedModel, inputs: dict[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Logits `(B, labels)`, and what the modules of letters gave."""
    kept: list[Tensor] = []
    with ExitStack() as stack:
        for module in _find_entries(model):
            hook = module.register_forward_hook(lambda _m, _i, output: kept.append(output))
            stack.callback(hook.remove)
        logits = model(**inputs).logits
    return logits, kept


def _find_slopes(
    model: PreTrainedModel, inputs: dict[str, Tensor], points: Sequence[Tensor], targets: Tensor
) -> tuple[Tensor, ...]:
    """Gradients of the targets' scores by what the modules of letters give, at some point."""
    leaves = [point.detach().requires_grad_() for point in points]
    with ExitStack() as stack, torch.enable_grad():
        for module, leaf in zip(_find_entries(model), leaves, strict=True):
            hook = module.register_forward_hook(lambda _m, _i, _o, leaf=leaf: leaf)
            stack.callback(hook.remove)
        logits = model(**inputs).logits
        # sequences do not see each other, so the gradient of the sum is that of each
        total = logits.gather(1, targets[:, None]).sum()
        return torch.autograd.grad(total, leaves)


def _split_rows(values: Tensor, is_base: Tensor, lengths: Sequence[int]) -> list[np.ndarray]:
    """Values of the bases of every sequence of a flat or padded batch."""
    if len(values) == 1 and values.shape[1] == sum(lengths):
        # batches of an engine are sorted, so the order of a pack is theirs
        pairs = zip(values[0].split(list(lengths)), is_base[0].split(list(lengths)), strict=True)
    else:
        pairs = zip(values, is_base, strict=True)
    return [row[mask].double().cpu().numpy() for row, mask in pairs]


# mutagenesis


def _mutate(engine: Engine, part: Part, chosen: int | None) -> list[_Result | None]:
    """Results from every change of one base; letters other than A, C, G and T stay."""
    plain = engine.compute(part, _make_forward(engine))
    bases: Any = engine.tokenizer.convert_tokens_to_ids(list(BASES))
    found: list[_Result | None] = [None] * len(part.items)
    places: dict[int, np.ndarray] = {}
    for row, (item, logits) in enumerate(zip(part.items, plain, strict=True)):
        if item.ids is not None:
            target = int(logits.argmax()) if chosen is None else chosen
            places[row] = np.flatnonzero(~np.isin(item.ids, engine.tokenizer.all_special_ids))
            effects = np.zeros((len(places[row]), len(BASES)))
            found[row] = _Result(target, float(logits[target]), effects.mean(1), effects)
    for changes, items in _group_changes(engine, part.items, places, bases):
        scores = engine.compute(Part(part.number, items), _make_forward(engine))
        for (row, place, base), logits in zip(changes, scores, strict=True):
            result = found[row]
            result.effects[place, base] = logits[result.target] - result.score
    for row, result in enumerate(found):
        if result is not None:
            values = -result.effects.sum(1) / (len(BASES) - 1)
            found[row] = result._replace(values=values)
    return found


def _group_changes(
    engine: Engine, items: Sequence[Item], places: dict[int, np.ndarray], bases: list[int]
) -> Iterator[tuple[list[tuple[int, int, int]], list[Item]]]:
    """Changes (row, place, base) and the changed sequences, as many as are read ahead."""
    changes: list[tuple[int, int, int]] = []
    changed: list[Item] = []
    tokens = 0
    for row, found in places.items():
        ids = items[row].ids
        for place, position in enumerate(found):
            if ids[position] not in bases:
                continue
            for base, token in enumerate(bases):
                if token == ids[position]:
                    continue
                mutant = ids.copy()
                mutant[position] = token
                changes.append((row, place, base))
                changed.append(Item(items[row].record, mutant, ""))
                tokens += len(mutant)
                if tokens >= engine.look_ahead * engine.token_budget:
                    yield changes, changed
                    changes, changed, tokens = [], [], 0
    if changes:
        yield changes, changed


def _make_forward(engine: Engine) -> Callable[[dict[str, Tensor], list[int]], list[np.ndarray]]:
    def forward(inputs: dict[str, Tensor], lengths: list[int]) -> list[np.ndarray]:
        with torch.inference_mode():
            return list(engine.model(**inputs).logits.float().cpu().numpy())

    return forward
