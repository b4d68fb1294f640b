"""What a run leaves behind in its folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers.utils import logging

from ..metrics import overall_values
from ..privacy import strip_private
from ..training.hub import PublishingTrainer
from .card import make_card
from .environment import run_environment
from .files import write_json, write_text
from .plots import has_curves, plot_history

logger = logging.get_logger(__name__)

# settings of the Trainer that a reader of the card asks for
_SETTINGS = (
    "learning_rate",
    "lr_scheduler_type",
    "num_train_epochs",
    "max_steps",
    "train_token_budget",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "weight_decay",
    "max_grad_norm",
    "seed",
)
# settings of the Trainer that are those of a place or an account
_LOCAL = ("output_dir", "logging_dir", "resume_from_checkpoint", "run_name", "hub_token")


def write_run(
    trainer: PublishingTrainer,
    reports: Mapping[str, Mapping],
    *,
    options: Mapping[str, Any],
    dataset_name: str,
    task: str,
    processor: Any = None,
    base_model: str | None = None,
    plots: Sequence[str] = (),
    notes: Sequence[str] = (),
    part: str = "test",
    sizes: Mapping[str, int] | None = None,
    smoke: bool = False,
) -> dict:
    """Write the card of a trained model, its metrics and the curves of training; return these.

    The model itself is there already. With `push_to_hub` all goes there, but for a smoke run.
    Tokens and paths of the machine are in none of the files; `metrics.json` is written last.

    Args:
        reports: Results on the rows of `part`: those of the model under `model`, then of baselines.
        options: Settings of the recipe besides those of the Trainer, by section.
        processor: Tokenizer or image processor to save next to the model.
        plots: Further pictures that lie in the output folder.
        notes: What the card says to users of the model.
        part: Which part of the data the results are of.
        sizes: Rows of every part; by default those that the trainer was given.
        smoke: A run of seconds, whose results mean nothing.
    """
    folder = Path(trainer.args.output_dir)
    history = trainer.state.log_history
    environment = run_environment(trainer.args.seed)
    model: Any = trainer.model
    sizes = dict(sizes or _count_rows(trainer, part, reports["model"]))
    results = {
        "smoke": smoke,
        part: dict(reports),
        "rows": sizes,
        "history": history,
        "options": dict(options),
        "training": {k: v for k, v in trainer.args.to_dict().items() if k not in _LOCAL},
        "config": model.config.to_diff_dict(),
        "parameters": model.num_parameters(),
        "environment": environment,
    }
    results = strip_private(results)
    if processor is not None:
        processor.save_pretrained(folder)
    curves = ["history.png"] if has_curves(history) else []
    for name in curves:
        plot_history(history, folder / name)
    # a card tells of the test part alone: with others, settings are still being chosen
    if part == "test":
        _write_card(
            trainer,
            reports,
            dataset_name=dataset_name,
            task=task,
            base_model=base_model,
            plots=[*plots, *curves],
            notes=notes,
            versions=environment,
            has_tokenizer=processor is not None,
            sizes=sizes,
            smoke=smoke,
        )
    write_json(folder / "metrics.json", results)
    if trainer.args.push_to_hub and not smoke:
        trainer.push_folder("Results and model card")
    return results


def _count_rows(trainer: PublishingTrainer, part: str, report: Mapping) -> dict[str, int]:
    """Rows of the parts that a trainer was given, and of the one that was reported on."""
    parts = {"train": trainer.train_dataset, "validation": trainer.eval_dataset}
    sizes = {name: len(rows) for name, rows in parts.items() if hasattr(rows, "__len__")}
    return sizes | ({part: report["count"]} if "count" in report else {})


def _write_card(trainer: PublishingTrainer, reports: Mapping[str, Mapping], **description) -> None:
    settings = {name: getattr(trainer.args, name, None) for name in _SETTINGS}
    # a budget takes the place of the batch size
    if settings["train_token_budget"] is not None:
        del settings["per_device_train_batch_size"]
    model: Any = trainer.model
    card = make_card(
        model,
        report=reports["model"],
        training={name: value for name, value in settings.items() if value is not None},
        baselines={name: report for name, report in reports.items() if name != "model"},
        license=getattr(trainer.args, "license", None),
        **description,
    )
    write_text(Path(trainer.args.output_dir) / "README.md", str(card))


def log_overall(reports: Mapping[str, Mapping]) -> None:
    """One line per model with its metrics."""
    for name, report in reports.items():
        text = ", ".join(
            f"{key} {value:.4f}"
            for key, value in overall_values(report).items()
            if isinstance(value, float)
        )
        logger.info(f"{name}: {text}")
