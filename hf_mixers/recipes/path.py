"""The one way from rows to results: train, evaluate next to baselines, report.

Recipes and examples call these functions one after another; what differs between them is where the
rows come from.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict
from transformers import (
    EarlyStoppingCallback,
    EvalPrediction,
    PreTrainedModel,
    TrainerCallback,
    set_seed,
)
from transformers.utils import logging

from ..data.splits import subset_stratified
from ..metrics import overall_values
from ..privacy import name_path
from ..reporting.files import write_json, write_table
from ..reporting.occupied import leave_folder, occupy_folder
from ..reporting.run_folder import log_overall, write_run
from ..training import MixerTrainer
from .options import RunArguments, change_arguments, find_checkpoint
from .targets import Target

logger = logging.get_logger(__name__)

# rows of every part in a smoke run, about
SMOKE_ROWS = 60


def begin_run(arguments: RunArguments, *, smoke: bool = False) -> None:
    """Set the seed, take the folder, and look for what the end of a run needs before its beginning.

    A folder in which another run works, or has left results, is refused.
    """
    if smoke and arguments.push_to_hub:
        raise ValueError("A smoke run is not published: push_to_hub and smoke exclude each other.")
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("The plots of a run require matplotlib: pip install 'hf-mixers[plots]'.")
    take_folder(arguments)
    set_seed(arguments.seed)


def take_folder(arguments: RunArguments) -> None:
    """Let the first of several processes take the output folder; again by the same is no error."""
    if arguments.process_index == 0:
        resume = bool(find_checkpoint(arguments))
        occupy_folder(arguments.output_dir, overwrite=arguments.overwrite, resume=resume)


def shrink(parts: DatasetDict, label_column: str | None = "label") -> DatasetDict:
    """Few rows of every part, for a smoke run."""
    return DatasetDict(
        {
            name: subset_stratified(part, min(1, SMOKE_ROWS / len(part)), label_column=label_column)
            for name, part in parts.items()
        }
    )


def train_model(
    model: PreTrainedModel,
    arguments: RunArguments,
    rows: Mapping[str, Any],
    target: Target,
    *,
    patience: int | None,
    callbacks: Sequence[TrainerCallback] = (),
    **options: Any,
) -> MixerTrainer:
    """Train on `rows["train"]`; the best epoch on `rows["validation"]` is kept, if it is there.

    Args:
        patience: Evaluations without improvement after which to stop; None: never.
        callbacks: Of the trainer.
        options: Further arguments of the trainer.
    """
    logger.info(f"{type(model).__name__}: {model.num_parameters():,} parameters")
    callbacks = list(callbacks)
    if "validation" not in rows:
        # a loss per epoch to draw, however few the steps
        arguments = change_arguments(
            arguments, eval_strategy="no", load_best_model_at_end=False, logging_strategy="epoch"
        )
    elif patience is not None:
        callbacks.append(EarlyStoppingCallback(patience))
    trainer = MixerTrainer(
        model,
        arguments,
        train_dataset=rows["train"],
        eval_dataset=rows.get("validation"),
        compute_metrics=lambda predicted: headline(predicted, target),
        callbacks=callbacks,
        **options,
    )
    trainer.train(resume_from_checkpoint=find_checkpoint(arguments))
    return trainer


def headline(predicted: EvalPrediction, target: Target) -> dict[str, float | None]:
    """The metrics without intervals, for evaluation while training."""
    outputs, labels = np.asarray(predicted.predictions), np.asarray(predicted.label_ids)
    report = target.report(outputs, labels, num_bootstrap=0)
    return overall_values(report)


def save_model(trainer: MixerTrainer) -> bool:
    """Save the model, in which all processes may have a share.

    Whether this process is the one that goes on to evaluate it and to write the results.
    """
    trainer.save_model()
    return trainer.is_world_process_zero()


@dataclass
class Report:
    """What is said about a run besides its numbers.

    Args:
        part: Which part of the data the results are of.
        dataset_name: What the data are called.
        task: Pipeline tag of the Hub.
        options: Settings of the recipe by section.
        columns: What is known of every row, for the predictions; `length` also gives scores by
            length.
        preparation: What prepared the rows and prepares new ones, with a method `to_dict`.
        processor: Tokenizer or image processor, which is saved next to the model.
        base_model: What the model started from.
        notes: Sentences for users of the model.
        plots: Pictures in the folder that the recipe has drawn itself.
        sizes: Rows of every part, where they are not those that the trainer was given.
    """

    part: str
    dataset_name: str
    task: str
    options: Mapping[str, Any]
    columns: Mapping[str, Sequence | np.ndarray] = field(default_factory=dict)
    preparation: Any = None
    processor: Any = None
    base_model: str | None = None
    notes: Sequence[str] = ()
    plots: Sequence[str] = ()
    sizes: Mapping[str, int] | None = None

    @property
    def smoke(self) -> bool:
        """Whether a section of the options says that this is a smoke run."""
        return any(getattr(section, "smoke", False) for section in self.options.values())


def report_outputs(
    trainer: MixerTrainer,
    outputs: Mapping[str, np.ndarray],
    labels: np.ndarray,
    target: Target,
    report: Report,
) -> dict:
    """Score the outputs of model and baselines for the same rows; write everything to the folder.

    Args:
        outputs: Those of the model under `model`, then of baselines by name.
    """
    folder = Path(trainer.args.output_dir)
    columns: dict[str, Any] = dict(report.columns)
    write_table(folder / "predictions.csv", columns | target.columns(outputs["model"], labels))
    lengths = columns.get("length")
    reports = {name: target.report(found, labels, lengths) for name, found in outputs.items()}
    plots = target.draw(reports, outputs["model"], labels, folder)
    notes = [*report.notes, *target.notes()]
    if report.preparation is not None:
        write_json(folder / "preparation.json", report.preparation.to_dict())
        name = type(report.preparation).__name__
        notes.insert(
            0,
            f"`hf_mixers.data.other.{name}` with the content of `preparation.json` makes the"
            " inputs.",
        )
    return finish_run(trainer, reports, report, plots=[*report.plots, *plots], notes=notes)


def finish_run(
    trainer: MixerTrainer,
    reports: Mapping[str, Mapping],
    report: Report,
    *,
    plots: Sequence[str],
    notes: Sequence[str] = (),
) -> dict:
    """Write metrics, card and curves of training; log the headline of each report."""
    results = write_run(
        trainer,
        reports,
        part=report.part,
        options={name: asdict(section) for name, section in report.options.items()},
        dataset_name=report.dataset_name,
        task=report.task,
        plots=plots,
        notes=notes,
        base_model=report.base_model,
        processor=report.processor,
        sizes=report.sizes,
        smoke=report.smoke,
    )
    leave_folder(trainer.args.output_dir)
    log_overall(reports)
    logger.info(f"Everything is in {trainer.args.output_dir}/")
    return results


def name_source(paths: Sequence[str]) -> str:
    """What to call data from files: their names, without the folders they lie in.

    >>> name_source(["/home/me/heart/beats.npz", "genes"])
    'beats.npz, genes'
    """
    return ", ".join(name_path(path) for path in paths)


def longest_sequence(parts: Mapping[str, Dataset]) -> int:
    """Length of the longest sequence of all parts."""
    return max(max(part["length"]) for part in parts.values())
