"""Muon for the matrices of the blocks and AdamW for all else, as one optimizer."""

import math
import re
from collections.abc import Iterable

import torch
from torch import nn

_BLOCK = re.compile(r"(?:^|\.)layers\.\d+\.")
# what most models of transformers call their blocks and what is below them
_DEPTH = re.compile(r"(?:^|\.)(?:layers?|blocks?|h)\.(\d+)\.")
_EMBEDDING = re.compile(r"(?:^|\.)[^.]*embed[^.]*\.")


class MuonWithAdamW(torch.optim.Optimizer):
    """Groups with `use_muon` are stepped by `torch.optim.Muon`, the others by `torch.optim.AdamW`.

    One object with one list of groups and one state, so that learning-rate schedules, checkpoints,
    resuming and gradient clipping need not know of the two.

    Args:
        groups: Parameter groups with `use_muon` and the settings of the optimizer that it chooses.

    >>> matrix, bias = (nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2)))
    >>> optimizer = MuonWithAdamW(
    ...     [{"params": [matrix], "use_muon": True, "lr": 0.02, "weight_decay": 0.0},
    ...      {"params": [bias], "use_muon": False, "lr": 0.001}])
    >>> (matrix.sum() + bias.sum()).backward()
    >>> optimizer.step()
    >>> bool((bias < 1).all() and (matrix < 1).all())
    True
    """

    def __init__(self, groups: Iterable[dict]):
        groups = [dict(group) for group in groups]
        self._inner: dict[bool, torch.optim.Optimizer] = {}
        for use_muon, kind in ((True, torch.optim.Muon), (False, torch.optim.AdamW)):
            chosen = [group for group in groups if bool(group.get("use_muon")) == use_muon]
            # fills in the defaults of its kind, and refuses what it cannot step
            if any(group["params"] for group in chosen):
                self._inner[use_muon] = kind(chosen)
        if not self._inner:
            raise ValueError("An optimizer needs parameters, got none.")
        made = [group for inner in self._inner.values() for group in inner.param_groups]
        super().__init__(made, {})
        self._share()

    def _share(self) -> None:
        """Let the two work on the groups and the state of this one."""
        for use_muon, inner in self._inner.items():
            inner.param_groups = [g for g in self.param_groups if bool(g["use_muon"]) == use_muon]
            inner.state = self.state

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._share()
        for inner in self._inner.values():
            inner.step()
        return loss


def split_for_muon(
    model: nn.Module,
    decay_names: Iterable[str],
    *,
    learning_rate: float,
    muon_learning_rate: float,
    weight_decay: float,
    **adamw,
) -> list[dict]:
    """Groups for `MuonWithAdamW`: matrices inside the blocks, then all else with and without decay.

    Embeddings, heads, norms and biases are for AdamW.

    Args:
        decay_names: Names of the parameters of AdamW that decay.
        adamw: Further settings of AdamW, such as `betas`.
    """
    decay_names = set(decay_names)
    blocks, decayed, rest = [], [], []
    embeddings = _find_embeddings(model)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        is_matrix = parameter.ndim == 2 and id(parameter) not in embeddings
        if is_matrix and _BLOCK.search(name):
            blocks.append(parameter)
        elif name in decay_names:
            decayed.append(parameter)
        else:
            rest.append(parameter)
    common = {"use_muon": False, "lr": learning_rate, **adamw}
    groups = [
        {
            "params": blocks,
            "use_muon": True,
            "lr": muon_learning_rate,
            "weight_decay": weight_decay,
        },
        {"params": decayed, "weight_decay": weight_decay, **common},
        {"params": rest, "weight_decay": 0.0, **common},
    ]
    return [group for group in groups if group["params"]]


def decay_by_depth(groups: Iterable[dict], model: nn.Module, decay: float) -> list[dict]:
    """Groups whose learning rates fall from the head to the embeddings.

    The last block has `decay` times the rate of the head and of all that comes after the blocks,
    the block below `decay` times that rate, and so on; embeddings come below the first block.
    """
    places = {name: _DEPTH.search(name) for name, _ in model.named_parameters()}
    count = 1 + max((int(found[1]) for found in places.values() if found), default=-1)
    if not count or getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        raise ValueError(
            f"{type(model).__name__} has no single stack of blocks whose learning rates could"
            " differ: layer_learning_rate_decay is not for it."
        )
    tables = _find_embeddings(model)
    depths = {}
    for name, parameter in model.named_parameters():
        if found := places[name]:
            depths[id(parameter)] = count - int(found[1])
        elif id(parameter) in tables or _EMBEDDING.search(name):
            depths[id(parameter)] = count + 1
    made = []
    for group in groups:
        by_depth: dict[int, list[nn.Parameter]] = {}
        for parameter in group["params"]:
            by_depth.setdefault(depths.get(id(parameter), 0), []).append(parameter)
        for depth, own in sorted(by_depth.items()):
            made.append({**group, "params": own, "lr": group["lr"] * decay**depth})
    return made


def refuse_other_rates(optimizer: torch.optim.Optimizer, state: dict) -> None:
    """Refuse a state that was saved with other groups or learning rates than an optimizer has.

    Loading it would replace what was asked for by what is in the state, without a word. Meant for
    `register_load_state_dict_pre_hook`.
    """
    own, saved = _describe(optimizer.param_groups), _describe(state["param_groups"])
    if len(own) == len(saved) and all(
        count == other and (None in (rate, former) or math.isclose(rate, former, rel_tol=1e-6))
        for (count, rate), (other, former) in zip(own, saved, strict=True)
    ):
        return
    raise ValueError(
        "The checkpoint was trained with other learning rates: go on with its learning_rate,"
        " muon_learning_rate and layer_learning_rate_decay, or start anew from its weights."
    )


def _describe(groups: Iterable[dict]) -> list[tuple]:
    """Of each group how many parameters it has, and the rate that its schedule began with."""
    return [(len(group["params"]), group.get("initial_lr")) for group in groups]


def _find_embeddings(model: nn.Module) -> set[int]:
    """Which parameters are tables of embeddings, by id."""
    tables = (module for module in model.modules() if isinstance(module, nn.Embedding))
    return {id(parameter) for table in tables for parameter in table.parameters()}
