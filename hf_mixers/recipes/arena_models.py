"""The model of an arena run: a family of hf_mixers or any model type of transformers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedModel,
)
from transformers.utils import logging

from ..auto import FAMILIES, AutoModelForSequencePairClassification
from ..baselines.peer_configs import peer_config
from ..baselines.peers import (
    PeerConfig,
    PeerForMaskedLM,
    PeerForSequenceClassification,
    PeerForSequencePairClassification,
    PeerSizes,
)
from ..tasks import Task
from .arena_protocols import BASE_SIZES, PROTOCOL_SIZES, base_sizes, preset_name
from .models import new_model
from .options import ModelOptions

logger = logging.get_logger(__name__)

# share of parameters that a model may have more than the base Transformer, by the arena's rules
APPLES_TO_APPLES = 0.1
_WIDEST = 4096
# share of the parameters by which a fitted model may differ without a word
_NEAR = 0.05
_POSITION_TABLES = ("position_embeddings", "position_embedding", "embed_positions", "wpe")


@dataclass
class ArenaModelOptions(ModelOptions):
    """Which model, and how large."""

    family: str = field(
        default="chordmixer",
        metadata={"help": "A family of hf_mixers, or a model type of transformers."},
    )
    published: bool = field(
        default=False, metadata={"help": "Take the family's published settings for the task."}
    )
    parameters: int | None = field(
        default=None,
        metadata={"help": "Choose the width that gives about this many parameters."},
    )
    apples_to_apples: bool = field(
        default=False,
        metadata={"help": "Refuse over 1.1 times the parameters of the base Transformer."},
    )
    protocol: str | None = field(
        default=None,
        metadata={"help": "Publication that gives sizes of peers and steps to compare with."},
    )

    def __post_init__(self):
        super().__post_init__()
        if self.published and self.family not in FAMILIES:
            raise ValueError(f"published requires a family of hf_mixers, got {self.family!r}.")
        if self.parameters is not None and (self.published or self.parameters < 1):
            raise ValueError(
                f"parameters={self.parameters} was given: a positive number without published is"
                " accepted."
            )


def make_arena_model(options: ArenaModelOptions, task: Task) -> PreTrainedModel:
    """A new classifier for a task, at the size that is asked for."""
    options = _fit(options, task)
    model = _build(options, task, _classifier(task))
    if options.apples_to_apples:
        check_parameters(model, task)
    return model


def make_language_model(model: PreTrainedModel, task: Task) -> PreTrainedModel:
    """A new model of the same config that predicts tokens, whose trunk is that of `model`."""
    if task.inputs != "ids":
        raise ValueError(
            f"Self-pretraining predicts tokens, got the task {task.name} with values: for images"
            " pixels='ids' gives tokens."
        )
    language: PreTrainedModel
    if isinstance(model.config, PeerConfig):
        language = PeerForMaskedLM(model.config)
    else:
        family = FAMILIES[model.config.model_type]
        auto = AutoModelForCausalLM if is_causal(model) else AutoModelForMaskedLM
        language = family.model_class(auto)(model.config)
    language.base_model.load_state_dict(model.base_model.state_dict())
    return language


def is_causal(model: PreTrainedModel) -> bool:
    """Whether a token's output depends on earlier tokens only."""
    if isinstance(model.config, PeerConfig):
        return model.config.is_causal
    return bool(getattr(model.config, "causal", False))


def count_parameters(model: nn.Module) -> int:
    """Parameters that learn, without tables of positions, which grow with the longest sequence."""
    return sum(
        one.numel()
        for name, one in model.named_parameters()
        if one.requires_grad and not any(table in name for table in _POSITION_TABLES)
    )


def count_base(task: Task) -> int:
    """Parameters of the arena's base Transformer for a task."""
    options = ArenaModelOptions(family="bert", protocol="lra")
    with torch.device("meta"):
        return count_parameters(_build(options, task, _classifier(task)))


def check_parameters(model: PreTrainedModel, task: Task) -> float:
    """Parameters relative to the base Transformer; an error if over 10% more."""
    if task.name not in BASE_SIZES:
        raise ValueError(
            f"The arena has a base Transformer for {', '.join(BASE_SIZES)}, got {task.name!r}."
        )
    count, base = count_parameters(model), count_base(task)
    if count > (1 + APPLES_TO_APPLES) * base:
        raise ValueError(
            f"The model has {count:,} parameters and the arena's base Transformer {base:,}: at most"
            f" {APPLES_TO_APPLES:.0%} more are accepted."
        )
    return count / base


