"""Steps to measure: a network's forward pass, or forward, backward and optimiser."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .contenders import PEERS, build_network, check_mixing, count_parameters, draw_ids
from .isolated import Built

Mode = Literal["forward", "training"]
MODES: tuple[Mode, ...] = ("forward", "training")
# long enough for windows and landmarks of the peers
TINY = 256


def build_single(
    name: str, length: int, mode: Mode, seed: int, settings: dict[str, int] | None = None
) -> Built:
    """A network on one sequence."""
    warm_up(name, mode, settings)
    torch.manual_seed(seed)
    model = build_network(name, length, settings)
    inputs = {"input_ids": draw_ids(1, length, seed=seed), "labels": torch.tensor([1])}
    step = make_step(model, mode)
    return Built(lambda: step(inputs), {"parameters": count_parameters(model)})


def warm_up(name: str, mode: Mode, settings: dict[str, int] | None = None) -> None:
    """A step on a tiny input, so that libraries are loaded before memory is measured."""
    model = build_network(name, TINY, settings)
    if name in PEERS:
        check_mixing(model, TINY)
    make_step(model, mode)({"input_ids": draw_ids(1, TINY), "labels": torch.tensor([1])})


def make_step(model: nn.Module, mode: Mode) -> Callable[[dict[str, Any]], None]:
    """What is done with a batch in this mode."""
    return _Training(model) if mode == "training" else _Forward(model)


class _Forward:
    def __init__(self, model: nn.Module):
        self.model = model.eval()

    def __call__(self, inputs: dict[str, Any]) -> None:
        given = {name: value for name, value in inputs.items() if name != "labels"}
        with torch.no_grad():
            self.model(**given)


class _Training:
    def __init__(self, model: nn.Module):
        self.model = model.train()
        parameters = [one for one in model.parameters() if one.requires_grad]
        self.optimiser = torch.optim.AdamW(parameters, lr=1e-4)
        # its state is made in the first step: that is no memory of the steps that are measured
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        self.optimiser.step()
        self.optimiser.zero_grad()

    def __call__(self, inputs: dict[str, Any]) -> None:
        loss: Tensor = self.model(**inputs).loss
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
