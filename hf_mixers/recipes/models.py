"""The model that a recipe trains: a new one of a family, or one from a checkpoint."""

from collections.abc import Mapping
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PreTrainedModel,
)

from ..auto import Family, find_family
from .options import CheckpointOptions, ModelOptions

# config fields of new models, where recipes differ from the defaults of the family
DEFAULT_SETTINGS: dict[str, dict[str, Any]] = {
    "chordmixer": {
        "track_size": 16,
        "intermediate_size": 128,
        "pre_norm": "layer",
        "block_order": "mix_rotate",
    },
}


def new_model(
    options: ModelOptions,
    fields: Mapping[str, Any],
    *,
    suggestions: Mapping[str, Any] | None = None,
    auto_class: type = AutoModelForSequenceClassification,
) -> PreTrainedModel:
    """A new model of a family.

    Args:
        fields: What data and task require, whatever the settings.
        suggestions: Fields of a model without preset, where the settings say nothing else.
        auto_class: Which of the family's models.
    """
    family = find_family(options.family)
    model_class = family.model_class(auto_class)
    settings = options.config_fields()
    _check_fields(family, {**settings, **fields})
    try:
        if options.preset:
            config = family.config.preset(options.preset, **{**settings, **fields})
        else:
            defaults = {**(suggestions or {}), **DEFAULT_SETTINGS.get(options.family, {})}
            config = family.config(**{**defaults, **settings, **fields})
    except StrictDataclassError as error:
        # raised for a value of the wrong type, in several lines
        raise ValueError(" ".join(str(error).split())) from error
    return model_class(config)


def _check_fields(family: Family, settings: Mapping[str, Any]) -> None:
    known = known_fields(family)
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise ValueError(name_closest(unknown[0], known, "config field"))


def known_fields(family: Family) -> set[str]:
    """Names that the config of a family accepts."""
    return set(family.config().to_dict()) | {"num_labels", "id2label", "label2id", "problem_type"}


def name_closest(given: str, accepted: set[str], what: str) -> str:
    """One sentence about a name that is not accepted, with the closest one that is.

    >>> name_closest("track_sise", {"track_size", "pooling"}, "config field")
    "'track_sise' is not a config field; did you mean 'track_size'?"
    """
    from difflib import get_close_matches

    found = get_close_matches(given, sorted(accepted), n=1)
    hint = f"; did you mean {found[0]!r}?" if found else "."
    return f"{given!r} is not a {what}{hint}"


def load_checkpoint(options: CheckpointOptions, fields: Mapping[str, Any]) -> PreTrainedModel:
    """A checkpoint with a new head, or with its own if that has the same classes."""
    if options.checkpoint is None:
        raise ValueError("load_checkpoint requires options with a checkpoint, got none.")
    before = AutoConfig.from_pretrained(options.checkpoint).id2label
    config = AutoConfig.from_pretrained(options.checkpoint, **fields)
    model = AutoModelForSequenceClassification.from_pretrained(
        options.checkpoint, config=config, ignore_mismatched_sizes=True
    )
    if before != config.id2label:
        # as many classes as before may be others
        model.classifier = type(model)(config).to(model.dtype).classifier
    model.base_model.requires_grad_(not options.frozen)
    return model