def _classifier(task: Task) -> type:
    return (
        AutoModelForSequencePairClassification
        if task.is_pair
        else (AutoModelForSequenceClassification)
    )


def _build(options: ArenaModelOptions, task: Task, auto_class: type) -> PreTrainedModel:
    fields = task.config_fields()
    if options.family not in FAMILIES:
        return _build_peer(options, task, fields)
    if task.inputs == "ids":
        # ids of these tasks leave no room for further special tokens, and published models of
        # pixels read values
        fields |= {"mask_token_id": task.mask_token_id, "cls_token_id": None, "sep_token_id": None}
        fields["input_features"] = None
    else:
        fields |= dict.fromkeys(
            ("pad_token_id", "cls_token_id", "sep_token_id", "mask_token_id"), None
        )
    chosen = options
    if options.published:
        sizes = PROTOCOL_SIZES.get((options.protocol, task.name), {})
        settings: Any = {**sizes, **options.config_fields()}
        preset = preset_name(options.family, task.name)
        chosen = replace(options, published=False, preset=preset, settings=settings or None)
    return new_model(chosen, fields, auto_class=auto_class)


def _build_peer(
    options: ArenaModelOptions, task: Task, fields: Mapping[str, Any]
) -> PreTrainedModel:
    settings = options.config_fields()
    sizes = base_sizes(options.protocol, task.name)
    own = {name: settings.pop(name) for name in list(settings) if name in vars(PeerSizes())}
    config = peer_config(
        options.family,
        max_length=task.max_length,
        vocab_size=task.vocab_size,
        input_features=task.input_features,
        pad_token_id=task.pad_token_id,
        sizes=replace(sizes, **own),
        settings=settings,
        problem_type=task.problem_type,
        num_tasks=task.num_tasks,
        **({"id2label": fields["id2label"]} if "id2label" in fields else {"num_labels": 1}),
    )
    kind = PeerForSequencePairClassification if task.is_pair else PeerForSequenceClassification
    return kind(config)


def _fit(options: ArenaModelOptions, task: Task) -> ArenaModelOptions:
    """The options with the width that gives the number of parameters nearest to the wanted one."""
    if options.parameters is None:
        return options
    wanted = options.parameters

    def count(width: int) -> int:
        with torch.device("meta"):
            return count_parameters(_build(_widen(options, width), task, _classifier(task)))

    low, high = 1, 1
    while count(high) < wanted and high < _WIDEST:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) < wanted else (low, middle)
    best = min((low, high), key=lambda width: abs(count(width) - wanted))
    fitted = replace(_widen(options, best), parameters=None)
    if "intermediate_size" not in options.config_fields():
        fitted = _refine(fitted, task, wanted)
    with torch.device("meta"):
        found = count_parameters(_build(fitted, task, _classifier(task)))
    if abs(found - wanted) > _NEAR * wanted:
        logger.warning(
            f"{options.family} has {found:,} parameters at the width that comes nearest to the"
            f" {wanted:,} that were asked for."
        )
    return fitted


def _refine(options: ArenaModelOptions, task: Task, wanted: int) -> ArenaModelOptions:
    """The same with the width inside the MLPs that comes nearest: counts are linear in it."""
    settings = options.config_fields()
    inner = settings["intermediate_size"]

    def count(size: int) -> tuple[int, ArenaModelOptions]:
        given: Any = {**settings, "intermediate_size": size}
        changed = replace(options, settings=given)
        with torch.device("meta"):
            return count_parameters(_build(changed, task, _classifier(task))), changed

    (now, _), (next_one, _) = count(inner), count(inner + 8)
    if next_one == now:
        return options
    size = max(8, inner + round(8 * (wanted - now) / (next_one - now)))
    return count(size)[1]


# config fields by width, in units that every family can have
_WIDTHS: dict[str, Callable[[int], dict[str, int]]] = {
    "chordmixer": lambda width: {"track_size": width, "intermediate_size": 8 * width},
    "paramixer": lambda width: {"hidden_size": 4 * width, "intermediate_size": 4 * width},
}


def _widen(options: ArenaModelOptions, width: int) -> ArenaModelOptions:
    sizes = _WIDTHS.get(options.family, _usual_sizes)(width)
    settings: Any = {**sizes, **options.config_fields()}
    return replace(options, settings=settings)


def _usual_sizes(width: int) -> dict[str, int]:
    # eight channels, which four heads can share
    return {"hidden_size": 8 * width, "intermediate_size": 16 * width}
