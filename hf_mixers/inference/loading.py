"""Models for use: with the head that is asked for, on a device, maybe compiled."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pickle import UnpicklingError
from typing import Any

import torch
from accelerate import PartialState
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from .engine import Engine, load_tokenizer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# what the names of classes with a head end in
CLASSIFIER = ("ForSequenceClassification",)
PICTURE_CLASSIFIER = ("ForImageClassification",)
MASKED_LM = ("ForMaskedLM", "ForPreTraining")
# what the reading of damaged or foreign weights raises
_DAMAGES = (OSError, RuntimeError, SafetensorError, UnpicklingError)
# options of `load_model`
MODEL_OPTIONS = ("device", "dtype", "compile")


def load_classifier(checkpoint: str, **options: Any) -> PreTrainedModel:
    """A sequence classifier; a checkpoint without a trained head is refused."""
    return load_model(
        checkpoint, AutoModelForSequenceClassification, "classify", CLASSIFIER, **options
    )


def load_masked_lm(checkpoint: str, **options: Any) -> PreTrainedModel:
    """A masked language model; a checkpoint without its head is refused."""
    return load_model(
        checkpoint, AutoModelForMaskedLM, "predict masked tokens", MASKED_LM, **options
    )


def load_encoder(checkpoint: str, **options: Any) -> PreTrainedModel:
    """The trunk of any checkpoint."""
    return load_model(checkpoint, AutoModel, "embed", **options)


def load_model(
    checkpoint: str,
    auto_class: Any,
    verb: str,
    heads: Sequence[str] = (),
    *,
    device: str | torch.device | None = None,
    dtype: str | None = None,
    compile: bool = False,
) -> PreTrainedModel:
    """A model for inference; one whose weights the checkpoint does not have is refused.

    Args:
        verb: What the model is to do, for the error.
        heads: What the name of its class ends in; any by default.
        device: Where to run; by default an accelerator if there is one.
        dtype: `float32`, `bfloat16` or `float16`.
        compile: Compile the model, which pays for many batches.
    """
    if dtype is not None and dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}.")
    try:
        config = AutoConfig.from_pretrained(checkpoint)
    except (OSError, ValueError) as error:
        raise ValueError(f"{checkpoint!r} is not the folder or Hub name of a model.") from error
    made = ", ".join(config.architectures or ["a model without a named class"])
    if not _has_head(config.architectures or (), heads):
        raise ValueError(f"{checkpoint} cannot {verb}: it holds {made}.")
    try:
        with _quiet():
            model, found = auto_class.from_pretrained(checkpoint, output_loading_info=True)
    except ValueError as error:
        raise ValueError(f"{checkpoint} cannot {verb}: it holds {made}.") from error
    except _DAMAGES as error:
        raise ValueError(
            f"{checkpoint} has no weights that can be read and fit its config.json: {error}"
        ) from error
    missing = sorted(key for key in found["missing_keys"] if "position_ids" not in key)
    if missing:
        raise ValueError(
            f"{checkpoint} cannot {verb}: it holds {made}, which has no weights for {missing[0]}."
        )
    if dtype is not None:
        model = model.to(DTYPES[dtype])
    model = model.eval().to(choose_device(device))
    if compile:
        model.compile(dynamic=True)
    return model


def _has_head(names: Iterable[str], heads: Sequence[str]) -> bool:
    """Whether a class has the head that is asked for; a name that tells of none may have it.

    >>> _has_head(["BertForMaskedLM"], MASKED_LM), _has_head(["BertForMaskedLM"], CLASSIFIER)
    (True, False)
    """
    if not heads or any(name.endswith(tuple(heads)) for name in names):
        return True
    return not any(re.search("For[A-Z]", name) for name in names)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without a bar, and without the report of keys of other heads; ours are checked here."""
    before, has_bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if has_bar:
            logging.enable_progress_bar()


def count_processes() -> int:
    """How many processes a launcher such as torchrun started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def join_processes(device: torch.device) -> PartialState:
    """The processes that a launcher started, this one among them."""
    if count_processes() == 1:
        return PartialState()
    # a process may wait long for the last part of another
    return PartialState(cpu=device.type == "cpu", timeout=timedelta(days=7))


def choose_device(device: str | torch.device | None) -> torch.device:
    """The device that was asked for, or an accelerator if there is one.

    Of several processes, each has the accelerator of its number.
    """
    if device is not None:
        return _check_device(device)
    if count_processes() > 1 and torch.accelerator.is_available():
        return join_processes(torch.device(torch.accelerator.current_accelerator().type)).device
    if torch.accelerator.is_available():
        return torch.accelerator.current_accelerator() or torch.device("cpu")
    return torch.device("cpu")


def _check_device(device: str | torch.device) -> torch.device:
    """The device, or one sentence that this machine does not have it."""
    try:
        return torch.empty(0, device=device).device
    # what torch raises for names that it does not know, and for devices that are not there
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"There is no device {str(device)!r} here: {error}") from error


def make_engine(
    model: str | PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None,
    load: Callable[..., PreTrainedModel],
    options: dict[str, Any],
    **settings: Any,
) -> Engine:
    """An engine for a model or a checkpoint; takes the options of the model out of `options`."""
    own = {name: options.pop(name) for name in MODEL_OPTIONS if name in options}
    if isinstance(model, PreTrainedModel):
        if tokenizer is None:
            raise ValueError("A model that is given as such comes with its tokenizer, got none.")
        if own.get("dtype") is not None:
            raise ValueError("dtype is for checkpoints: convert the model before it is given.")
        _check_model(model, load)
        device = choose_device(own.get("device")) if own.get("device") else model.device
        return Engine(model, tokenizer, device=device, **settings)
    loaded = load(model, **own)
    return Engine(loaded, tokenizer or load_tokenizer(model), device=loaded.device, **settings)


def _check_model(model: PreTrainedModel, load: Callable[..., PreTrainedModel]) -> None:
    """Refuse a model without the head that a function for loading looks for."""
    heads = _HEADS.get(load, ())
    names = [one.__name__ for one in type(model).__mro__]
    if heads and (model.base_model is model or not _has_head(names, heads)):
        raise ValueError(f"A model with {' or '.join(heads)} is accepted, got {names[0]}.")


_HEADS: dict[Callable[..., PreTrainedModel], Sequence[str]] = {
    load_classifier: CLASSIFIER,
    load_masked_lm: MASKED_LM,
}
