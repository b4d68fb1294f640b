"""What a checkpoint is, from the files next to it: nothing of its weights is loaded."""

import json
import math
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, HFValidationError, RepositoryNotFoundError
from safetensors import safe_open
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig

# labels of more classes are counted
MANY_LABELS = 20


def describe_checkpoint(checkpoint: str) -> dict[str, Any]:
    """Family, sizes, lengths, labels, tokenizer, training and results of a checkpoint, by name.

    Args:
        checkpoint: A folder, or the name of a repository on the Hub.
    """
    try:
        config = AutoConfig.from_pretrained(checkpoint)
    except (OSError, HFValidationError) as error:
        raise ValueError(
            f"{checkpoint!r} is neither the folder nor the name of a model."
        ) from error
    found: dict[str, Any] = {
        "model type": config.model_type,
        "class": ", ".join(config.architectures or []) or "unknown",
        "parameters": _count_parameters(checkpoint),
        "blocks": getattr(config, "num_hidden_layers", None),
        "width": getattr(config, "hidden_size", None),
        "input": _describe_input(config),
        "lengths": _describe_lengths(config),
        "pooling": getattr(config, "pooling", None),
        "labels": _describe_labels(config),
        "tokenizer": _describe_tokenizer(checkpoint),
    }
    found |= _describe_card(checkpoint)
    return {name: value for name, value in found.items() if value is not None}


def _count_parameters(checkpoint: str) -> str | None:
    path = _find(checkpoint, "model.safetensors")
    if path is None:
        return None
    with safe_open(path, "pt") as file:
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
    return f"{sum(map(math.prod, shapes)):,}"


def _describe_input(config: PreTrainedConfig) -> str | None:
    kind = getattr(config, "main_input", None)
    if kind == "input_ids":
        return f"input_ids, vocabulary of {config.vocab_size}"
    if kind == "input_values":
        return f"input_values, {config.input_features} features"
    return kind


def _describe_lengths(config: PreTrainedConfig) -> str | None:
    built = getattr(config, "max_position_embeddings", None)
    if built is None:
        return None
    if getattr(config, "pooling", None) == "flat":
        return f"exactly {built:,} tokens"
    if getattr(config, "length_limit", None) is not None:
        return f"up to {built:,} tokens, longer sequences are refused"
    return f"built for up to {built:,} tokens"


def _describe_labels(config: PreTrainedConfig) -> str | list[str] | None:
    is_classifier = any("Classification" in name for name in config.architectures or [])
    if not is_classifier:
        return None
    names = [str(name) for name in config.id2label.values()]
    if config.problem_type == "regression":
        return f"{len(names)} numbers" if len(names) > 1 else "a number"
    return names if len(names) <= MANY_LABELS else f"{len(names)} classes"


def _describe_tokenizer(checkpoint: str) -> str | None:
    if _find(checkpoint, "tokenizer_config.json") is None:
        return None
    return type(AutoTokenizer.from_pretrained(checkpoint)).__name__


def _describe_card(checkpoint: str) -> dict[str, Any]:
    """Where the model was trained and its results, from the metadata of its card."""
    path = _find(checkpoint, "README.md")
    if path is None:
        return {}
    data = ModelCard.load(path).data
    found: dict[str, Any] = {"licence": data.license, "base model": data.base_model}
    results = data.eval_results or []
    if results:
        found["trained on"] = results[0].dataset_name
        found["results"] = [
            f"{one.metric_name or one.metric_type} {one.metric_value:.4g}"
            for one in results
            if isinstance(one.metric_value, (int, float))
        ]
    metrics = _find(checkpoint, "metrics.json")
    if metrics is not None:
        content = json.loads(Path(metrics).read_text(encoding="utf-8"))
        if content.get("smoke"):
            found["smoke run"] = "trained for seconds, the results mean nothing"
        versions = content.get("environment", {}).get("versions", {})
        found["versions"] = [
            f"{name} {versions[name]}"
            for name in ("hf_mixers", "torch", "transformers")
            if name in versions
        ]
    return found


def _find(checkpoint: str, name: str) -> str | None:
    """A file of a folder or of a repository, if it is there."""
    if Path(checkpoint).is_dir():
        path = Path(checkpoint) / name
        return str(path) if path.is_file() else None
    try:
        return hf_hub_download(checkpoint, name)
    except (EntryNotFoundError, RepositoryNotFoundError, HFValidationError):
        return None
