"""Train a model on a task of the arena, from scratch or self-pretrained, from data to report."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedModel, TrainerCallback
from transformers.utils import logging

from ..auto import FAMILIES
from ..metrics import overall_values
from ..privacy import strip_private
from ..reporting.arena_results import PeakMemory, append_result
from ..reporting.files import write_json
from ..tasks import Task, load_arena_task
from ..tasks.batches import TaskCollator
from .arena_models import ArenaModelOptions, count_base, count_parameters, make_arena_model
from .arena_protocols import BASE_SIZES, PROTOCOLS, PUBLISHED_ROWS
from .options import (
    EvaluationOptions,
    RunArguments,
    change_arguments,
    find_checkpoint,
    parse_settings,
)
from .path import Report, begin_run, report_outputs, save_model, train_model
from .self_pretrain import SelfPretrainOptions, self_pretrain
from .targets import Amount, Classes, Target

logger = logging.get_logger(__name__)

# rows of every part in a smoke run: sequences are long
_SMOKE_ROWS = 8
# rows whose labels tell the most frequent class, where labels are not known beforehand
_COUNTED = 2000
# share of the published examples from which on a run is no shortened one: a validation part that is
# drawn leaves some out
_FULL = 0.85
# by kind of input
_PIPELINES = {"ids": "text-classification", "values": "tabular-classification"}


@dataclass
class ArenaTaskOptions:
    """Which task, and from where."""

    task: str = field(default="listops", metadata={"help": "Name of a task."})
    path: str | None = field(
        default=None, metadata={"help": "Official files; without it the task is made from a seed."}
    )
    options: str | None = field(
        default=None, metadata={"help": "Options of the task, as JSON or a mapping."}
    )
    num_train: int | None = field(
        default=None, metadata={"help": "Train on so many examples only, drawn at random."}
    )
    num_evaluation: int | None = field(
        default=None, metadata={"help": "Validate and test on so many examples only."}
    )

    def __post_init__(self):
        for name in ("num_train", "num_evaluation"):
            size = getattr(self, name)
            if size is not None and size < 1:
                raise ValueError(f"task.{name} must be at least 1, got {size}.")

    def load(self) -> Task:
        """The task with its parts."""
        task = load_arena_task(self.task, self.path, **parse_settings(self.options))
        sizes = {"train": self.num_train, "validation": self.num_evaluation}
        sizes["test"] = self.num_evaluation
        parts = {}
        for part, rows in task.parts.items():
            size = sizes[part]
            parts[part] = rows if size is None else rows.sample(size)
            if len(parts[part]) < len(rows):
                task.notes.append(f"{part} is {size:,} of {len(rows):,} examples, drawn at random.")
        return replace(task, parts=parts)


@dataclass
class ArenaEvaluation(EvaluationOptions):
    """How results are reported."""

    patience: int | None = field(
        default=None,
        metadata={"help": "Stop after this many evaluations without improvement; none: never."},
    )
    results: str | None = field(
        default=None, metadata={"help": "File that results are appended to, for arena table."}
    )


@dataclass
class ArenaArguments(RunArguments):
    """Arguments of the Trainer, with defaults for arena trainings."""

    output_dir: str | None = field(default="runs/arena")
    num_train_epochs: float = field(default=5)
    learning_rate: float = field(default=1e-3)
    load_best_model_at_end: bool = field(default=True)
    metric_for_best_model: str = field(default="loss")
    remove_unused_columns: bool = field(default=False)


@dataclass
class ArenaOptions:
    """All settings of an arena run but those of the Trainer."""

    model: ArenaModelOptions = field(default_factory=ArenaModelOptions)
    task: ArenaTaskOptions = field(default_factory=ArenaTaskOptions)
    pretraining: SelfPretrainOptions = field(default_factory=SelfPretrainOptions)
    evaluation: ArenaEvaluation = field(default_factory=ArenaEvaluation)


class StepTimer(TrainerCallback):
    """Seconds of training steps, without evaluation and saving."""

    def __init__(self):
        self.seconds, self.steps, self._start = 0.0, 0, 0.0

    def on_step_begin(self, *args, **kwargs):
        self._start = time.perf_counter()

    def on_step_end(self, *args, **kwargs):
        self.seconds += time.perf_counter() - self._start
        self.steps += 1


def run_arena(options: ArenaOptions, arguments: ArenaArguments) -> dict:
    """Load a task, train a model, evaluate it next to a constant answer, report the results."""
    begin_run(arguments, smoke=options.evaluation.smoke)
    task = options.task.load()
    arguments = _evaluate_often(arguments)
    if options.evaluation.smoke:
        task, arguments = _shrink(task), _shorten(arguments)
    target = make_target(task)
    model = make_arena_model(options.model, task)
    collator = choose_collator(model, task)
    memory, timer = PeakMemory(), StepTimer()
    pretraining = None
    if options.pretraining.self_pretrain:
        chosen = options.pretraining
        if options.evaluation.smoke:
            chosen = replace(chosen, pretrain_steps=2)
        pretraining = self_pretrain(model, task, chosen, arguments, collator=collator)
        if find_checkpoint(arguments) is True:
            # the run may have stopped before the training began
            arguments = change_arguments(arguments, resume_from_checkpoint="auto")
    trainer = train_model(
        model,
        arguments,
        task.parts,
        target,
        patience=options.evaluation.patience,
        callbacks=[timer],
        data_collator=collator,
    )
    part = options.evaluation.report_on
    predicted = trainer.predict(task.parts[part])
    if not save_model(trainer):
        return {}
    outputs: dict[str, Any] = {"model": predicted.predictions, "constant": guess(task, part)}
    results = report_outputs(
        trainer,
        outputs,
        np.asarray(predicted.label_ids),
        target,
        Report(
            part=part,
            dataset_name=task.name,
            task=_PIPELINES[task.inputs],
            options=vars(options),
            columns={"length": task.parts[part].lengths},
            processor=task.tokenizer,
            notes=task.notes,
        ),
    )
    entry = describe_result(options, trainer, task, results[part]["model"], part)
    entry |= {"memory_mb": round(memory.read(), 1), "self_pretraining": pretraining}
    entry["seconds_per_step"] = timer.seconds / timer.steps if timer.steps else None
    results["arena"] = strip_private(entry)
    write_json(Path(arguments.output_dir) / "metrics.json", results)
    if options.evaluation.results:
        append_result(options.evaluation.results, results["arena"])
    return results


def make_target(task: Task) -> Target:
    """What a model of the task predicts."""
    if task.class_names is None:
        return Amount(tolerance=task.tolerance)
    return Classes(task.class_names)


def choose_collator(model: PreTrainedModel, task: Task) -> TaskCollator:
    """Batches as a model takes them: mixers any, peers padded ones, flat pooling of one length."""
    if getattr(model.config, "pooling", None) == "flat":
        return task.collator("max", reads_padding=True)
    is_mixer = model.config.model_type in FAMILIES
    return task.collator(None if is_mixer or task.padding != "none" else "batch")


def guess(task: Task, part: str) -> np.ndarray:
    """The answer that fits most training rows, for every row of a part."""
    train, rows = task.parts["train"], len(task.parts[part])
    labels = (train if train.has_labels else train.sample(_COUNTED)).labels
    if task.class_names is None:
        return np.full((rows, 1), np.median(labels))
    answer = np.bincount(labels, minlength=task.num_labels) / len(labels)
    return np.tile(np.log(np.maximum(answer, 1e-9)), (rows, 1))


def describe_result(
    options: ArenaOptions, trainer: Any, task: Task, report: Mapping, part: str
) -> dict[str, Any]:
    """One row of a results file."""
    steps, rows = trainer.state.global_step, len(task.parts["train"])
    schedule = PROTOCOLS.get(options.model.protocol or "", {}).get(task.name)
    planned, is_shortened = None, True
    if schedule is not None:
        published = schedule.count_examples(PUBLISHED_ROWS.get(task.name, rows))
        planned = schedule.steps or round(published / schedule.batch)
        is_shortened = (trainer.state.epoch or 0) * rows < _FULL * published
        is_shortened |= steps < (schedule.steps or 0)
    count = count_parameters(trainer.model)
    arguments = trainer.args
    return {
        "task": task.name,
        "model": options.model.family,
        "protocol": options.model.protocol,
        "part": part,
        "metric": task.metric,
        "score": overall_values(report)[task.metric],
        "parameters": count,
        "of_base": count / count_base(task) if task.name in BASE_SIZES else None,
        "steps": steps,
        "published_steps": planned,
        "is_shortened": is_shortened,
        "examples": {name: len(rows) for name, rows in task.parts.items()},
        "max_length": task.max_length,
        "seed": arguments.seed,
        "task_options": task.options,
        "learning_rate": arguments.learning_rate,
        "muon_learning_rate": arguments.muon_learning_rate,
        "batch": arguments.train_token_budget or arguments.train_batch_size,
        "seconds": _train_seconds(trainer.state.log_history),
        "notes": list(task.notes),
    }


def _train_seconds(history: list[dict]) -> float | None:
    found = [row["train_runtime"] for row in history if "train_runtime" in row]
    return found[-1] if found else None


def _shrink(task: Task) -> Task:
    parts = {part: rows.sample(_SMOKE_ROWS) for part, rows in task.parts.items()}
    return replace(task, parts=parts)


def _evaluate_often(arguments: ArenaArguments) -> ArenaArguments:
    """Ten evaluations where steps are counted: an epoch may be longer than all of them."""
    if arguments.max_steps <= 0 or arguments.eval_strategy != "epoch":
        return arguments
    share = max(0.1, 1 / arguments.max_steps)
    steps = max(1, int(share * arguments.max_steps))
    return change_arguments(
        arguments,
        eval_strategy="steps",
        eval_steps=steps,
        save_strategy="steps",
        save_steps=steps,
    )


def _shorten(arguments: ArenaArguments) -> ArenaArguments:
    return change_arguments(
        arguments,
        max_steps=2,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="steps",
        save_steps=2,
        warmup_steps=0,
    )
