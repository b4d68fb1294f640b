"""State dicts of original checkpoints: reading, renaming, comparing, loading."""

import re
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel

StateDict = dict[str, Tensor]


def read_state_dict(path: Path) -> StateDict:
    """The tensors of a `.safetensors` or `.pt` file, never executing anything from it."""
    if not path.is_file():
        raise ValueError(f"{path} is not a file.")
    if path.suffix == ".safetensors":
        return load_file(path)
    if path.suffix not in (".pt", ".pth", ".bin", ".ckpt"):
        raise ValueError(
            f"A checkpoint ends in .safetensors, .pt, .pth, .bin or .ckpt, got {path.name}."
        )
    loaded = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(loaded, dict):
        loaded = loaded.get("state_dict", loaded)
    if not isinstance(loaded, dict):
        raise ValueError(f"{path.name} holds a {type(loaded).__name__}, needed is a state dict.")
    if not all(torch.is_tensor(value) for value in loaded.values()):
        raise ValueError(f"{path.name} holds more than the tensors of a state dict.")
    return loaded


def without_prefix(state: StateDict) -> StateDict:
    """Keys without what DataParallel, Lightning and the retrieval wrapper put in front of them."""
    return {
        re.sub(r"^(module\.|backbone\.|model\.)+", "", key): value for key, value in state.items()
    }


def rename(state: StateDict, rules: list[tuple[str, str]]) -> StateDict:
    """Every key after all rules, each anchored at its start, one after the other."""
    renamed = {}
    for key, value in state.items():
        new = key
        for pattern, replacement in rules:
            new = re.sub(f"^{pattern}", replacement, new)
        if new in renamed:
            raise ValueError(f"Two weights of the checkpoint are {new}, one of them is {key}.")
        renamed[new] = value
    return renamed


def count_modules(state: StateDict, prefix: str) -> int:
    """Number of the modules `prefix.0`, `prefix.1`, ... that have weights."""
    numbers = [int(m[1]) for key in state if (m := re.match(rf"{re.escape(prefix)}\.(\d+)\.", key))]
    if not numbers:
        raise ValueError(f"The checkpoint has no blocks: no key was recognised as {prefix}.")
    return max(numbers) + 1


def read_width(state: StateDict, key: str, dimension: int = 0) -> int:
    if key not in state:
        raise ValueError(f"The checkpoint has no weight for {key}.")
    return state[key].shape[dimension]


def refuse_unknown(stated: dict, known: set[str]) -> None:
    if unknown := sorted(set(stated) - known):
        raise ValueError(f"The original constructor has no argument {', '.join(unknown)}.")


def compare_with_stated(stated: dict, seen: dict) -> None:
    for name, value in seen.items():
        if stated.get(name, value) != value:
            raise ValueError(f"{name}={stated[name]!r} was stated, but the weights say {value!r}.")


def load_exactly(model: PreTrainedModel, state: StateDict) -> None:
    wanted = model.state_dict()
    missing, unexpected = sorted(wanted.keys() - state.keys()), sorted(state.keys() - wanted.keys())
    if missing or unexpected:
        raise ValueError(
            f"The checkpoint does not fit: missing {missing or 'nothing'}, unexpected "
            f"{unexpected or 'nothing'}."
        )
    for key, value in wanted.items():
        if value.shape != state[key].shape:
            raise ValueError(
                f"{key} has shape {tuple(state[key].shape)} in the checkpoint, needed is "
                f"{tuple(value.shape)}."
            )
    model.load_state_dict(state)
