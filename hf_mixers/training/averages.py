"""Averages of the weights over the steps of a training, for evaluation and for what is saved."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer
from transformers.trainer_utils import TrainOutput

# state of a parameter, and setting of a group, in an optimizer
_AVERAGE, _STEPS = "average", "averaged_steps"


class WeightAverage:
    """Exponential moving averages of what an optimizer steps, kept in the optimizer's state.

    While the averages are shown, the model has them and the optimizer's state has the weights that
    training goes on with. A checkpoint is written so: its model is the average, and its optimizer
    knows the rest. Buffers, such as running means, are not averaged.

    Args:
        decay: Share of the average that stays at each step. At the first steps it is smaller, so
            that the average follows the weights.

    >>> weight = torch.nn.Parameter(torch.zeros(1))
    >>> optimizer = torch.optim.SGD([weight], lr=1.0)
    >>> average = WeightAverage(optimizer, decay=0.5)
    >>> for _ in range(3):
    ...     weight.grad = -torch.ones(1)
    ...     optimizer.step()
    >>> with average.shown():
    ...     round(weight.item(), 2)
    2.7
    >>> weight.item()
    3.0
    """

    def __init__(self, optimizer: torch.optim.Optimizer, decay: float):
        self.optimizer, self.decay = optimizer, decay
        optimizer.register_step_post_hook(self._update)

    def swap(self) -> None:
        """Exchange weights and averages; what has no average yet stays."""
        with torch.no_grad():
            for weight, state in _states_of(self.optimizer):
                if _AVERAGE in state:
                    kept = weight.clone()
                    weight.copy_(state[_AVERAGE])
                    state[_AVERAGE].copy_(kept)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """The model with its averages."""
        self.swap()
        try:
            yield
        finally:
            self.swap()

    def finish(self) -> None:
        """Leave the averages in the model for good."""
        self.swap()
        self.forget()

    def forget(self) -> None:
        """Drop the averages."""
        for _, state in _states_of(self.optimizer):
            state.pop(_AVERAGE, None)
        for group in self.optimizer.param_groups:
            group.pop(_STEPS, None)

    @torch.no_grad()
    def _update(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            steps = group[_STEPS] = group.get(_STEPS, 0) + 1
            decay = min(self.decay, steps / (steps + 9))
            for weight in group["params"]:
                state = optimizer.state[weight]
                if _AVERAGE not in state:
                    state[_AVERAGE] = weight.detach().clone()
                else:
                    state[_AVERAGE].lerp_(weight, 1 - decay)


def has_averages(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the state of an optimizer holds averages."""
    return any(_AVERAGE in state for _, state in _states_of(optimizer))


def _states_of(optimizer: torch.optim.Optimizer) -> Iterator[tuple[Tensor, dict[str, Any]]]:
    for group in optimizer.param_groups:
        for weight in group["params"]:
            yield weight, optimizer.state[weight]


class AveragingTrainer(Trainer):
    """`Trainer` that evaluates and saves averages where `args.weight_average_decay` says so."""

    _average: WeightAverage | None = None

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        optimizer = super().create_optimizer(model)
        decay = getattr(self.args, "weight_average_decay", None)
        if decay is not None and self._average is None:
            self._average = WeightAverage(optimizer, decay)
        return optimizer

    def train(self, *args: Any, **kwargs: Any) -> TrainOutput:
        output = super().train(*args, **kwargs)
        if self._average is not None:
            # the best checkpoint was loaded with its averages
            is_best = self.args.load_best_model_at_end and self.state.best_model_checkpoint
            if is_best:
                self._average.forget()
            else:
                self._average.finish()
        return output

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        with self._shown():
            return super().evaluate(*args, **kwargs)

    def _save_checkpoint(self, model, trial):
        with self._shown():
            super()._save_checkpoint(model, trial)

    def _load_optimizer_and_scheduler(self, checkpoint):
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        if self._average is not None:
            # the checkpoint was written while the averages were shown
            self._average.swap()
        elif has_averages(self.optimizer):
            raise ValueError(
                f"{checkpoint} has averages of the weights: set weight_average_decay to go on from"
                " it."
            )

    def _shown(self) -> AbstractContextManager:
        is_shown = self._average is not None and self.is_in_train
        return self._average.shown() if is_shown else nullcontext()
