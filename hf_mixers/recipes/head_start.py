"""The first stage of a fine-tuning: the head learns on vectors that the blocks made once.

Blocks are the costly part of a step, and at first the head, which knows nothing, would only pull
them about. So every sequence passes the blocks once; then the head and the k-mer part of the pooled
vector, which are small, learn from what is kept, in as many epochs as lower the loss on validation
rows. What is trained afterwards starts as a good classifier.
"""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.utils import logging

from ..data.batching import TokenBudgetBatchSampler
from ..data.collators import FlatCollator
from ..models.inputs import SequenceBatch
from ..models.packing import at_least_float32
from ..training import MixerTrainer

logger = logging.get_logger(__name__)


@dataclass
class HeadStart:
    """Settings of the stage.

    Attributes:
        epochs: Most passes over the vectors.
        patience: Passes without a lower loss on validation rows after which it ends.
        max_rows: More training rows than these are not read: vectors are held in memory.
    """

    epochs: int = 30
    patience: int = 4
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    label_smoothing: float = 0.05
    max_rows: int = 50_000
    token_budget: int = 16384


@dataclass
class StartedHead:
    """A model as the stage left it: its weights, and losses and accuracy of every epoch."""

    weights: dict[str, Tensor]
    history: list[dict[str, float]]


@dataclass
class Vectors:
    """What the head reads of every sequence: pooled vectors, and profiles of models with k-mers."""

    pooled: Tensor
    profiles: Tensor | None
    labels: Tensor

    def __getitem__(self, rows: Tensor) -> "Vectors":
        profiles = None if self.profiles is None else self.profiles[rows]
        return Vectors(self.pooled[rows], profiles, self.labels[rows])


