"""Adding and temporal order at one length, from 2^7 to 2^15 (scalability of the Paramixer paper).

    python examples/fixed_length_tasks.py --task adding --length 1024 --output_dir runs/adding_1024
    python examples/fixed_length_tasks.py --task temporal_order --length 1024

Adding: two numbers of a sequence are marked, and the model must give their sum to 0.04. Temporal
order: two places of a sequence of a, b, c and d hold X or Y, and the model must tell which and in
which order. A Paramixer is built as in table 1 of the paper's supplement; settings of training are
the paper's too (100,000 examples, 40 in a step, 50 epochs of adding and 30 of temporal order).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from transformers import HfArgumentParser

from hf_mixers import FAMILIES
from hf_mixers.data import FlatCollator, fixed_adding_problem, temporal_order
from hf_mixers.metrics import classification_report, overall_values, regression_report
from hf_mixers.processes import begin_run, hand_over, run_as_script
from hf_mixers.runs import (
    RunArguments,
    parse_resume,
    parse_settings,
    print_overall,
    write_run,
    write_table,
)
from hf_mixers.training import MixerTrainer


@dataclass(frozen=True)
class Task:
    """Where examples come from, what a model reads and gives, and how answers are scored."""

    make: Callable
    settings: dict
    report: Callable
    pipeline: str
    guess: str


TASKS = {
    "adding": Task(
        fixed_adding_problem,
        {"input_features": 2, "num_labels": 1, "problem_type": "regression"},
        regression_report,
        "tabular-regression",
        "always 0.5",
    ),
    "temporal_order": Task(
        temporal_order,
        {"vocab_size": 6, "num_labels": 4, "pad_token_id": None},
        classification_report,
        "text-classification",
        "always XX",
    ),
}


@dataclass
class Options:
    """Task and model."""

    task: str = field(default="adding", metadata={"help": f"One of {', '.join(TASKS)}."})
    length: int = field(default=1024, metadata={"help": "2^7 to 2^15 in the paper."})
    family: str = field(default="paramixer", metadata={"help": "Family of the model."})
    settings: str = field(default="{}", metadata={"help": "JSON of further config fields."})
    batch_size: int = field(default=40, metadata={"help": "Most sequences in a step."})
    num_train: int = field(default=100_000, metadata={"help": "Training examples of an epoch."})
    num_eval: int = field(default=1_000, metadata={"help": "Validation examples."})
    num_test: int = field(default=1_000, metadata={"help": "Test examples."})
    smoke: bool = field(default=False, metadata={"help": "A run of seconds, to see that it works."})


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
    if options.task not in TASKS:
        raise SystemExit(f"--task must be one of {', '.join(TASKS)}, got {options.task!r}.")
    begin_run(training)
    if options.smoke:
        options.num_train, options.num_eval, options.num_test = 80, 16, 16
        options.length, training.num_train_epochs = 128, 1
    training.train_token_budget = training.eval_token_budget = options.batch_size * options.length
    task = TASKS[options.task]
    train, validation, test = (
        task.make(count, options.length, 3 * training.seed + part)
        for part, count in enumerate((options.num_train, options.num_eval, options.num_test))
    )
    model = build_model(options)
    print(f"{type(model).__name__}: {model.num_parameters():,} parameters", flush=True)
    trainer = MixerTrainer(
        model,
        training,
        train_dataset=train,
        eval_dataset=validation,
        data_collator=FlatCollator(),
        compute_metrics=lambda p: headline(task, p.predictions, p.label_ids),
    )
    trainer.train(resume_from_checkpoint=parse_resume(training))

    folder = Path(training.output_dir)
    predicted = trainer.predict(test)
    if not hand_over(trainer):
        return {}
    answers, labels = predicted.predictions, predicted.label_ids
    reports = {
        "model": task.report(answers, labels),
        task.guess: task.report(guess_without_looking(options.task, answers), labels),
    }
    columns = {"label": labels}
    columns |= {f"output_{number}": column for number, column in enumerate(answers.T)}
    write_table(folder / "predictions.csv", columns)
    results = write_run(
        trainer,
        reports,
        options=[options],
        dataset_name=f"{options.task.replace('_', ' ')}, length {options.length}",
        task=task.pipeline,
    )
    print_overall(reports)
    print(f"Everything is in {folder}/", flush=True)
    return results


def build_model(options: Options):
    """A new model for the task, with the family's published settings where there are some."""
    family = FAMILIES[options.family]
    changes = {"max_position_embeddings": options.length}
    if options.family == "paramixer" and options.length < 16384:
        # the published residual of temporal order is for longer sequences
        changes["residual_mode"] = "previous"
    changes |= parse_settings(options.settings)
    if options.task in family.config.presets:
        config = family.config.preset(options.task, **changes)
    else:
        config = family.config(**{**TASKS[options.task].settings, **changes})
    return family.sequence_classification(config)


def guess_without_looking(task: str, answers: np.ndarray) -> np.ndarray:
    """The answers of somebody who does not read the sequences."""
    guesses = np.zeros_like(answers)
    guesses[:, 0] = 0.5 if task == "adding" else 1
    return guesses


def headline(task: Task, answers: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The metrics without intervals, for evaluation while training."""
    return overall_values(task.report(answers, labels, num_bootstrap=0))


if __name__ == "__main__":
    run_as_script(main)
