"""What a Hugging Face Inference Endpoint calls: sequences in, plain Python objects out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from transformers import AutoConfig

from .embed import check_pooling, embed_part
from .engine import Engine
from .loading import load_classifier, load_encoder, load_masked_lm, make_engine
from .masked import MASK, predict_masked
from .predict import predict_part
from .records import Record, parse_text

# letters in one request
MOST_LETTERS = 10_000_000
_EMBEDDING = {"layer": -1, "pooling": "mean"}


class EndpointHandler:
    """A model of a folder behind an address.

    A request is `{"inputs": ..., "parameters": {...}}`: a sequence, FASTA as text, or a list of
    sequences. A classifier answers with a label, its score and all scores; a masked language model
    with the bases at every `[MASK]`; all others, and `{"task": "embed"}`, with a vector. Parameters
    of vectors are `layer` and `pooling`; `both_strands` averages both strands of DNA in any answer.

    Args:
        path: Folder of the model.
    """

    def __init__(self, path: str = "", **options: Any):
        names = AutoConfig.from_pretrained(path).architectures or []
        self.task = "embed"
        load: Any = load_encoder
        if any(name.endswith("ForSequenceClassification") for name in names):
            self.task, load = "predict", load_classifier
        elif any(name.endswith("ForMaskedLM") for name in names):
            self.task, load = "fill", load_masked_lm
        self.engine: Engine = make_engine(path, None, load, options)

    def __call__(self, data: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Answers in the order of the sequences; what cannot be answered is a ValueError."""
        if "inputs" not in data:
            raise ValueError(f"A request has 'inputs', got {', '.join(data) or 'nothing'}.")
        parameters = dict(data.get("parameters") or {})
        task = parameters.pop("task", self.task)
        both_strands = parameters.pop("both_strands", False)
        known = {"embed", self.task}
        if task not in known:
            raise ValueError(f"task must be one of {', '.join(sorted(known))}, got {task!r}.")
        if unknown := sorted(set(parameters) - set(_EMBEDDING if task == "embed" else ())):
            raise ValueError(f"{unknown[0]!r} is not a parameter of {task}.")
        if not isinstance(both_strands, bool):
            raise ValueError(f"both_strands must be true or false, got {both_strands!r}.")
        engine = replace(self.engine, both_strands=True) if both_strands else self.engine
        records = _read(data["inputs"])
        if task == "fill" and not any(MASK in text for _, text in records):
            task = "embed"
        if task == "fill":
            return [one._asdict() for one in predict_masked(engine, records)]
        return _answer(engine, task, records, parameters)


def _answer(
    engine: Engine, task: str, records: Sequence[tuple[str, str]], parameters: dict[str, Any]
) -> list[dict[str, Any]]:
    numbered = (Record(number, *pair) for number, pair in enumerate(records))
    answers: list[dict[str, Any]] = []
    settings = {**_EMBEDDING, **parameters}
    check_pooling(settings["pooling"], settings["layer"], engine.both_strands)
    for part in engine.read_parts(numbered):
        if task == "predict":
            answers += [_describe(one._asdict()) for one in predict_part(engine, part)]
            continue
        for one in embed_part(engine, part, **settings):
            vector = None if one.vector is None else one.vector.tolist()
            answers.append(_describe({"id": one.id, "vector": vector, "note": one.note}))
    return answers


def _read(inputs: Any) -> list[tuple[str, str]]:
    if isinstance(inputs, str):
        records = parse_text(inputs)
    elif isinstance(inputs, Sequence) and all(isinstance(one, str) for one in inputs):
        records = [(f"sequence_{number}", one) for number, one in enumerate(inputs, 1)]
    else:
        kind = type(inputs).__name__
        raise ValueError(f"inputs must be a text or a list of texts, got {kind}.")
    if not records:
        raise ValueError("inputs must hold at least one sequence, got none.")
    total = sum(len(text) for _, text in records)
    if total > MOST_LETTERS:
        raise ValueError(f"{total:,} letters were sent: at most {MOST_LETTERS:,} are accepted.")
    return records


def _describe(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without what is empty."""
    return {name: value for name, value in answer.items() if value not in (None, "")}
