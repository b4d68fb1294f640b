"""What a trained arena model looks at: spans of attention, receptive fields, activation maps."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

from ..auto import AutoModelForSequencePairClassification
from ..baselines.peers import (
    PeerConfig,
    PeerForSequenceClassification,
    PeerForSequencePairClassification,
)
from ..metrics.spans import attention_span, receptive_field
from ..reporting.arena_plots import plot_maps, plot_reach
from ..reporting.files import write_json
from ..tasks import Task, fixed_adding_problem
from .arena import ArenaTaskOptions

# sequences of the figure in the paper
MAP_LENGTHS = (40, 240, 1006)


def load_run(folder: str | Path, path: str | Path | None = None) -> tuple[PreTrainedModel, Task]:
    """The model of a finished arena run and its task.

    Args:
        path: Files of the task: where they lie is not kept in the folder of a run.
    """
    folder = Path(folder)
    file = folder / "metrics.json"
    found = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    if "arena" not in found:
        raise ValueError(f"{folder} is not the folder of a finished arena run.")
    options = found["options"]["task"]
    if options["path"] is not None and path is None:
        raise ValueError(f"The run in {folder} was trained on files: their path is needed.")
    options["path"] = None if path is None else str(path)
    task = ArenaTaskOptions(**options).load()
    config = AutoConfig.from_pretrained(folder)
    if isinstance(config, PeerConfig):
        pair, single = PeerForSequencePairClassification, PeerForSequenceClassification
    else:
        pair, single = AutoModelForSequencePairClassification, AutoModelForSequenceClassification
    kind: Any = pair if task.is_pair else single
    return kind.from_pretrained(folder).eval(), task


def measure_spans(
    folder: str | Path,
    path: str | Path | None = None,
    *,
    num_samples: int = 100,
    num_queries: int = 8,
    part: str = "validation",
) -> dict[str, Any]:
    """Span of attention, where the model has attention maps, and receptive field by gradient.

    Both are written to `span.json`, the receptive field also as `reach.png`.

    Args:
        path: See `load_run`.
        num_samples: Sequences of the part; the arena takes 1000.
        num_queries: Tokens of each whose gradient is looked at.
    """
    model, task = load_run(folder, path)
    rows = task.parts[part]
    chosen = rows.select(np.arange(min(num_samples, len(rows))))
    found: dict[str, Any] = {"task": task.name, "part": part, "samples": len(chosen)}
    found["attention"] = _attention(model, task, chosen)
    trunk: Any = model.base_model
    sequences = (_only_input(task, chosen[index]) for index in range(len(chosen)))
    found["gradient"] = receptive_field(trunk, list(sequences), num_queries=num_queries)
    write_json(Path(folder) / "span.json", found)
    name = getattr(model.config, "trunk_type", model.config.model_type)
    plot_reach({name: np.array(found["gradient"]["curve"])}, Path(folder) / "reach.png")
    return found


def _attention(model: PreTrainedModel, task: Task, rows: Any) -> dict[str, Any] | None:
    """The span of attention, or None for models without attention maps over tokens."""
    trunk: Any = model.base_model
    inner = getattr(trunk, "trunk", trunk)
    if hasattr(inner, "set_attn_implementation"):
        try:
            # other implementations do not keep the weights
            inner.set_attn_implementation("eager")
        except ValueError:
            return None
    try:
        return attention_span(trunk, _batches(task, rows))
    except (ValueError, TypeError, AttributeError):
        return None


def _batches(task: Task, rows: Any) -> Iterator[dict[str, Any]]:
    collator = task.collator("batch")
    for index in range(len(rows)):
        example = {name: rows[index][name] for name in _inputs(task)}
        yield collator([example])


def _inputs(task: Task) -> list[str]:
    return ["input_ids" if task.inputs == "ids" else "input_values"]


def _only_input(task: Task, example: dict[str, Any]) -> dict[str, torch.Tensor]:
    name = _inputs(task)[0]
    kind = np.int64 if task.inputs == "ids" else np.float32
    return {name: torch.from_numpy(np.asarray(example[name]).astype(kind))[None]}


def draw_maps(
    folder: str | Path, lengths: Sequence[int] = MAP_LENGTHS, *, seed: int = 0
) -> list[dict[str, np.ndarray]]:
    """Activation maps of a trained adding model at some lengths, drawn to `maps.png`.

    Each has the input `values` `(N, 2)` and the outputs `(N, D)` after the `first` and the `last`
    block.
    """
    model, task = load_run(folder)
    if task.name != "adding":
        raise ValueError(f"Activation maps are for the task adding, got {task.name!r}.")
    found = []
    longest = getattr(model.config, "max_position_embeddings", None)
    for length in lengths:
        if isinstance(model.config, PeerConfig) and length > (longest or length):
            raise ValueError(f"The model is built for up to {longest} steps, got {length}.")
        values = fixed_adding_problem(1, length, seed=seed)[0]["input_values"]
        with torch.no_grad():
            output = model(input_values=torch.from_numpy(values)[None], output_hidden_states=True)
        states = output.hidden_states
        if not states or len(states) < 2:
            raise ValueError(f"{type(model).__name__} returns no hidden states of its blocks.")
        first, last = (states[place][0].numpy() for place in (1, -1))
        found.append({"values": values, "first": first, "last": last})
    plot_maps(found, Path(folder) / "maps.png")
    return found
