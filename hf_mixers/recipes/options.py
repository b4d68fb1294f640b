"""Settings that recipes share: of the Trainer, of the model and of the evaluation."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from transformers import TrainingArguments

from ..training import MixerTrainingArguments

Arguments = TypeVar("Arguments", bound=TrainingArguments)


class Left:
    """A default that was left as it is: the number that holds where nothing else decides.

    What a user sets is a plain number, also where it is the same one.

    >>> default = LeftFloat(6)
    >>> default == 6.0, isinstance(default, Left), isinstance(6.0, Left)
    (True, True, False)
    """


class LeftFloat(Left, float):
    """Such a default with a fraction."""


class LeftInt(Left, int):
    """Such a default that is whole."""


@dataclass
class RunArguments(MixerTrainingArguments):
    """Arguments of the Trainer with the defaults of recipes, which may change further ones."""

    lr_scheduler_type: str = field(default="cosine")
    warmup_steps: float = field(default=0.05)
    eval_strategy: str = field(default="epoch")
    save_strategy: str = field(default="epoch")
    save_total_limit: int = field(default=2)
    logging_steps: float = field(default=50)
    report_to: str = field(default="none")
    overwrite: bool = field(
        default=False,
        metadata={"help": "Delete results and checkpoints of an earlier run in the output folder."},
    )
    license: str | None = field(
        default=None,
        metadata={"help": "Licence that the card names, such as apache-2.0; default: none."},
    )


@dataclass
class RowArguments(RunArguments):
    """The same for rows that are batched by number: tables, images, series."""

    train_token_budget: int | None = field(default=None)
    eval_token_budget: int | None = field(default=None)
    load_best_model_at_end: bool = field(default=True)
    metric_for_best_model: str = field(default="loss")
    remove_unused_columns: bool = field(default=False)


@dataclass
class ModelOptions:
    """Which model: a new one of a family, or one from a checkpoint."""

    family: str = field(default="chordmixer", metadata={"help": "Family of a new model."})
    settings: str | None = field(
        default=None,
        metadata={"help": "JSON of config fields, which change defaults or those of a checkpoint."},
    )
    preset: str | None = field(
        default=None,
        metadata={"help": "Published settings of the family, which --settings may change."},
    )

    def __post_init__(self) -> None:
        self.config_fields()

    def config_fields(self) -> dict[str, Any]:
        """The settings as a mapping; they may be given as such, too."""
        return parse_settings(self.settings)


@dataclass
class StartOptions(ModelOptions):
    """Which model: a new one, or a checkpoint to start from."""

    checkpoint: str | None = field(
        default=None, metadata={"help": "Folder or Hub name of a pre-trained model to start from."}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.checkpoint and self.preset:
            raise ValueError("preset is for new models, not for a checkpoint.")


@dataclass
class CheckpointOptions(StartOptions):
    """Which model, and what of it is trained."""

    frozen: bool = field(
        default=False, metadata={"help": "Train the head only (a probe) on top of the checkpoint."}
    )
    head_start: bool = field(
        default=True,
        metadata={
            "help": "Start the head of a checkpoint as a logistic regression on its pooled vectors."
        },
    )
    class_weights: bool = field(
        default=False, metadata={"help": "Weigh classes by n / (C n_c) of the training part."}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frozen and not self.checkpoint:
            raise ValueError("frozen requires a checkpoint: a new model has learned nothing yet.")


@dataclass
class EvaluationOptions:
    """How long to train, and how results are reported."""

    report_on: str = field(
        default="test",
        metadata={"help": "'test', or 'validation' as long as settings are being chosen."},
    )
    patience: int | None = field(
        default=3,
        metadata={"help": "Stop after this many evaluations without improvement; none: never."},
    )
    smoke: bool = field(default=False, metadata={"help": "A run of seconds, to see that it works."})

    def __post_init__(self) -> None:
        if self.report_on not in ("test", "validation"):
            raise ValueError(f"report_on must be test or validation, got {self.report_on!r}.")
        if self.patience is not None and self.patience < 1:
            raise ValueError(
                f"patience must be at least 1, or none for no early stopping, got {self.patience}."
            )


@dataclass
class RowEvaluationOptions(EvaluationOptions):
    """The same where there is one baseline to compare with."""

    baseline: bool = field(default=True, metadata={"help": "Fit a baseline on the same rows."})
    patience: int | None = field(
        default=16,
        metadata={"help": "Stop after this many evaluations without improvement; none: never."},
    )


def parse_settings(given: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """Config fields as a mapping, or as the JSON of a command line.

    >>> parse_settings('{"track_size": 8}'), parse_settings(None)
    ({'track_size': 8}, {})
    """
    if given is None or isinstance(given, Mapping):
        return dict(given or {})
    try:
        settings = json.loads(given)
    except json.JSONDecodeError as error:
        raise ValueError(f'settings must be JSON such as {{"track_size": 8}}: {error}.') from error
    if not isinstance(settings, dict):
        raise ValueError(f"settings must be a JSON object, got {given}.")
    return settings


def change_arguments(arguments: Arguments, **changes: Any) -> Arguments:
    """A copy of arguments with some changed; the ones given stay as they are."""
    known = {field.name for field in fields(arguments)}
    unknown = [name for name in changes if name not in known]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not an argument of {type(arguments).__name__}.")
    return replace(arguments, **changes)


def settle(arguments: Arguments) -> Arguments:
    """Arguments in which defaults that were left are plain numbers, which checkpoints can hold."""
    values = {one.name: getattr(arguments, one.name) for one in fields(arguments) if one.init}
    plain = {
        name: float(value) if isinstance(value, LeftFloat) else int(value)
        for name, value in values.items()
        if isinstance(value, (LeftFloat, LeftInt))
    }
    return change_arguments(arguments, **plain) if plain else arguments


def find_checkpoint(arguments: TrainingArguments) -> str | bool | None:
    """`resume_from_checkpoint` as a folder, or as true for the last one in the output folder."""
    given = arguments.resume_from_checkpoint
    if isinstance(given, str) and given.lower() in ("true", "false"):
        return given.lower() == "true"
    return given
