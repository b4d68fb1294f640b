"""Adding and temporal order at one length, from 2^7 to 2^15 (scalability of the Paramixer paper).

    python examples/fixed_length_tasks.py --task adding --length 1024 --output_dir runs/adding_1024
    python examples/fixed_length_tasks.py --task temporal_order --length 1024

Adding: two numbers of a sequence are marked, and the model must give their sum to 0.04. Temporal
order: two places of a sequence of a, b, c and d hold X or Y, and the model must tell which and in
which order. A Paramixer is built as in table 1 of the paper's supplement; settings of training are
the authors' too (100,000 examples, 40 in a step, 30 epochs; they give adding 50).

Long sequences of adding want the model of the authors' code, which has no learned positions:

    python examples/fixed_length_tasks.py --task adding --length 2048 --batch_size 8 \
        --num_train 60000 --num_train_epochs 1 --lr_scheduler_type linear \
        --settings '{"position_embedding_type": "none"}'
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from transformers import AutoModelForSequenceClassification, HfArgumentParser, PreTrainedModel

from hf_mixers.cli import run_as_script
from hf_mixers.recipes.models import find_family
from hf_mixers.recipes.options import RunArguments, change_arguments, parse_settings
from hf_mixers.recipes.path import begin_run
from hf_mixers.recipes.synthetic import SyntheticOptions, make_rows, train_synthetic
from hf_mixers.recipes.targets import Amount, Classes, Target
from hf_mixers.tasks import fixed_adding_problem, temporal_order


@dataclass(frozen=True)
class Task:
    """Where examples come from, what a model reads and gives, and what a blind guess is."""

    make: Callable
    settings: dict
    target: Target
    guesses: dict[str, Any]
    pipeline: str


TASKS = {
    "adding": Task(
        fixed_adding_problem,
        {"input_features": 2},
        Amount(tolerance=0.04),
        {"always 0.5": 0.5},
        "tabular-regression",
    ),
    "temporal_order": Task(
        temporal_order,
        {"vocab_size": 6, "pad_token_id": None},
        Classes(["XX", "XY", "YX", "YY"]),
        {"always XX": [1, 0, 0, 0]},
        "text-classification",
    ),
}


@dataclass
class Options(SyntheticOptions):
    """Task and model."""

    task: str = field(default="adding", metadata={"help": f"One of {', '.join(TASKS)}."})
    length: int = field(default=1024, metadata={"help": "2^7 to 2^15 in the paper."})
    family: str = field(default="paramixer", metadata={"help": "Family of the model."})
    batch_size: int = field(default=40, metadata={"help": "Most sequences in a step."})

    def __post_init__(self):
        super().__post_init__()
        if self.task not in TASKS:
            raise ValueError(f"--task must be one of {', '.join(TASKS)}, got {self.task!r}.")
        if self.smoke:
            self.length = 128


@dataclass
class Arguments(RunArguments):
    """Arguments of the Trainer, with defaults for this script."""

    output_dir: str | None = field(default="runs/fixed_length")
    num_train_epochs: float = field(default=30)
    learning_rate: float = field(default=1e-3)
    lr_scheduler_type: str = field(default="constant")
    warmup_steps: float = field(default=0)
    load_best_model_at_end: bool = field(default=True)
    metric_for_best_model: str = field(default="loss")


def main(arguments: list[str] | None = None) -> dict:
    options, training = HfArgumentParser((Options, Arguments)).parse_args_into_dataclasses(
        arguments
    )
    begin_run(training, smoke=options.smoke)
    budget = options.batch_size * options.length
    training = change_arguments(training, train_token_budget=budget, eval_token_budget=budget)
    if options.smoke:
        training = change_arguments(training, num_train_epochs=1)
    task = TASKS[options.task]
    rows = make_rows(task.make, options.counts(), training.seed, length=options.length)
    return train_synthetic(
        build_model(options, options.length),
        training,
        rows,
        task.target,
        guesses=task.guesses,
        options=options,
        dataset_name=f"{options.task.replace('_', ' ')}, length {options.length}",
        task=task.pipeline,
    )


def build_model(options: Options, length: int) -> PreTrainedModel:
    """A new model for the task, with the family's published settings where there are some."""
    family, task = find_family(options.family), TASKS[options.task]
    changes = {"max_position_embeddings": length, **task.target.config_fields()}
    if options.family == "paramixer" and length < 16384:
        # the published residual of temporal order is for longer sequences
        changes["residual_mode"] = "previous"
    changes |= parse_settings(options.settings)
    if options.task in family.config.presets:
        config = family.config.preset(options.task, **changes)
    else:
        config = family.config(**{**task.settings, **changes})
    return family.model_class(AutoModelForSequenceClassification)(config)


if __name__ == "__main__":
    run_as_script(main)