def start_head(
    model: PreTrainedModel,
    rows: dict[str, Dataset],
    settings: HeadStart,
    *,
    bf16: bool = False,
    seed: int = 0,
) -> list[dict[str, float]]:
    """Train the head of a classifier, and its k-mer part, with all blocks as they are.

    Args:
        model: A sequence classifier with single labels.
        rows: Tokenized `train`, and `validation` to stop by; without it all epochs are run.

    Returns the losses and the accuracy of every epoch.
    """
    generator = torch.Generator().manual_seed(seed)
    train = rows["train"]
    if len(train) > settings.max_rows:
        drawn = torch.randperm(len(train), generator=generator)[: settings.max_rows]
        train = train.select(drawn.sort().values.tolist())
    train_vectors = read_vectors(model, train, settings.token_budget, bf16)
    held_out = None
    if "validation" in rows:
        held_out = read_vectors(model, rows["validation"], settings.token_budget, bf16)
    parameters = head_parameters(model)
    optimizer = torch.optim.AdamW(
        parameters, settings.learning_rate, weight_decay=settings.weight_decay
    )
    weights = model.config.class_weights
    weights = None if weights is None else torch.tensor(weights, device=model.device).float()
    best, kept, history = np.inf, None, []
    for epoch in range(settings.epochs):
        losses = []
        for batch in torch.randperm(len(train), generator=generator).split(settings.batch_size):
            chosen = train_vectors[batch]
            loss = functional.cross_entropy(
                score(model, chosen, training=True),
                chosen.labels,
                weight=weights,
                label_smoothing=settings.label_smoothing,
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        entry: dict[str, float] = {"head_epoch": epoch + 1, "head_loss": float(np.mean(losses))}
        if held_out is not None:
            entry |= evaluate_head(model, held_out, weights)
        history.append(entry)
        logger.info(f"head: {entry}")
        value = entry.get("head_eval_loss", -float(epoch))
        if value < best:
            best, kept, last = value, copy.deepcopy(_state(model)), epoch
        elif epoch - last >= settings.patience:
            break
    model.load_state_dict(kept, strict=False)
    optimizer.zero_grad()
    return history


def keep_better(trainer: MixerTrainer, started: StartedHead) -> bool:
    """Put the weights of the stage back if no epoch after it scored higher on validation rows.

    Whether they were. The trainer must have evaluated at step 0.
    """
    trainer.state.log_history[:0] = started.history
    name = trainer.args.metric_for_best_model
    best = trainer.state.best_metric
    first = [
        entry[f"eval_{name}"]
        for entry in trainer.state.log_history
        if entry.get("step") == 0 and f"eval_{name}" in entry
    ]
    if best is None or not first:
        return False
    is_better = first[0] > best if trainer.args.greater_is_better else first[0] < best
    if is_better:
        logger.info(f"The head alone was better on validation rows: {first[0]:.4f}, not {best:.4f}")
        trainer.model.load_state_dict(started.weights)
    return is_better


@torch.no_grad()
def evaluate_head(model: PreTrainedModel, vectors: Vectors, weights: Tensor | None) -> dict:
    """Loss and accuracy of the head on vectors."""
    rows = torch.arange(len(vectors.labels)).split(4096)
    logits = torch.cat([score(model, vectors[part], training=False) for part in rows])
    loss = functional.cross_entropy(logits, vectors.labels, weight=weights)
    right = (logits.argmax(1) == vectors.labels).float().mean()
    return {"head_eval_loss": float(loss), "head_eval_accuracy": float(right)}


def head_parameters(model: PreTrainedModel) -> list[nn.Parameter]:
    """What the stage trains: the head, and the encoder of k-mer profiles."""
    own = [p for n, p in model.named_parameters() if not n.startswith("model.")]
    encoder = model.base_model.kmers
    return own + ([] if encoder is None else list(encoder.parameters()))


def _state(model: PreTrainedModel) -> dict[str, Any]:
    chosen = {id(p) for p in head_parameters(model)}
    return {n: p.detach() for n, p in model.named_parameters() if id(p) in chosen}


def score(model: PreTrainedModel, vectors: Vectors, *, training: bool) -> Tensor:
    """Logits of a sequence classifier from vectors of its sequences."""
    trunk: Any = model.base_model
    pooled, profiles = vectors.pooled.to(model.dtype), vectors.profiles
    was_training = model.training
    model.train(training)
    try:
        if profiles is not None:
            profiles = profiles.to(model.dtype)
            made = trunk.kmers(profiles)
            if trunk.pooled_norm is not None:
                made = _standardize(trunk.pooled_norm, made)
            pooled = torch.cat([pooled, made], dim=1)
        logits = model.classifier(model.dropout(pooled))
        if profiles is not None:
            logits = logits + model.kmer_classifier(profiles)
    finally:
        model.train(was_training)
    return at_least_float32(logits)


def _standardize(norm: nn.Module, values: Tensor) -> Tensor:
    """The last channels of a `RunningStandardize`, whose means stay as they are."""
    place = slice(-values.shape[1], None)
    scale = torch.rsqrt(norm.running_var[place] + norm.eps)
    return (values - norm.running_mean[place]) * scale


@torch.no_grad()
def read_vectors(
    model: PreTrainedModel, rows: Dataset, token_budget: int, bf16: bool = False
) -> Vectors:
    """Pooled vectors, without their k-mer part, and profiles of tokenized sequences."""
    trunk: Any = model.base_model
    config, device = model.config, model.device
    width = config.pooled_size - (config.kmer_hidden_size if config.kmer_size else 0)
    pooled = torch.empty(len(rows), width, device=device)
    profiles = None
    if config.kmer_size:
        profiles = torch.empty(len(rows), config.num_kmers, dtype=torch.float16, device=device)
    collator, was_training = FlatCollator(), model.training
    model.eval()
    for indices in TokenBudgetBatchSampler(rows["length"][:], token_budget, shuffle=False):
        batch = collator([{"input_ids": rows[index]["input_ids"]} for index in indices])
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            encoded = trunk(
                batches=(
                    SequenceBatch(
                        batch["input_ids"].to(device),
                        None,
                        None,
                        None,
                        batch["cu_seq_lens_q"].to(device),
                        batch.get("max_length_q"),
                    ),
                )
            )
            pooled[indices] = encoded.pool()[:, :width].float()
        if profiles is not None:
            profiles[indices] = encoded.pack.restore(encoded.profile()).half()
    model.train(was_training)
    labels = torch.as_tensor(np.asarray(rows["labels"][:]), device=device)
    return Vectors(pooled, profiles, labels)
