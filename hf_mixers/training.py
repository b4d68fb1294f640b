"""`Trainer` with batches by tokens: `MixerTrainer` and its arguments."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from accelerate.data_loader import prepare_data_loader
from accelerate.utils import gather_object
from torch.utils.data import DataLoader, Dataset
from tqdm.auto import tqdm
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import EvalLoopOutput, EvalPrediction, denumpify_detensorize

from .data.batching import TokenBudgetBatchSampler
from .models.losses import IGNORED


@dataclass
class MixerTrainingArguments(TrainingArguments):
    """`TrainingArguments` with budgets of tokens, which take the place of the batch sizes."""

    train_token_budget: int | None = field(
        default=16384,
        metadata={"help": "Most tokens in a training batch of one process; none: batch sizes."},
    )
    eval_token_budget: int | None = field(
        default=65536,
        metadata={"help": "Most tokens in an evaluation batch of one process; none: batch sizes."},
    )


class MixerTrainer(Trainer):
    """`Trainer` whose batches have a budget of tokens instead of a number of sequences.

    Sequences of any lengths share a batch, best with a `FlatCollator`. Evaluation sees every
    example once, in any number of processes; its loss is the mean over all items (not over
    batches), and predictions come in the order of the data set. Predictions per token come as one
    row per labelled token. Without budgets it is the stock `Trainer`.

    A data set needs a column `length` (`args.length_column_name`), an attribute `lengths`, or
    `input_ids` to count.
    """

    _is_evaluating = False

    def get_train_dataloader(self) -> DataLoader:
        budget = getattr(self.args, "train_token_budget", None)
        if budget is None:
            return super().get_train_dataloader()
        if self.train_dataset is None:
            raise ValueError("Training needs a train_dataset, got none.")
        return self._budget_loader(self.train_dataset, budget, "Training", shuffle=True)

    def get_eval_dataloader(self, eval_dataset: str | Dataset | None = None) -> DataLoader:
        budget = getattr(self.args, "eval_token_budget", None)
        if budget is None:
            return super().get_eval_dataloader(eval_dataset)
        if isinstance(eval_dataset, str):
            eval_dataset = self.eval_dataset[eval_dataset]
        dataset = self.eval_dataset if eval_dataset is None else eval_dataset
        if dataset is None:
            raise ValueError("Evaluation needs an eval_dataset, got none.")
        return self._budget_loader(dataset, budget, "Evaluation", shuffle=False)

    def get_test_dataloader(self, test_dataset: Dataset) -> DataLoader:
        if getattr(self.args, "eval_token_budget", None) is None:
            return super().get_test_dataloader(test_dataset)
        return self.get_eval_dataloader(test_dataset)

    def _budget_loader(
        self, dataset: Dataset, budget: int, description: str, shuffle: bool
    ) -> DataLoader:
        sampler = TokenBudgetBatchSampler(
            sequence_lengths(dataset, self.args.length_column_name),
            budget,
            shuffle=shuffle,
            seed=self.args.data_seed if self.args.data_seed is not None else self.args.seed,
            num_replicas=self.args.world_size,
            rank=self.args.process_index,
        )
        if shuffle:
            for part in (dataset, self.data_collator):
                if hasattr(part, "set_epoch"):
                    sampler.on_set_epoch(part.set_epoch)
        collator = self.data_collator
        if not shuffle and hasattr(collator, "for_evaluation"):
            collator = collator.for_evaluation()
        if hasattr(dataset, "remove_columns"):
            dataset = self._remove_unused_columns(dataset, description=description)
        else:
            collator = self._get_collator_with_removed_columns(collator, description=description)
        loader = DataLoader(
            dataset,
            batch_sampler=sampler,
            collate_fn=collator,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory and self.args.device.type != "cpu",
            prefetch_factor=self.args.dataloader_prefetch_factor,
            persistent_workers=self.args.dataloader_persistent_workers,
        )
        # one process as far as accelerate is concerned: the sampler has dealt the batches out
        return prepare_data_loader(
            loader, self.args.device, num_processes=1, process_index=0, put_on_device=True
        )

    def evaluation_loop(
        self,
        dataloader: DataLoader,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        sampler = getattr(dataloader, "batch_sampler", None)
        if not isinstance(sampler, TokenBudgetBatchSampler):
            return super().evaluation_loop(
                dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix
            )
        if prediction_loss_only is None:
            prediction_loss_only = self.args.prediction_loss_only
        model = self._prepare_for_evaluation()
        self.callback_handler.eval_dataloader = dataloader
        parts = []
        self._is_evaluating = True
        try:
            for indices, inputs in zip(list(sampler), dataloader, strict=True):
                outputs = self.prediction_step(model, inputs, prediction_loss_only, ignore_keys)
                parts.append(self._evaluated_part(indices, inputs.get("labels"), *outputs))
                self.control = self.callback_handler.on_prediction_step(
                    self.args, self.state, self.control
                )
        finally:
            self._is_evaluating = False
        if self.args.world_size > 1:
            parts = gather_object(parts)
        return self._join_parts(parts, len(sampler.lengths), metric_key_prefix)

    def _prepare_for_evaluation(self) -> torch.nn.Module:
        """The model as training left it, or wrapped for evaluation if there was none."""
        model = self._wrap_model(self.model, training=False)
        if not self.accelerator._models and model is self.model:
            model = self.accelerator.prepare_model(model, evaluation_mode=True)
        return model.eval()

    def _get_num_items_in_batch(self, batch_samples, device):
        # in evaluation each batch has its own mean, which is weighed afterwards
        if self._is_evaluating:
            return None
        return super()._get_num_items_in_batch(batch_samples, device)

    def _evaluated_part(self, indices, given_labels, loss, logits, labels) -> "EvaluatedPart":
        """What one batch gives, as numpy arrays."""
        items = len(indices) if given_labels is None else int((given_labels != IGNORED).sum())
        per_token = torch.is_tensor(logits) and logits.dim() == 3
        if per_token and labels is not None:
            labelled = labels != IGNORED
            logits, labels = logits[labelled], labels[labelled]
        if logits is not None and self.preprocess_logits_for_metrics is not None:
            logits = self.preprocess_logits_for_metrics(logits, labels)
        return EvaluatedPart(
            indices=None if per_token else indices,
            loss=None if loss is None else float(loss),
            items=items,
            predictions=None if logits is None else logits.float().cpu().numpy(),
            labels=None if labels is None else labels.cpu().numpy(),
        )

    def _join_parts(
        self, parts: list["EvaluatedPart"], num_samples: int, prefix: str
    ) -> EvalLoopOutput:
        predictions = _join([part.predictions for part in parts])
        labels = _join([part.labels for part in parts])
        if all(part.indices is not None for part in parts):
            order = np.argsort(np.concatenate([part.indices for part in parts]))
            predictions = predictions if predictions is None else predictions[order]
            labels = labels if labels is None else labels[order]
        metrics = {}
        if self.compute_metrics is not None and predictions is not None and labels is not None:
            metrics = self.compute_metrics(EvalPrediction(predictions, labels))
        if parts[0].loss is not None:
            total = sum(part.loss * part.items for part in parts)
            metrics["loss"] = total / max(1, sum(part.items for part in parts))
        metrics = {
            name if name.startswith(f"{prefix}_") else f"{prefix}_{name}": value
            for name, value in denumpify_detensorize(metrics).items()
        }
        return EvalLoopOutput(predictions, labels, metrics, num_samples)


class EvaluatedPart(NamedTuple):
    """Results of one evaluation batch."""

    indices: list[int] | None  # examples in the data set; None for results per token
    loss: float | None
    items: int
    predictions: np.ndarray | None
    labels: np.ndarray | None


def sequence_lengths(dataset: Dataset, column: str = "length") -> np.ndarray:
    """Tokens of every example of a data set, from its attribute `lengths`, a column, or its ids."""
    if hasattr(dataset, "lengths"):
        return np.asarray(dataset.lengths)
    if column in (getattr(dataset, "column_names", None) or []):
        return np.asarray(dataset.with_format("numpy")[column])
    names = ("input_ids", "input_values", "inputs_embeds")
    try:
        first = dataset[0]
        name = next(name for name in names if name in first)
    except (StopIteration, TypeError, NotImplementedError) as error:
        raise ValueError(
            f"Token budgets need lengths: give the data set a column {column!r}, an attribute "
            f"'lengths', or one of {', '.join(names)}."
        ) from error
    return np.array([len(dataset[i][name]) for i in tqdm(range(len(dataset)), "lengths")])


def _join(arrays: list[np.ndarray | None]) -> np.ndarray | None:
    return None if any(array is None for array in arrays) else np.concatenate(arrays)
