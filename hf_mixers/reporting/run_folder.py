"""What a run leaves behind in its folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import upload_folder
from transformers import Trainer
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import logging

from ..metrics import overall_values
from .card import make_card
from .environment import run_environment
from .files import write_json
from .plots import plot_history

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


def write_run(
    trainer: Trainer,
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
) -> dict:
    """Write the card of a trained model, its metrics and the curves of training; return these.

    The model itself is there already. With `push_to_hub` all goes there.

    Args:
        reports: Results on the rows of `part`: those of the model under `model`, then of baselines.
        options: Settings of the recipe besides those of the Trainer, by section.
        processor: Tokenizer or image processor to save next to the model.
        plots: Further pictures that lie in the output folder.
        notes: What the card says to users of the model.
        part: Which part of the data the results are of.
    """
    folder = Path(trainer.args.output_dir)
    history = trainer.state.log_history
    environment = run_environment(trainer.args.seed)
    model: Any = trainer.model
    results = {
        part: dict(reports),
        "history": history,
        "options": dict(options),
        "training": trainer.args.to_dict(),
        "config": model.config.to_diff_dict(),
        "parameters": model.num_parameters(),
        "environment": environment,
    }
    write_json(folder / "metrics.json", results)
    if processor is not None:
        processor.save_pretrained(folder)
    plot_history(history, folder / "history.png")
    # a card tells of the test part alone: with others, settings are still being chosen
    if part == "test":
        _write_card(
            trainer,
            reports,
            dataset_name=dataset_name,
            task=task,
            base_model=base_model,
            plots=[*plots, "history.png"],
            notes=notes,
            versions=environment,
            has_tokenizer=processor is not None,
        )
    if trainer.args.push_to_hub:
        _publish(trainer)
    return results


def _write_card(trainer: Trainer, reports: Mapping[str, Mapping], **description) -> None:
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
        **description,
    )
    card.save(Path(trainer.args.output_dir) / "README.md")


def _publish(trainer: Trainer) -> None:
    """Bring the results to the model, which the Trainer has published with a card of its own."""
    upload_folder(
        repo_id=trainer.hub_model_id,
        folder_path=trainer.args.output_dir,
        commit_message="Results and model card",
        token=trainer.args.hub_token,
        revision=trainer.args.hub_revision,
        ignore_patterns=["_*", f"{PREFIX_CHECKPOINT_DIR}-*"],
    )


def log_overall(reports: Mapping[str, Mapping]) -> None:
    """One line per model with its metrics."""
    for name, report in reports.items():
        text = ", ".join(
            f"{key} {value:.4f}"
            for key, value in overall_values(report).items()
            if isinstance(value, float)
        )
        logger.info(f"{name}: {text}")
