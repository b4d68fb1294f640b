"""Train on a synthetic task: parts made from a seed, a model evaluated next to a blind guess."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from ..data.collators import FlatCollator
from .options import RunArguments
from .path import Report, report_outputs, save_model, train_model
from .targets import Target


@dataclass
class SyntheticOptions:
    """Which model, and how many examples."""

    family: str = field(default="chordmixer", metadata={"help": "Family of the model."})
    settings: str = field(
        default="{}",
        metadata={"help": "JSON of config fields that differ from the published ones."},
    )
    num_train: int = field(default=100_000, metadata={"help": "Training examples of an epoch."})
    num_eval: int = field(default=1_000, metadata={"help": "Validation examples."})
    num_test: int = field(default=1_000, metadata={"help": "Test examples."})
    smoke: bool = field(default=False, metadata={"help": "A run of seconds, to see that it works."})

    def __post_init__(self) -> None:
        if self.smoke:
            self.num_train, self.num_eval, self.num_test = 64, 16, 16

    def counts(self) -> dict[str, int]:
        """Examples of every part."""
        return {"train": self.num_train, "validation": self.num_eval, "test": self.num_test}


def train_synthetic(
    model: PreTrainedModel,
    arguments: RunArguments,
    rows: Mapping[str, Any],
    target: Target,
    *,
    guesses: Mapping[str, Any],
    options: Any,
    dataset_name: str,
    task: str,
) -> dict:
    """Train a model on examples that no part shares, and report on the test part.

    Args:
        guesses: By name, the constant outputs of a model that does not read the sequences.
    """
    trainer = train_model(
        model, arguments, rows, target, patience=None, data_collator=FlatCollator()
    )
    predicted = trainer.predict(rows["test"])
    if not save_model(trainer):
        return {}
    outputs: dict[str, Any] = {"model": predicted.predictions}
    outputs |= {name: np.tile(guess, (len(rows["test"]), 1)) for name, guess in guesses.items()}
    report = Report(
        part="test",
        dataset_name=dataset_name,
        task=task,
        options={"task": options},
        columns={"length": rows["test"].lengths},
    )
    return report_outputs(trainer, outputs, np.asarray(predicted.label_ids), target, report)


def make_rows(make: Any, counts: Mapping[str, int], seed: int, **options: Any) -> dict[str, Any]:
    """Examples of every part from a generator, each part with a seed of its own.

    Args:
        make: Gives a number of examples from a seed, such as `hf_mixers.tasks.adding_problem`.
    """
    return {
        part: make(count, seed=3 * seed + number, **options)
        for number, (part, count) in enumerate(counts.items())
    }
