"""What heads do with labels before a loss sees them: checked at the border, counted, packed."""

from typing import Any

import torch
from torch import Tensor

from .border import Border
from .inputs import SequenceBatch, check_tensor
from .losses import IGNORED, ask_about
from .packing import Pack


def ask_about_sequences(head: Any, border: Border | None, labels: Tensor | None) -> dict[str, bool]:
    """Have the labels of sequences checked; see `losses.ask_about`."""
    config = head.config
    problem = config.problem_type
    return ask_about(head.loss_function, border, labels, config.num_labels, problem_type=problem)


def ask_about_tokens(
    head: Any,
    border: Border | None,
    batch: SequenceBatch,
    labels: Tensor | None,
    num_labels: int,
) -> dict[str, bool]:
    """Have the labels of tokens checked; those of padding may be anything."""
    labels, mask = real_labels(batch, labels)
    return ask_about(head.loss_function, border, labels, num_labels, mask=mask)


def count_labels(
    border: Border | None, batch: SequenceBatch, labels: Tensor | None
) -> list[int] | None:
    """Where the number of labelled tokens stands once the border is settled.

    `None` if nobody is to wait for it.
    """
    labels, mask = real_labels(batch, labels)
    if labels is None or border is None or not border.checks or labels.device.type == "cpu":
        return None
    known = labels != IGNORED
    count: list[int] = []
    border.ask((known if mask is None else known & mask).sum()[None], count.extend)
    return count


def real_labels(batch: SequenceBatch, labels: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Labels in the layout of their batch and the mask of its tokens; others are refused later."""
    content = next((part for part in batch[:3] if torch.is_tensor(part)), None)
    if content is None or not torch.is_tensor(labels) or labels.shape != content.shape[:2]:
        return None, None
    mask = batch.attention_mask
    if not torch.is_tensor(mask) or mask.shape != labels.shape:
        return labels, None
    return labels, mask.to(labels.device) != 0


def count_items(
    labels: Tensor, num_items_in_batch: Tensor | int | None, pack: Pack
) -> Tensor | int | None:
    """What losses of tokens are divided by, if it is not for the loss to count them.

    Of a pack that processes share, each has the labels of its own tokens.
    """
    if pack.share is None or num_items_in_batch is not None:
        return num_items_in_batch
    with torch.no_grad():
        return pack.share.sum((labels != IGNORED).sum())


def pack_labels(labels: Tensor, shape: tuple[int, int], pack: Pack) -> Tensor:
    """Labels `(B, L)` in the layout of the input -> `(T,)`; padding of a static pack has none."""
    check_tensor("labels", labels)
    if tuple(labels.shape) != tuple(shape):
        raise ValueError(
            f"labels must have shape {tuple(shape)} like the input, got {tuple(labels.shape)}."
        )
    return pack.blank(pack.gather(labels.to(pack.lengths.device).flatten()), IGNORED)
