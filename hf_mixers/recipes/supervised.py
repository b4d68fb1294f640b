"""Supervised runs of the examples: a model is built and trained, then judged beside baselines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from datasets import DatasetDict
from transformers import EarlyStoppingCallback, EvalPrediction, PreTrainedModel

from ..auto import FAMILIES, Family
from ..data.splits import draw_validation, split_stratified, subset_stratified
from ..metrics import overall_values
from ..recipes.options import RunArguments, choose_settings, parse_resume, parse_settings
from ..reporting.files import write_json, write_table
from ..reporting.run_folder import print_overall, write_run
from ..training import MixerTrainer
from ..training.processes import hand_over
from .targets import Goal

# drawn from data that come in one part
TEST_FRACTION = 0.2
# of every part, about
SMOKE_ROWS = 60


@dataclass
class ModelOptions:
    """Which model."""

    family: str = field(default="chordmixer", metadata={"help": "Family of a new model."})
    settings: str | None = field(
        default=None, metadata={"help": "JSON of config fields of a new model."}
    )
    preset: str | None = field(
        default=None,
        metadata={"help": "Published settings of the family, which --settings may change."},
    )


@dataclass
class JudgeOptions:
    """How settings are chosen and results reported."""

    report_on: str = field(
        default="test",
        metadata={"help": "'test', or 'validation' as long as settings are being chosen."},
    )
    patience: int = field(
        default=3, metadata={"help": "Stop after so many evaluations without a better one."}
    )
    smoke: bool = field(default=False, metadata={"help": "A run of seconds, to see that it works."})

    def __post_init__(self):
        if self.report_on not in ("test", "validation"):
            raise SystemExit(f"--report_on must be test or validation, got {self.report_on}.")


@dataclass
class SupervisedOptions(JudgeOptions):
    """The same where a validation part can be drawn from the training part."""

    validation_fraction: float = field(
        default=0.2,
        metadata={
            "help": "Share of the training part to choose the best epoch with, where the data have"
            " no validation part; 0: train on everything and keep the last epoch."
        },
    )
    baseline: bool = field(default=True, metadata={"help": "Fit a baseline on the same rows."})
    patience: int = field(
        default=16, metadata={"help": "Stop after so many evaluations without a better one."}
    )

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.validation_fraction < 1:
            raise SystemExit(
                f"--validation_fraction must lie in [0, 1), got {self.validation_fraction}."
            )


@dataclass
class SupervisedArguments(RunArguments):
    """Arguments of the Trainer for rows that hold nothing but what a collator knows."""

    train_token_budget: int | None = field(default=None)
    eval_token_budget: int | None = field(default=None)
    load_best_model_at_end: bool = field(default=True)
    metric_for_best_model: str = field(default="loss")
    remove_unused_columns: bool = field(default=False)


def find_family(name: str) -> Family:
    """The family that a command line names."""
    if name not in FAMILIES:
        raise SystemExit(f"--family must be one of {', '.join(FAMILIES)}, got {name!r}.")
    return FAMILIES[name]


def build_model(
    options: ModelOptions,
    fields: Mapping[str, Any],
    *,
    suggestions: Mapping[str, Any] | None = None,
    head: str = "sequence_classification",
) -> PreTrainedModel:
    """A new model of a family.

    Args:
        fields: What data and task ask for, whatever the settings.
        suggestions: Fields of a model without preset, where the settings say nothing else.
        head: Which of the family's models.
    """
    family = find_family(options.family)
    model_class = getattr(family, head, None)
    if model_class is None:
        raise SystemExit(f"The family {options.family} has no model for {head.replace('_', ' ')}.")
    if options.preset:
        settings = {**fields, **parse_settings(options.settings or "{}")}
        config = family.config.preset(options.preset, **settings)
    else:
        settings = choose_settings(options.family, options.settings)
        config = family.config(**{**(suggestions or {}), **settings, **fields})
    return model_class(config)


def choose_parts(
    parts: DatasetDict,
    options: SupervisedOptions,
    training: RunArguments,
    label_column: str | None = "label",
) -> DatasetDict:
    """Parts for training, for testing and, if asked for, for validation: drawn where they lack.

    Sizes are printed. A smoke run gets few rows and one epoch.
    """
    if "test" not in parts:
        print(f"The data have no test part: {TEST_FRACTION:.0%} are drawn for it.", flush=True)
        # the same rows whatever the seed of the run, so that no run trains on another's test rows
        kept, drawn = split_stratified(
            parts["train"], (1 - TEST_FRACTION, TEST_FRACTION), label_column=label_column
        ).values()
        parts = DatasetDict({**parts, "train": kept, "test": drawn})
    if options.validation_fraction > 0:
        parts = draw_validation(parts, options.validation_fraction, training.seed, label_column)
    if options.report_on not in parts:
        raise SystemExit("--report_on validation needs --validation_fraction above 0.")
    if options.smoke:
        training.num_train_epochs = 1
        for name, part in parts.items():
            share = min(1, SMOKE_ROWS / len(part))
            parts[name] = subset_stratified(part, share, label_column=label_column)
    sizes = ", ".join(f"{name} {len(part):,}" for name, part in parts.items())
    print(f"rows: {sizes}", flush=True)
    return parts


def run_supervised(
    model: PreTrainedModel,
    training: RunArguments,
    rows: Mapping[str, Any],
    goal: Goal,
    *,
    options: Sequence[Any],
    collator: Callable,
    baselines: Mapping[str, Callable[[], np.ndarray]],
    **description,
) -> dict:
    """Train a model and judge it on the part that the options name; return the results.

    Args:
        rows: Model inputs by part.
        options: Dataclasses with the settings of the script; the last are `SupervisedOptions`.
        baselines: See `judge_model`, which also gets the `description`.
    """
    choice = options[-1]
    trainer = train_model(
        model, training, rows, goal, patience=choice.patience, data_collator=collator
    )
    return judge_model(
        trainer,
        rows[choice.report_on],
        goal,
        part=choice.report_on,
        options=options,
        baselines=baselines if choice.baseline else {},
        **description,
    )


def train_model(
    model: PreTrainedModel,
    training: RunArguments,
    rows: Mapping[str, Any],
    goal: Goal,
    *,
    patience: int | None,
    **options,
) -> MixerTrainer:
    """Train on `rows["train"]`; the best epoch on `rows["validation"]` is kept, if it is there.

    Args:
        patience: Evaluations without a better one after which to stop; None: never.
        options: Further arguments of the trainer.
    """
    print(f"{type(model).__name__}: {model.num_parameters():,} parameters", flush=True)
    # without an accelerator there is nothing to pin memory for, and torch warns
    training.dataloader_pin_memory &= training.device.type != "cpu"
    callbacks = []
    if "validation" in rows:
        callbacks += [EarlyStoppingCallback(patience)] if patience is not None else []
    else:
        training.eval_strategy, training.load_best_model_at_end = "no", False
        # something to draw, however few the steps
        training.logging_strategy = "epoch"
    trainer = MixerTrainer(
        model,
        training,
        train_dataset=rows["train"],
        eval_dataset=rows.get("validation"),
        compute_metrics=lambda p: headline(p, goal),
        callbacks=callbacks,
        **options,
    )
    trainer.train(resume_from_checkpoint=parse_resume(training))
    return trainer


def headline(predicted: EvalPrediction, goal: Goal) -> dict[str, float]:
    """The metrics without intervals, for evaluation while training."""
    return overall_values(goal.report(predicted.predictions, predicted.label_ids, num_bootstrap=0))


def name_source(paths: Sequence[str]) -> str:
    """What to call data from files: their names and the folders they lie in.

    >>> name_source(["/home/me/heart/beats.npz", "genes"])
    'beats.npz in heart, genes'
    """
    return ", ".join(" in ".join(reversed(Path(path).parts[-2:])) for path in paths)


def spread_classes(classifier: Any, features: np.ndarray, num_classes: int) -> np.ndarray:
    """Probabilities of a classifier of scikit-learn, with a column for classes it never saw."""
    scores = np.zeros((len(features), num_classes))
    scores[:, classifier.classes_] = classifier.predict_proba(features)
    return scores


def judge_model(
    trainer: MixerTrainer,
    rows: Any,
    goal: Goal,
    *,
    part: str,
    baselines: Mapping[str, Callable[[], np.ndarray]],
    options: Sequence[Any],
    dataset_name: str,
    task: str,
    columns: Mapping[str, Sequence] | None = None,
    preparation: Any = None,
    base_model: str | None = None,
    processor: Any = None,
) -> dict:
    """Score model and baselines on the rows of a part, write everything to the output folder.

    Args:
        rows: Model inputs of the part, in the order of `columns`.
        baselines: By name, what gives their outputs for the same rows.
        options: Dataclasses with the settings of the script.
        columns: What is known of every row, for the predictions; `length` also gives scores by
            length.
        preparation: What prepared the rows and prepares new ones, with a method `to_dict`.
        processor: Tokenizer or image processor, which is saved beside the model.
    """
    folder = Path(trainer.args.output_dir)
    columns = dict(columns or {})
    predicted = trainer.predict(rows)
    if not hand_over(trainer):
        return {}
    outputs, labels = {"model": predicted.predictions}, predicted.label_ids
    write_table(folder / "predictions.csv", columns | goal.columns(outputs["model"], labels))
    for name, give in baselines.items():
        print(f"Fitting a baseline: {name}", flush=True)
        outputs[name] = give()
    lengths = columns.get("length")
    reports = {name: goal.report(found, labels, lengths) for name, found in outputs.items()}
    plots = goal.draw(reports, outputs["model"], labels, folder)
    notes = []
    if preparation is not None:
        write_json(folder / "preparation.json", preparation.to_dict())
        name = type(preparation).__name__
        notes = [
            f"`hf_mixers.data.{name}` with the content of `preparation.json` makes the inputs.",
            *goal.notes(),
        ]
    results = write_run(
        trainer,
        reports,
        part=part,
        options=options,
        dataset_name=dataset_name,
        task=task,
        plots=plots,
        notes=notes,
        base_model=base_model,
        processor=processor,
    )
    print_overall(reports)
    print(f"Everything is in {folder}/", flush=True)
    return results
