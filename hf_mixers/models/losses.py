"""Losses of the heads: a sum over items divided by a number of items.

That number is `num_items_in_batch` when the Trainer gives it (all items of an accumulated and
distributed step), else the items at hand, so that gradients do not depend on how a step is cut into
batches.
"""

import torch
from torch import Tensor
from torch.nn import functional

from .packing import at_least_float32, use_static_layout

IGNORED = -100


def average(losses: Tensor, count: Tensor | int, num_items_in_batch: Tensor | int | None) -> Tensor:
    """Sum of `losses` over the number of items; 0 when there are none."""
    items = count if num_items_in_batch is None else num_items_in_batch
    if torch.is_tensor(items):
        return losses.sum() / items.to(losses.device).clamp(min=1)
    return losses.sum() / max(items, 1)


def token_loss(
    logits: Tensor,
    labels: Tensor,
    class_weights: list[float] | None = None,
    num_items_in_batch: Tensor | int | None = None,
) -> Tensor:
    """Cross-entropy of tokens: `logits` `(T, C)`, `labels` `(T,)` with -100 where there is none."""
    logits = at_least_float32(logits)
    labels = _check_classes(labels, logits.shape[-1])
    weights = None if class_weights is None else logits.new_tensor(class_weights)
    losses = functional.cross_entropy(
        logits, labels, weights, ignore_index=IGNORED, reduction="none"
    )
    return average(losses, (labels != IGNORED).sum(), num_items_in_batch)


def infer_problem(problem_type: str | None, num_labels: int, labels: Tensor) -> str:
    """The kind of problem: the configured one, else what number and type of labels suggest."""
    if problem_type is not None:
        return problem_type
    if num_labels == 1:
        return "regression"
    return (
        "multi_label_classification"
        if labels.is_floating_point()
        else "single_label_classification"
    )


def sequence_loss(
    logits: Tensor,
    labels: Tensor,
    problem_type: str | None = None,
    class_weights: list[float] | None = None,
    num_items_in_batch: Tensor | int | None = None,
) -> Tensor:
    """Loss of one prediction per sequence, `logits` `(B, C)`.

    - single label: `labels` `(B,)` class ids, cross-entropy, `class_weights` weigh the examples;
    - multi-label: `labels` `(B, C)` in [0, 1], -100 where unknown, binary cross-entropy,
      `class_weights` weigh the positives;
    - regression: `labels` `(B,)` or `(B, C)`, squared error.
    """
    labels = labels.to(logits.device)
    logits = at_least_float32(logits)
    problem = infer_problem(problem_type, logits.shape[-1], labels)
    weights = None if class_weights is None else logits.new_tensor(class_weights)
    if problem == "single_label_classification":
        _check_shape(labels, (logits.shape[0],), problem)
        labels = _check_classes(labels.view(-1), logits.shape[-1])
        losses = functional.cross_entropy(
            logits, labels, weights, ignore_index=IGNORED, reduction="none"
        )
        return average(losses, (labels != IGNORED).sum(), num_items_in_batch)
    _check_shape(labels, tuple(logits.shape), problem)
    targets = labels.view_as(logits).to(logits.dtype)
    if problem == "regression":
        losses = functional.mse_loss(logits, targets, reduction="none")
        return average(losses, losses.numel(), num_items_in_batch)
    known = targets != IGNORED
    _check_shares(torch.where(known, targets, 0))
    losses = functional.binary_cross_entropy_with_logits(
        logits, torch.where(known, targets, 0), reduction="none", pos_weight=weights
    )
    return average(torch.where(known, losses, 0), known.sum(), num_items_in_batch)


def _check_classes(labels: Tensor, num_classes: int) -> Tensor:
    """Labels as int64, each a class or -100."""
    given, labels = labels, labels.long()
    if not use_static_layout() and labels.numel():
        if given.is_floating_point() and bool((given != labels).any()):
            raise ValueError("labels of classes must be whole numbers, got others.")
        known = torch.where(labels == IGNORED, 0, labels)
        low, high = (int(bound) for bound in torch.aminmax(known))
        if low < 0 or high >= num_classes:
            raise ValueError(
                f"labels must lie in 0..{num_classes - 1}, or be {IGNORED} for none, got {low} to "
                f"{high}."
            )
    return labels


def _check_shares(targets: Tensor) -> None:
    """Refuse targets of a binary cross-entropy that are not in [0, 1]."""
    if use_static_layout() or not targets.numel():
        return
    is_wrong = ~((targets >= 0) & (targets <= 1))
    if bool(is_wrong.any()):
        raise ValueError(
            f"labels of multi_label_classification must lie in [0, 1], or be {IGNORED} for none, "
            f"got {targets[is_wrong][0].item():g}."
        )


def _check_shape(labels: Tensor, shape: tuple[int, ...], problem: str) -> None:
    accepted = {shape, (*shape, 1)} if len(shape) == 1 else {shape}
    if shape[-1] == 1:
        accepted.add(shape[:-1])
    if tuple(labels.shape) not in accepted:
        raise ValueError(f"labels of {problem} must have shape {shape}, got {tuple(labels.shape)}.")
