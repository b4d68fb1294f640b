"""`Trainer` with batches by tokens."""

from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.data_loader import prepare_data_loader
from accelerate.utils import gather_object
from datasets import IterableDataset as DatasetStream
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset
from tqdm.auto import tqdm
from transformers.trainer_utils import EvalLoopOutput, EvalPrediction, denumpify_detensorize

from .._compat import (
    collator_without_unused_columns,
    remove_unused_columns,
    wrap_for_evaluation,
)
from ..data.batching import TokenBudgetBatchSampler
from ..models.losses import IGNORED
from ..models.sharing import shared_over
from ..parallel import make_context_group
from .averages import AveragingTrainer
from .checks import check_collator, check_examples
from .hub import PublishingTrainer
from .optimizers import MuonWithAdamW, decay_by_depth, refuse_other_rates, split_for_muon
from .safe import SafeTrainer

# arguments that training or evaluation by tokens does not have, and their defaults
_STOCK_ONLY = {
    "train_token_budget": {
        "train_sampling_strategy": "random",
        "auto_find_batch_size": False,
        "dataloader_drop_last": False,
    },
    "eval_token_budget": {
        "include_for_metrics": [],
        "batch_eval_metrics": False,
        "eval_do_concat_batches": True,
    },
}


class MixerTrainer(AveragingTrainer, SafeTrainer, PublishingTrainer):
    """`Trainer` whose batches have a budget of tokens instead of a number of sequences.

    Sequences of any lengths share a batch, best with a `FlatCollator`. Evaluation sees every
    example once, in any number of processes; its loss is the mean over all items (not over
    batches), and predictions come in the order of the data set. Predictions per token come as one
    row per labelled token, or per token if there are no labels; of several outputs, such as hidden
    states, only the logits are predictions. Without budgets it is the stock `Trainer`, but for what
    it publishes: see `PublishingTrainer`.

    A data set needs a column `length` (`args.length_column_name`), an attribute `lengths`, or
    `input_ids` to count.

    With `args.context_parallel_size`, that many processes share each batch, and each has a part of
    its tokens: for sequences that are too long for one. A budget is then of them together.

    How a training stops at bad numbers, and how it goes on: see `SafeTrainer`; averages of the
    weights: see `WeightAverage`.
    """

    _is_evaluating = False

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for budget, defaults in _STOCK_ONLY.items():
            if getattr(self.args, budget, None) is None:
                continue
            for name, default in defaults.items():
                value = getattr(self.args, name)
                if value != default:
                    raise ValueError(
                        f"{name}={value} works with batch sizes only: set {budget} to None."
                    )
        size = getattr(self.args, "context_parallel_size", 1)
        for budget in _STOCK_ONLY if size > 1 else ():
            if getattr(self.args, budget, None) is None:
                raise ValueError(f"context_parallel_size={size} needs {budget}, got none.")
        self._context = make_context_group(size)

    def create_optimizer(self, model: torch.nn.Module | None = None) -> torch.optim.Optimizer:
        is_given = self.optimizer is not None
        rate = getattr(self.args, "muon_learning_rate", None)
        if rate and not is_given:
            chosen = self.model if model is None else model
            self.optimizer = MuonWithAdamW(
                split_for_muon(
                    chosen,
                    self.get_decay_parameter_names(chosen),
                    learning_rate=self.args.learning_rate,
                    muon_learning_rate=rate,
                    weight_decay=self.args.weight_decay,
                    betas=(self.args.adam_beta1, self.args.adam_beta2),
                    eps=self.args.adam_epsilon,
                )
            )
        optimizer = super().create_optimizer(model)
        decay = getattr(self.args, "layer_learning_rate_decay", None)
        if decay is not None and not is_given:
            chosen = self.model if model is None else model
            optimizer.param_groups[:] = decay_by_depth(optimizer.param_groups, chosen, decay)
        if not is_given:
            optimizer.register_load_state_dict_pre_hook(refuse_other_rates)
        return optimizer

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
        dataset: Any = self.eval_dataset if eval_dataset is None else eval_dataset
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
        check_collator(self.data_collator)
        check_examples(f"The data set of {description.lower()}", dataset)
        size = getattr(self.args, "context_parallel_size", 1)
        sampler = TokenBudgetBatchSampler(
            sequence_lengths(dataset, self.args.length_column_name),
            budget,
            shuffle=shuffle,
            seed=self.args.data_seed if self.args.data_seed is not None else self.args.seed,
            num_replicas=self.args.world_size // size,
            # processes that share batches have the same ones
            rank=self.args.process_index // size,
        )
        if shuffle:
            for part in (dataset, self.data_collator):
                if hasattr(part, "set_epoch"):
                    if self.args.dataloader_persistent_workers:
                        raise ValueError(
                            f"{type(part).__name__} changes with the epoch, of which workers that"
                            " live on do not hear: set dataloader_persistent_workers to False."
                        )
                    sampler.on_set_epoch(part.set_epoch)
        collator = self.data_collator
        if not shuffle and hasattr(collator, "for_evaluation"):
            collator = collator.for_evaluation()
        if hasattr(dataset, "remove_columns"):
            dataset = remove_unused_columns(self, dataset, description)
        else:
            collator = collator_without_unused_columns(self, collator, description)
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
            loader, self.args.device, num_processes=1, process_index=0, put_on_device=False
        )

    def _prepare_inputs(self, inputs: dict[str, Any]) -> dict[str, Any]:
        # the host needs the boundaries, and would have to wait for the device to get them back
        kept = {name: value for name, value in inputs.items() if name.startswith("cu_seq_lens")}
        moved = {name: value for name, value in inputs.items() if name not in kept}
        return {**super()._prepare_inputs(self._send(moved)), **kept}

    def _send(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Tensors on their way to the device.

        A copy that is not asynchronous, as that of transformers, waits for all that the device has
        to do.
        """
        device = self.args.device
        return {
            name: value.to(device, non_blocking=True) if torch.is_tensor(value) else value
            for name, value in inputs.items()
        }

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        with shared_over(self._context):
            return super().training_step(*args, **kwargs)

    def prediction_step(self, *args: Any, **kwargs: Any) -> Any:
        with shared_over(self._context):
            return super().prediction_step(*args, **kwargs)

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
                parts.append(self._evaluated_part(indices, inputs, *outputs))
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
        model = wrap_for_evaluation(self)
        if not self.is_in_train and (self.args.fp16_full_eval or self.args.bf16_full_eval):
            dtype = torch.float16 if self.args.fp16_full_eval else torch.bfloat16
            model = model.to(device=self.args.device, dtype=dtype)
        return model.eval()

    def _get_num_items_in_batch(self, batch_samples, device):
        # in evaluation each batch has its own mean, which is weighed afterwards
        if self._is_evaluating:
            return None
        # counted on the device, because transformers would wait for the copy of a number
        labels = [
            self._send({name: batch[name] for name in batch if name.endswith("labels")})
            for batch in batch_samples
        ]
        return super()._get_num_items_in_batch(labels, device)

    def _evaluated_part(self, indices, inputs, loss, logits, labels) -> "EvaluatedPart":
        """What one batch gives, as numpy arrays."""
        given = inputs.get("labels")
        items = len(indices) if given is None else int((given != IGNORED).sum())
        rows = np.asarray(indices)
        if isinstance(logits, tuple):
            logits = logits[0]
        if logits is not None and logits.dim() == 3:
            numbers = number_tokens(inputs, logits)
            kept = numbers >= 0
            if labels is not None:
                kept &= labels != IGNORED
                labels = labels[kept]
            logits, rows = logits[kept], rows[numbers[kept].cpu().numpy()]
        if logits is not None and self.preprocess_logits_for_metrics is not None:
            logits = self.preprocess_logits_for_metrics(logits, labels)
        return EvaluatedPart(
            first=indices[0],
            rows=rows,
            loss=None if loss is None else float(loss),
            items=items,
            predictions=None if logits is None else logits.float().cpu().numpy(),
            labels=None if labels is None else labels.cpu().numpy(),
        )

    def _join_parts(
        self, parts: list["EvaluatedPart"], num_samples: int, prefix: str
    ) -> EvalLoopOutput:
        # a process without a batch of its own had a copy of another's, which counts once
        parts = list({part.first: part for part in parts}.values())
        predictions = _join([part.predictions for part in parts])
        labels = _join([part.labels for part in parts])
        # stable, so that tokens of an example stay in order
        order = np.argsort(np.concatenate([part.rows for part in parts]), kind="stable")
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

    first: int  # the first example of the batch, which is in no other
    rows: np.ndarray  # example in the data set that each row of the predictions is of
    loss: float | None
    items: int
    predictions: np.ndarray | None
    labels: np.ndarray | None


def number_tokens(inputs: dict[str, Any], logits: Tensor) -> Tensor:
    """Which sequence of a batch each token of logits `(B, L, C)` is of; -1 for padding.

    >>> inputs = {"cu_seq_lens_q": torch.tensor([0, 2, 3])}
    >>> number_tokens(inputs, torch.zeros(1, 3, 2)).tolist()
    [[0, 0, 1]]
    >>> inputs = {"attention_mask": torch.tensor([[1, 1], [1, 0]])}
    >>> number_tokens(inputs, torch.zeros(2, 2, 2)).tolist()
    [[0, 0], [1, -1]]
    """
    if "cu_seq_lens_q" in inputs:
        lengths = inputs["cu_seq_lens_q"].to(logits.device).diff()
        numbers = torch.arange(len(lengths), device=logits.device)
        return numbers.repeat_interleave(lengths)[None]
    numbers = torch.arange(len(logits), device=logits.device)[:, None].expand(logits.shape[:2])
    mask = inputs.get("attention_mask")
    return numbers if mask is None else numbers.masked_fill(mask.to(logits.device) == 0, -1)


def sequence_lengths(dataset: Any, column: str = "length") -> np.ndarray:
    """Tokens of every example of a data set, from its attribute `lengths`, a column, or its ids."""
    if isinstance(dataset, (DatasetStream, IterableDataset)):
        raise ValueError(
            "Token budgets need the lengths of all examples, which a stream does not have: set"
            " train_token_budget and eval_token_budget to None, which leaves the batch sizes."
        )
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
