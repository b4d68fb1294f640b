"""Checkpoints of the authors' implementations -> models of this package.

A converter reads what it can from the shapes of the weights and the rest from the arguments with
which the original model was built. Every weight must find its place: missing and unexpected keys
are errors.
"""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor
from transformers import PreTrainedModel

from .chordmixer import convert_chordmixer, convert_chordmixer_pretraining
from .paramixer import convert_paramixer
from .states import StateDict, load_exactly, read_state_dict, without_prefix

__all__ = ["CONVERTERS", "from_original", "read_state_dict"]

CONVERTERS: dict[str, Callable[..., tuple[PreTrainedModel, StateDict]]] = {
    "chordmixer": convert_chordmixer,
    "chordmixer_pretraining": convert_chordmixer_pretraining,
    "paramixer": convert_paramixer,
}


def from_original(
    source: str | Path | Mapping[str, Tensor], family: str, **original_constructor_arguments
) -> PreTrainedModel:
    """A model of this package with the weights of an original checkpoint.

    Args:
        source: Path of a `.safetensors` or `.pt` file (read with `weights_only=True`), or a state
            dict.
        family: `chordmixer` (classifiers and the retrieval model), `chordmixer_pretraining` or
            `paramixer`.
        original_constructor_arguments: As given to the original class, for example `track_size=16`.
    """
    if family not in CONVERTERS:
        raise ValueError(f"family must be one of {', '.join(CONVERTERS)}, got {family!r}.")
    missing = _required_arguments(family) - set(original_constructor_arguments)
    if missing:
        raise ValueError(
            f"{family} requires {' and '.join(sorted(missing))}, as given to the original class."
        )
    state = source if isinstance(source, Mapping) else read_state_dict(Path(source))
    model, renamed = CONVERTERS[family](
        without_prefix(dict(state)), **original_constructor_arguments
    )
    load_exactly(model, renamed)
    return model.eval()


def _required_arguments(family: str) -> set[str]:
    """Arguments of the original class that neither its weights nor a default tell."""
    parameters = inspect.signature(CONVERTERS[family]).parameters.values()
    return {
        one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty
    }
