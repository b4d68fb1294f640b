"""Losses of the heads: a sum over items divided by a number of items.

That number is `num_items_in_batch` when the Trainer gives it (all items of an accumulated and
distributed step), else the items at hand, so that gradients do not depend on how a step is cut into
batches.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .border import Border
from .packing import at_least_float32, upload

IGNORED = -100
SINGLE_LABEL = "single_label_classification"


def ask_about(
    loss_function: Any, border: Border | None, labels: Any, num_labels: int, **settings: Any
) -> dict[str, bool]:
    """Have the labels of a loss checked at a border, before anything is computed.

    Returns the arguments that then tell the loss not to do it itself. A loss of the user's own
    checks what it wants.
    """
    ask = getattr(loss_function, "ask", None)
    if ask is None or border is None:
        return {}
    if torch.is_tensor(labels):
        ask(border, labels, num_labels, **settings)
    return {"check": False}


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
    check: bool = True,
) -> Tensor:
    """Cross-entropy of tokens: `logits` `(T, C)`, `labels` `(T,)` with -100 where there is none."""
    logits = at_least_float32(logits)
    if check:
        _check_now(ask_classes, labels, logits.shape[-1])
    labels = labels.long()
    weights = None if class_weights is None else upload(class_weights, logits.device, logits.dtype)
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
    return "multi_label_classification" if labels.is_floating_point() else SINGLE_LABEL


def sequence_loss(
    logits: Tensor,
    labels: Tensor,
    problem_type: str | None = None,
    class_weights: list[float] | None = None,
    num_items_in_batch: Tensor | int | None = None,
    check: bool = True,
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
    accepted = (logits.shape[0],) if problem == SINGLE_LABEL else tuple(logits.shape)
    _check_shape(labels, accepted, problem)
    if check:
        _check_now(partial(ask_sequences, problem_type=problem), labels, logits.shape[-1])
    weights = None if class_weights is None else upload(class_weights, logits.device, logits.dtype)
    if problem == SINGLE_LABEL:
        labels = labels.view(-1).long()
        losses = functional.cross_entropy(
            logits, labels, weights, ignore_index=IGNORED, reduction="none"
        )
        return average(losses, (labels != IGNORED).sum(), num_items_in_batch)
    targets = labels.view_as(logits).to(logits.dtype)
    if problem == "regression":
        losses = functional.mse_loss(logits, targets, reduction="none")
        return average(losses, losses.numel(), num_items_in_batch)
    known = targets != IGNORED
    losses = functional.binary_cross_entropy_with_logits(
        logits, torch.where(known, targets, 0), reduction="none", pos_weight=weights
    )
    return average(torch.where(known, losses, 0), known.sum(), num_items_in_batch)


def ask_classes(
    border: Border, labels: Tensor, num_classes: int, mask: Tensor | None = None
) -> None:
    """Refuse labels that are neither a class nor -100; those outside of `mask` may be anything."""
    whole = labels.long()
    known = whole != IGNORED if mask is None else (whole != IGNORED) & mask
    if labels.is_floating_point():
        border.ask_if((labels != whole) & known, _refuse_fractions)

    def check(bounds: list[int]) -> None:
        low, high = bounds
        if low < 0 or high >= num_classes:
            raise ValueError(
                f"labels must lie in 0..{num_classes - 1}, or be {IGNORED} for none, got {low} to "
                f"{high}."
            )

    border.ask_bounds(torch.where(known, whole, 0), check)


def _refuse_fractions() -> None:
    raise ValueError("labels of classes must be whole numbers, got others.")


def ask_sequences(
    border: Border, labels: Tensor, num_labels: int, problem_type: str | None = None
) -> None:
    """Refuse labels that are no classes, or no targets of a binary cross-entropy in [0, 1]."""
    problem = infer_problem(problem_type, num_labels, labels)
    if problem == SINGLE_LABEL:
        ask_classes(border, labels, num_labels)
    elif problem == "multi_label_classification":
        is_wrong = (labels != IGNORED) & ~((labels >= 0) & (labels <= 1))

        def refuse() -> None:
            raise ValueError(
                f"labels of {problem} must lie in [0, 1], or be {IGNORED} for none, "
                f"got {labels[is_wrong][0].item():g}."
            )

        border.ask_if(is_wrong, refuse)


def _check_now(ask: Any, labels: Tensor, num_labels: int) -> None:
    border = Border()
    ask(border, labels, num_labels)
    border.settle()


token_loss.ask = ask_classes  # type: ignore[attr-defined]  # what heads look for
sequence_loss.ask = ask_sequences  # type: ignore[attr-defined]


def _check_shape(labels: Tensor, shape: tuple[int, ...], problem: str) -> None:
    accepted = {shape, (*shape, 1)} if len(shape) == 1 else {shape}
    if shape[-1] == 1:
        accepted.add(shape[:-1])
    if tuple(labels.shape) not in accepted:
        raise ValueError(f"labels of {problem} must have shape {shape}, got {tuple(labels.shape)}.")
