"""Supervised runs of the examples: a model is built and trained, then judged beside baselines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from datasets import DatasetDict
from scipy.special import softmax
from transformers import EarlyStoppingCallback, EvalPrediction, PreTrainedModel

from .auto import FAMILIES
from .data.splits import draw_validation
from .metrics import classification_report, overall_values, regression_report
from .plots import plot_by_length, plot_confusion, plot_scatter
from .runs import (
    RunArguments,
    choose_settings,
    parse_resume,
    parse_settings,
    print_overall,
    write_json,
    write_run,
    write_table,
)
from .training import MixerTrainer


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

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.validation_fraction < 1:
            raise SystemExit(
                f"--validation_fraction must lie in [0, 1), got {self.validation_fraction}."
            )


class Classes:
    """The goal of a classifier: one of several classes."""

    def __init__(self, names: Sequence[str]):
        self.names = list(names)

    def config_fields(self) -> dict:
        """What the config of a model must say."""
        return {
            "id2label": dict(enumerate(self.names)),
            "label2id": {name: number for number, name in enumerate(self.names)},
            "problem_type": "single_label_classification",
        }

    def report(self, outputs: np.ndarray, labels: np.ndarray, lengths=None, **options) -> dict:
        return classification_report(outputs, labels, lengths, class_names=self.names, **options)

    def columns(self, outputs: np.ndarray, labels: np.ndarray) -> dict[str, Sequence]:
        """What is written about every row, given logits."""
        scores = softmax(outputs, axis=-1).round(6)
        columns = {"label": [self.names[label] for label in labels]}
        return columns | {f"score_{n}": scores[:, i] for i, n in enumerate(self.names)}

    def draw(self, reports: Mapping[str, dict], outputs, labels, folder: Path) -> list[str]:
        """Pictures of the results, by name."""
        plot_confusion(reports["model"], folder / "confusion.png")
        lengths = {
            (part["min_length"], part["max_length"]) for part in reports["model"]["by_length"]
        }
        if len(lengths) < 2:
            return ["confusion.png"]
        plot_by_length(reports, folder / "by_length.png", metric="accuracy")
        return ["confusion.png", "by_length.png"]


class Amount:
    """The goal of a regression: a number, which models see standardised.

    Args:
        mean, std: Of the target in the training part; results are in the target's own units.
    """

    def __init__(self, mean: float = 0.0, std: float = 1.0):
        self.mean, self.std = mean, std

    def config_fields(self) -> dict:
        return {"num_labels": 1, "problem_type": "regression"}

    def report(self, outputs: np.ndarray, labels: np.ndarray, lengths=None, **options) -> dict:
        report = regression_report(
            self._unscale(outputs), self._unscale(labels), lengths, tolerance=None, **options
        )
        rmse = report["overall"]["rmse"]
        report["overall"]["rmse_standardized"] = {
            name: None if value is None else value / self.std for name, value in rmse.items()
        }
        return report

    def columns(self, outputs: np.ndarray, labels: np.ndarray) -> dict[str, Sequence]:
        return {"target": self._unscale(labels), "prediction": self._unscale(outputs)}

    def draw(self, reports: Mapping[str, dict], outputs, labels, folder: Path) -> list[str]:
        plot_scatter(self._unscale(outputs), self._unscale(labels), folder / "scatter.png")
        return ["scatter.png"]

    def _unscale(self, values: np.ndarray) -> np.ndarray:
        return np.ravel(values).astype(np.float64) * self.std + self.mean


Goal = Classes | Amount


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
    family = FAMILIES.get(options.family)
    if family is None:
        raise SystemExit(f"--family must be one of {', '.join(FAMILIES)}, got {options.family!r}.")
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
    seed: int,
    label_column: str | None = "label",
    test_fraction: float = 0.2,
) -> DatasetDict:
    """Parts for training, for testing and, if asked for, for validation: drawn where they lack.

    Sizes are printed.
    """
    if "test" not in parts:
        print(f"The data have no test part: {test_fraction:.0%} are drawn for it.", flush=True)
        split = draw_validation(
            DatasetDict(train=parts["train"]), test_fraction, seed, label_column
        )
        parts = DatasetDict({**parts, "train": split["train"], "test": split["validation"]})
    if options.validation_fraction > 0:
        parts = draw_validation(parts, options.validation_fraction, seed, label_column)
    if options.report_on not in parts:
        raise SystemExit("--report_on validation needs --validation_fraction above 0.")
    sizes = ", ".join(f"{name} {len(part):,}" for name, part in parts.items())
    print(f"rows: {sizes}", flush=True)
    return parts


def train_model(
    model: PreTrainedModel,
    training: RunArguments,
    rows: Mapping[str, Any],
    goal: Goal,
    *,
    patience: int,
    **options,
) -> MixerTrainer:
    """Train on `rows["train"]`; the best epoch on `rows["validation"]` is kept, if it is there.

    Args:
        options: Further arguments of the trainer.
    """
    print(f"{type(model).__name__}: {model.num_parameters():,} parameters", flush=True)
    # without an accelerator there is nothing to pin memory for, and torch warns
    training.dataloader_pin_memory &= training.device.type != "cpu"
    callbacks = []
    if "validation" in rows:
        callbacks.append(EarlyStoppingCallback(patience))
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
    'heart/beats.npz, genes'
    """
    return ", ".join("/".join(Path(path).parts[-2:]) for path in paths)


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
    tokenizer: Any = None,
) -> dict:
    """Score model and baselines on the rows of a part, write everything to the output folder.

    Args:
        rows: Model inputs of the part, in the order of `columns`.
        baselines: By name, what gives their outputs for the same rows.
        options: Dataclasses with the settings of the script.
        columns: What is known of every row, for the predictions; `length` also gives scores by
            length.
        preparation: What prepared the rows and prepares new ones, with a method `to_dict`.
    """
    folder = Path(trainer.args.output_dir)
    columns = dict(columns or {})
    predicted = trainer.predict(rows)
    outputs, labels = {"model": predicted.predictions}, predicted.label_ids
    for name, give in baselines.items():
        print(f"Fitting a baseline: {name}", flush=True)
        outputs[name] = give()
    lengths = columns.get("length")
    reports = {name: goal.report(found, labels, lengths) for name, found in outputs.items()}
    folder.mkdir(parents=True, exist_ok=True)
    plots = goal.draw(reports, outputs["model"], labels, folder)
    write_table(folder / "predictions.csv", columns | goal.columns(outputs["model"], labels))
    notes = []
    if preparation is not None:
        write_json(folder / "preparation.json", preparation.to_dict())
        name = type(preparation).__name__
        notes = [
            f"`hf_mixers.data.{name}` with the content of `preparation.json` makes the inputs."
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
        tokenizer=tokenizer,
    )
    print_overall(reports)
    print(f"Everything is in {folder}/", flush=True)
    return results
