"""Self-pretraining: a model learns to predict tokens of a task's own inputs before its labels.

Models that see both sides predict hidden tokens, causal ones the next token.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from transformers import PreTrainedModel
from transformers.utils import logging

from ..data.collators import MaskedLMCollator
from ..models.losses import IGNORED
from ..tasks import Task
from ..tasks.rows import TaskRows
from ..training import MixerTrainer
from ..training.checkpoints import find_checkpoints
from .arena_models import is_causal, make_language_model
from .options import RunArguments, change_arguments, find_checkpoint

logger = logging.get_logger(__name__)


@dataclass
class SelfPretrainOptions:
    """Whether and how a model first learns the inputs of its task."""

    self_pretrain: bool = field(
        default=False, metadata={"help": "Predict tokens of the task's inputs before training."}
    )
    pretrain_steps: int | None = field(
        default=None, metadata={"help": "Steps of it; default: as many as of training."}
    )
    pretrain_learning_rate: float | None = field(
        default=None, metadata={"help": "Its learning rate; default: that of training."}
    )
    mask_ratio: float | None = field(
        default=None, metadata={"help": "Share of hidden tokens; default: that of the task."}
    )

    def __post_init__(self):
        if self.mask_ratio is not None and not 0 < self.mask_ratio < 1:
            raise ValueError(f"mask_ratio must lie between 0 and 1, got {self.mask_ratio}.")
        if self.pretrain_steps is not None and self.pretrain_steps < 1:
            raise ValueError(f"pretrain_steps must be at least 1, got {self.pretrain_steps}.")


class SingleSequences(TaskRows):
    """The inputs of a task without labels; both sequences of a pair on their own."""

    def __init__(self, source: TaskRows, is_pair: bool):
        super().__init__(len(source) * (2 if is_pair else 1))
        self.source, self.is_pair = source, is_pair

    def read(self, row: int) -> dict[str, Any]:
        if not self.is_pair:
            return {"input_ids": self.source[row]["input_ids"]}
        suffix = "_2" if row % 2 else ""
        return {"input_ids": self.source[row // 2][f"input_ids{suffix}"]}

    def find_lengths(self, rows: np.ndarray) -> np.ndarray:
        if not self.is_pair:
            return self.source.lengths[rows]
        # about half of a pair each: budgets need no more
        return np.maximum(1, self.source.lengths[rows // 2] // 2)


class NextTokenCollator:
    """Batches whose labels are their tokens, which causal models shift within each sequence."""

    def __init__(self, collator):
        self.collator = collator

    def __call__(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        batch = self.collator([{"input_ids": example["input_ids"]} for example in examples])
        ids = batch["input_ids"]
        mask = batch.get("attention_mask")
        labels = ids.clone() if mask is None else ids.masked_fill(mask == 0, IGNORED)
        return {**batch, "labels": labels}


def self_pretrain(
    model: PreTrainedModel,
    task: Task,
    options: SelfPretrainOptions,
    arguments: RunArguments,
    *,
    collator: Any,
) -> dict[str, float | None]:
    """Train the trunk of a model on the inputs of its task; return loss and accuracy.

    Args:
        model: Its trunk gets the trained weights.
        arguments: Of the training that follows; folder, steps and learning rate are changed.
        collator: Makes batches of the examples.
    """
    resume = _find_resume(arguments)
    language = make_language_model(model, task)
    causal = is_causal(model)
    ratio = options.mask_ratio or task.mask_ratio
    batches = (
        NextTokenCollator(collator)
        if causal
        else MaskedLMCollator(
            collator,
            # all that the collator asks of a tokenizer
            SimpleNamespace(mask_token_id=task.mask_token_id, cls_token_id=None),  # type: ignore[arg-type]
            ratio,
            task.maskable_ids,
            seed=arguments.seed,
        )
    )
    changes: dict[str, Any] = {
        "output_dir": f"{arguments.output_dir}/self_pretrain",
        "load_best_model_at_end": False,
        "metric_for_best_model": None,
        "remove_unused_columns": False,
        "learning_rate": options.pretrain_learning_rate or arguments.learning_rate,
    }
    if options.pretrain_steps is not None:
        changes["max_steps"] = options.pretrain_steps
    arguments = change_arguments(arguments, **changes)
    what = "the next token" if causal else f"{ratio:.0%} hidden tokens"
    logger.info(f"Self-pretraining on {task.name}: predicting {what}.")
    rows = {part: SingleSequences(task.parts[part], task.is_pair) for part in task.parts}
    trainer = MixerTrainer(
        language,
        arguments,
        train_dataset=rows["train"],
        eval_dataset=rows["validation"],
        data_collator=batches,
        # predictions of causal models are of the next token, not of the one at their place
        compute_metrics=None if causal else _accuracy,
        preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1),
    )
    trainer.train(resume_from_checkpoint=resume)
    scores = trainer.evaluate()
    model.base_model.load_state_dict(language.base_model.state_dict())
    found = {"loss": scores["eval_loss"], "accuracy": scores.get("eval_accuracy")}
    return {**found, "steps": trainer.state.global_step, "mask_ratio": None if causal else ratio}


def _find_resume(arguments: RunArguments) -> str | bool | None:
    """What self-pretraining goes on from: its last checkpoint, which must be there unless the
    training after it has begun."""
    found = find_checkpoint(arguments)
    if not found:
        return None
    has_begun = found is not True or find_checkpoints(str(arguments.output_dir)).newest is not None
    return "auto" if has_begun else True


def _accuracy(predicted: Any) -> dict[str, float]:
    kept = predicted.label_ids != IGNORED
    return {"accuracy": float((predicted.predictions == predicted.label_ids)[kept].mean())}
