"""Numbers that are not finite stop a training, in a sentence that names them."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn


def check_start(model: nn.Module) -> None:
    """Refuse to train a model whose weights or `class_weights` are not finite."""
    check_weights(model, "before training")
    weights = getattr(getattr(model, "config", None), "class_weights", None) or ()
    for weight in weights:
        if not isfinite(weight):
            raise ValueError(f"config.class_weights hold {weight}: training needs finite weights.")


def check_weights(model: nn.Module, when: str) -> None:
    """Refuse weights that are not finite."""
    found = find_weight(model)
    if found is not None:
        raise ValueError(f"The weight {found} is not finite {when}.")


def find_weight(model: nn.Module) -> str | None:
    """Name of the first weight that is not finite."""
    for name, weight in model.named_parameters():
        # of a sharded weight each process looks at its own part
        weight = weight.to_local() if hasattr(weight, "to_local") else weight
        if weight.device.type != "meta" and not is_finite(weight.detach()):
            return name
    return None


def is_finite(values: Tensor) -> bool:
    """Whether all numbers of a tensor are finite; whole numbers are."""
    if not (values.is_floating_point() or values.is_complex()):
        return True
    # a sum is one pass without a mask; only if it overflows are the numbers looked at one by one
    return bool(values.sum().isfinite()) or bool(values.isfinite().all())


class LossWatch:
    """The first step whose loss was not finite, kept on the device of the losses.

    Looking at every loss would make the host wait for an accelerator at every step.
    """

    def __init__(self) -> None:
        self._step: Tensor | None = None

    def see(self, loss: Tensor, step: int) -> None:
        """Remember `step` if its loss is not finite and no earlier one was."""
        is_finite = loss.detach().isfinite().all()
        if self._step is None:
            self._step = torch.zeros((), dtype=torch.long, device=loss.device)
        is_first = ~is_finite & (self._step == 0)
        self._step = torch.where(is_first, step, self._step)

    def check(self) -> None:
        """Refuse to go on after a loss that was not finite."""
        step = 0 if self._step is None else int(self._step)
        if step:
            raise ValueError(
                f"The loss was not finite at step {step}: a smaller learning rate, or float32 in"
                " place of half precision, may help."
            )


def check_loss(loss: Tensor, inputs: Mapping[str, Any], model: nn.Module, step: int) -> None:
    """Refuse a loss that is not finite; the message names the first cause that can be found."""
    if bool(loss.detach().isfinite().all()):
        return
    when = f"at step {step}"
    # labels are the usual cause, and a loss without finite labels says nothing about the rest
    for name in sorted(inputs, key=lambda name: not name.startswith("labels")):
        value = inputs[name]
        if torch.is_tensor(value) and not is_finite(value):
            bad = value[~value.isfinite()][0].item()
            raise ValueError(f"{name} hold {bad} {when}: finite numbers are needed.")
    check_weights(model, when)
    raise ValueError(
        f"The loss is {loss.detach().mean().item()} {when}, with finite weights and inputs: a"
        " smaller learning rate, or float32 in place of half precision, may help."
    )
