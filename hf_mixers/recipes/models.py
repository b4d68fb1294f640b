"""The model that a recipe trains: a new one of a family, or one from a checkpoint."""

from collections.abc import Mapping
from typing import Any, get_args

from huggingface_hub.errors import StrictDataclassError
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from ..auto import FAMILIES, Family
from ..models.configuration_mixer import MixerConfig
from .options import CheckpointOptions, ModelOptions, StartOptions

# config fields of new models, where recipes differ from the defaults of the family
DEFAULT_SETTINGS: dict[str, dict[str, Any]] = {
    "chordmixer": {
        "track_size": 16,
        "intermediate_size": 128,
        "pre_norm": "layer",
        "block_order": "mix_rotate",
    },
}


def find_family(name: str) -> Family:
    """The family of a name."""
    if name not in FAMILIES:
        raise ValueError(f"family must be one of {', '.join(FAMILIES)}, got {name!r}.")
    return FAMILIES[name]


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
    config_class: Any = family.config
    settings = _read_none(config_class, settings)
    try:
        if options.preset:
            config = config_class.preset(options.preset, **{**settings, **fields})
        else:
            defaults = {**(suggestions or {}), **DEFAULT_SETTINGS.get(options.family, {})}
            config = config_class(**{**defaults, **settings, **fields})
    except StrictDataclassError as error:
        # raised for a value of the wrong type, in several lines
        raise ValueError(" ".join(str(error).split())) from error
    return model_class(config)


def _read_none(config_class: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which the word `none` is None, of fields that have numbers."""
    if "none" not in settings.values() or not issubclass(config_class, MixerConfig):
        return dict(settings)
    bases = [base for base in config_class.__mro__ if issubclass(base, MixerConfig)]
    kinds = {name: kind for base in bases for name, kind in base.__annotations__.items()}
    numbers = {name for name, kind in kinds.items() if set(get_args(kind)) & {int, float}}
    return {
        name: None if value == "none" and name in numbers else value
        for name, value in settings.items()
    }


def _check_fields(family: Family, settings: Mapping[str, Any]) -> None:
    known = known_fields(family)
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise ValueError(name_closest(unknown[0], known, "config field"))


def known_fields(family: Family) -> set[str]:
    """Names that the config of a family accepts."""
    return set(family.config().to_dict()) | {"num_labels", "id2label", "label2id", "problem_type"}


def known_fields_of(model_type: str) -> set[str]:
    """The same for the name of a family, or of a model type of transformers."""
    if model_type in FAMILIES:
        return known_fields(FAMILIES[model_type])
    if model_type in CONFIG_MAPPING:
        kind = CONFIG_MAPPING[model_type]
        return set(kind().to_dict()) | set(kind.attribute_map)
    return set()


def fields_of_checkpoint(checkpoint: str) -> set[str]:
    """Names that the config of a checkpoint holds."""
    return set(AutoConfig.from_pretrained(checkpoint).to_dict())


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
    config = _change_config(options, fields)
    model = AutoModelForSequenceClassification.from_pretrained(
        options.checkpoint, config=config, ignore_mismatched_sizes=True
    )
    _carry_statistics(model, options.checkpoint)
    if before != config.id2label:
        # as many classes as before may be others
        new = type(model)(config).to(model.dtype)
        model.classifier = new.classifier
        if getattr(new, "kmer_classifier", None) is not None:
            model.kmer_classifier = new.kmer_classifier
    model.base_model.requires_grad_(not options.frozen)
    return model


def load_masked_lm(options: StartOptions) -> PreTrainedModel:
    """A masked language model from a checkpoint; parts that its settings change begin anew."""
    if options.checkpoint is None:
        raise ValueError("load_masked_lm requires options with a checkpoint, got none.")
    model = AutoModelForMaskedLM.from_pretrained(
        options.checkpoint, config=_change_config(options, {}), ignore_mismatched_sizes=True
    )
    _carry_statistics(model, options.checkpoint)
    return model


def _change_config(options: StartOptions, fields: Mapping[str, Any]) -> PreTrainedConfig:
    """The config of a checkpoint with the settings that are given, and with further fields."""
    settings = options.config_fields()
    if "none" in settings.values():
        settings = _read_none(type(AutoConfig.from_pretrained(options.checkpoint)), settings)
    try:
        config = AutoConfig.from_pretrained(options.checkpoint, **{**settings, **fields})
    except StrictDataclassError as error:
        raise ValueError(" ".join(str(error).split())) from error
    unknown = [name for name in settings if name not in config.to_dict()]
    if unknown:
        raise ValueError(name_closest(unknown[0], set(config.to_dict()), "config field"))
    return config


def _carry_statistics(model: PreTrainedModel, checkpoint: str) -> None:
    """Give a pooled vector of another size the statistics that a checkpoint has of its tokens.

    Loading leaves buffers of another size as they are in memory. The k-mer part comes last.
    """
    norm: Any = getattr(model.base_model, "pooled_norm", None)
    if norm is None:
        return
    stored: Any = AutoModel.from_pretrained(checkpoint)
    before = stored.pooled_norm
    if before is not None and before.running_mean.shape == norm.running_mean.shape:
        return
    norm.running_mean.zero_()
    norm.running_var.fill_(1)
    norm.num_batches_tracked.zero_()
    width, width_before = (c.pooled_size - c.kmer_width for c in (model.config, stored.config))
    if before is not None and width == width_before:
        norm.running_mean[:width] = before.running_mean[:width]
        norm.running_var[:width] = before.running_var[:width]
        norm.num_batches_tracked.copy_(before.num_batches_tracked)
