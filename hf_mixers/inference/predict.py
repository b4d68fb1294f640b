"""Classes and their probabilities, or numbers, for sequences of any source."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from .engine import Engine, Item, Part, stream_parts
from .loading import load_classifier, make_engine
from .records import Source, read_records


class Prediction(NamedTuple):
    """What a model says of a record; label and scores are None where it could not be read.

    Args:
        label: The most probable class, or the number of a regression.
        probability: That of the label; None for numbers.
        scores: Probability of every class, or the numbers, by name.
        note: Why a record was not read, or what a reader should know of it.
    """

    id: str
    length: int
    label: str | float | None
    probability: float | None
    scores: dict[str, float] | None
    note: str


def predict(
    model: str | PreTrainedModel,
    source: Source,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    rc_average: bool = False,
    token_budget: int = 65536,
    shard: tuple[int, int] = (0, 1),
    strict: bool = False,
    **options: Any,
) -> Iterator[Prediction]:
    """Predictions for the records of a source, one by one, in its order.

    Args:
        model: A sequence classifier, or its folder or Hub name.
        source: See `read_records`.
        tokenizer: That of a model which is given as such.
        rc_average: Average the probabilities of both strands.
        token_budget: Most tokens in a batch.
        shard: `(i, n)` reads every n-th record, from the i-th on.
        strict: A record that cannot be read is an error instead of a note.
        options: See `load_classifier` (`device`, `dtype`, `compile`) and `read_records`.
    """
    engine = make_engine(
        model,
        tokenizer,
        load_classifier,
        options,
        token_budget=token_budget,
        both_strands=rc_average,
        strict=strict,
    )
    records = read_records(source, shard=shard, **options)
    return stream_parts(engine, records, predict_part)


def predict_part(engine: Engine, part: Part) -> list[Prediction]:
    """Predictions for the records of one part."""
    engine.watch_frame(part)
    config = engine.model.config
    is_classes = config.problem_type not in ("regression", "multi_label_classification")

    def forward(inputs: dict[str, Tensor], lengths: list[int]) -> list[np.ndarray]:
        with torch.inference_mode():
            logits = engine.model(**inputs).logits.float()
        if is_classes:
            logits = logits.softmax(-1)
        elif config.problem_type == "multi_label_classification":
            logits = logits.sigmoid()
        found = logits.cpu().numpy()
        return list(engine.restore(found) if config.problem_type == "regression" else found)

    results = engine.compute(part, forward)
    id2label: Any = config.id2label
    names = [str(id2label[number]) for number in range(config.num_labels)]
    return [
        _make_prediction(item, scores, names, is_classes, config.problem_type)
        for item, scores in zip(part.items, results, strict=True)
    ]


def _make_prediction(item: Item, scores, names, is_classes, problem_type) -> Prediction:
    name, length, note = item.record.id, item.length, item.note
    if scores is None:
        return Prediction(name, length, None, None, None, note)
    values = dict(zip(names, map(float, scores), strict=True))
    if problem_type == "regression":
        label: str | float = values[names[0]] if len(names) == 1 else ""
        return Prediction(name, length, label, None, values, note)
    if is_classes:
        best = int(np.argmax(scores))
        label, probability = names[best], float(scores[best])
    else:
        label = ",".join(one for one, score in values.items() if score >= 0.5)
        probability = None
    return Prediction(name, length, label, probability, values, note)


class PredictionTable:
    """Predictions as rows of a table.

    Args:
        config: That of the model.
        top: How many classes a row names, most probable first.
        all_scores: Whether a row has the probability of every class, or every number.
    """

    def __init__(self, config: PreTrainedConfig, top: int = 1, all_scores: bool = False):
        id2label: Any = config.id2label
        self.names = [str(id2label[number]) for number in range(config.num_labels)]
        is_classes = config.problem_type not in ("regression", "multi_label_classification")
        if top < 1 or (top > 1 and not is_classes) or top > len(self.names):
            raise ValueError(f"top={top} was given: 1 to {len(self.names)} classes are accepted.")
        self.top, self.all_scores = top, all_scores

    @property
    def columns(self) -> list[str]:
        names = ["id", "length", "label", "probability"]
        for rank in range(2, self.top + 1):
            names += [f"label_{rank}", f"probability_{rank}"]
        names += [f"score_{name}" for name in self.names] if self.all_scores else []
        return [*names, "note"]

    def rows(self, engine: Engine, part: Part) -> list[dict[str, Any]]:
        """A row for every record of a part."""
        return [self._make_row(one) for one in predict_part(engine, part)]

    def _make_row(self, one: Prediction) -> dict[str, Any]:
        row = dict.fromkeys(self.columns)
        row |= {"id": one.id, "length": one.length, "note": one.note}
        row |= {"label": one.label, "probability": one.probability}
        if one.scores is not None:
            ranked = sorted(one.scores, key=lambda name: -one.scores[name])[1 : self.top]
            for rank, name in enumerate(ranked, 2):
                row |= {f"label_{rank}": name, f"probability_{rank}": one.scores[name]}
            if self.all_scores:
                row |= {f"score_{name}": score for name, score in one.scores.items()}
        return row
