"""Runs on synthetic tasks: parts made from a seed, a model trained and judged beside a guess."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from ..data.collators import FlatCollator
from ..data.synthetic import SyntheticTask
from ..recipes.options import RunArguments
from .supervised import judge_model, train_model
from .targets import Goal


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

    def __post_init__(self):
        if self.smoke:
            self.num_train, self.num_eval, self.num_test = 64, 16, 16


def run_synthetic(
    make: Callable[..., SyntheticTask],
    build_model: Callable[[int], PreTrainedModel],
    goal: Goal,
    options: SyntheticOptions,
    training: RunArguments,
    *,
    guesses: Mapping[str, Any],
    **description,
) -> dict:
    """Train a new model on examples that no part shares, judge it on the test part.

    Args:
        make: Gives a number of examples from a seed.
        build_model: Gives a model for sequences up to a length.
        guesses: By name, the answer of somebody who does not read the sequences.
        description: Further arguments of `judge_model`.
    """
    counts = {"train": options.num_train, "validation": options.num_eval, "test": options.num_test}
    rows = {
        part: make(count, seed=3 * training.seed + number)
        for number, (part, count) in enumerate(counts.items())
    }
    trainer = train_model(
        build_model(rows["train"].longest),
        training,
        rows,
        goal,
        patience=None,
        data_collator=FlatCollator(),
    )
    return judge_model(
        trainer,
        rows["test"],
        goal,
        part="test",
        baselines={
            name: lambda answer=answer: np.tile(answer, (options.num_test, 1))
            for name, answer in guesses.items()
        },
        options=[options],
        columns={"length": rows["test"].lengths},
        **description,
    )
