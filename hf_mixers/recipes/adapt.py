"""Settings of a fine-tuning that follow from the data and from what is fine-tuned.

What a user sets stays; what is left at its default is chosen here for pre-trained models. Rates,
decay and dropout come from short runs on genes of twelve genera with another pre-trained model, and
were not compared again with this one; the number of tokens was set by the time at hand.
"""

from dataclasses import fields
from typing import Any, TypeVar

from transformers import TrainingArguments

from .options import CheckpointOptions, change_arguments

Arguments = TypeVar("Arguments", bound=TrainingArguments)

# of the Trainer, for pre-trained models
TRAINING: dict[str, Any] = {
    "learning_rate": 1e-3,
    "muon_learning_rate": 6e-3,
    "weight_decay": 0.05,
    "label_smoothing_factor": 0.05,
    "train_token_budget": 8192,
    "warmup_steps": 0.1,
}
# config fields of pre-trained models
FIELDS: dict[str, Any] = {"classifier_dropout": 0.2, "token_dropout": 0.1}
# tokens that a fine-tuning reads, in as many epochs as that makes within bounds
TOKENS = 14_000_000
EPOCHS = (1.0, 12.0)


def choose_epochs(num_tokens: int) -> float:
    """Passes over training data of that many tokens.

    >>> choose_epochs(5_000_000), choose_epochs(10_000), choose_epochs(10**9)
    (2.8, 12.0, 1.0)
    """
    low, high = EPOCHS
    return round(min(high, max(low, TOKENS / max(1, num_tokens))), 1)


def adapt_arguments(
    arguments: Arguments, model: CheckpointOptions, num_tokens: int, *, classes: bool = True
) -> Arguments:
    """Arguments for fine-tuning a checkpoint on so many tokens; those of new models stay.

    Args:
        classes: Whether every example has one class, which alone can be smoothed.
    """
    if model.checkpoint is None or model.frozen:
        return arguments
    defaults = {one.name: one.default for one in fields(type(arguments))}
    chosen = {**TRAINING, "num_train_epochs": choose_epochs(num_tokens)}
    if model.class_weights or not classes:
        # smoothed losses of transformers know no weights
        del chosen["label_smoothing_factor"]
    changes = {
        name: value for name, value in chosen.items() if getattr(arguments, name) == defaults[name]
    }
    return change_arguments(arguments, **changes)


def adapt_fields(model: CheckpointOptions, stored: dict[str, Any]) -> dict[str, Any]:
    """Config fields for fine-tuning a checkpoint that its settings do not name.

    Args:
        stored: The checkpoint's own config fields.
    """
    if model.frozen:
        return {}
    given = model.config_fields()
    fields_of = {name: value for name, value in FIELDS.items() if name not in given}
    if stored.get("mask_token_id") is None or stored.get("input_features") is not None:
        fields_of.pop("token_dropout", None)
    return fields_of
