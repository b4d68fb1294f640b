"""Private interfaces of other packages that hf_mixers uses outside `models/`, one reason each.

After an upgrade, `tests/test_compat.py` names what is missing. Those that models and tokenizers use
are in `models/_compat.py`, because the files of that folder go to the Hub without this one.
"""

import atexit
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from torch import distributed, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

if TYPE_CHECKING:
    # the Trainer imports much that a model does not need
    from transformers import Pipeline, Trainer

# called or read by the functions below
CALLED = {
    "atexit._run_exitfuncs": "trackers do their last work in exit functions, which os._exit skips",
    "os._exit": "a process of a gloo group may deadlock in its destructors",
    "transformers.PreTrainedModel._from_config": "what from_config of every Auto class calls",
    "transformers.Trainer._remove_unused_columns": (
        "data sets are treated as the stock loader treats them, with its messages"
    ),
    "transformers.Trainer._get_collator_with_removed_columns": "the same for other data sets",
    "transformers.Trainer._wrap_model": "the evaluation loop wraps the model as the stock one does",
    "transformers.Trainer._get_output_dir": "where the checkpoint of this step is written",
    "transformers.Trainer._finish_current_push": "a push in the background ends before the next",
    "transformers.AutoModel._model_mapping": "Auto classes do not tell which models they load",
    "transformers.Pipeline()._forward_params": "options that a pipeline was made with",
    "accelerate.Accelerator()._models": "says whether training has prepared the model already",
}

# overridden by classes of the package; transformers calls them
OVERRIDDEN = {
    "transformers.Trainer._push_from_checkpoint": "it pushes the whole folder, token included",
    "transformers.Trainer._get_num_items_in_batch": (
        "evaluation by token budget weighs the means of its batches itself; labels are counted on"
        " the device"
    ),
    "transformers.Trainer._prepare_inputs": (
        "boundaries of flat batches stay on the host; the rest is copied asynchronously"
    ),
    "transformers.Trainer._init_training_state": "a finished run takes no more steps",
    "transformers.Trainer._save_checkpoint": (
        "an old mark of completeness must go first; averages of the weights are what is saved"
    ),
    "transformers.Trainer._load_optimizer_and_scheduler": (
        "the optimizer's state has the weights that training with averages goes on with"
    ),
    "transformers.Trainer._maybe_log_save_evaluate": "the last step is logged however short a run",
    "transformers.Pipeline._forward": "what pipelines of one's own must have",
    "transformers.Pipeline._sanitize_parameters": "the same",
    "transformers.Pipeline._load_tokenizer": "the same",
    "transformers.Pipeline._load_processor": "the same",
    "transformers.Pipeline._load_image_processor": "the same",
    "transformers.Pipeline._load_feature_extractor": "the same",
}


def options_of_pipeline(pipeline: "Pipeline") -> dict[str, Any]:
    """Options that a pipeline was made with."""
    return pipeline._forward_params


def leave_process_group() -> NoReturn:
    """End this process of a group at once, without taking the group down.

    A thread of gloo may hold the last reference to a tensor, and so wait for the interpreter, while
    the interpreter waits in a destructor of the group for that thread (torch 2.13): a deadlock.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def is_in_process_group() -> bool:
    """Whether this process is one of a group that has been initialised."""
    return distributed.is_available() and distributed.is_initialized()


def make_model(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, **kwargs: Any
) -> PreTrainedModel:
    """A model with new weights, in the dtype and with the attention that `kwargs` or config say."""
    return model_class._from_config(config, **kwargs)


def remove_unused_columns(trainer: "Trainer", dataset: Any, description: str) -> Any:
    """The data set without the columns that the model's forward does not take."""
    return trainer._remove_unused_columns(dataset, description=description)


def collator_without_unused_columns(
    trainer: "Trainer", collator: Callable[..., Any], description: str
) -> Callable[..., Any]:
    """The collator after a step that removes what the model's forward does not take."""
    return trainer._get_collator_with_removed_columns(collator, description=description)


def wrap_for_evaluation(trainer: "Trainer") -> nn.Module:
    """The trainer's model as training left it, or prepared for evaluation if there was none."""
    model: Any = trainer._wrap_model(trainer.model, training=False)
    if not trainer.accelerator._models and model is trainer.model:
        model = trainer.accelerator.prepare_model(model, evaluation_mode=True)
    return model


def checkpoint_folder(trainer: "Trainer", trial: Any) -> Path:
    """Where the checkpoint of this step is written."""
    name = f"{PREFIX_CHECKPOINT_DIR}-{trainer.state.global_step}"
    return Path(trainer._get_output_dir(trial), name)


def wait_for_push(trainer: "Trainer") -> None:
    """Wait until a push in the background has ended."""
    trainer._finish_current_push()


def has_model(auto: Any, config: PreTrainedConfig) -> bool:
    """Whether an Auto class has a model for a config."""
    return type(config) in auto._model_mapping


def auto_classes_of(model: Any) -> Iterator[type]:
    """Auto classes of transformers that load models of this class."""
    from transformers.models.auto import modeling_auto

    for name, auto in vars(modeling_auto).items():
        mapping = getattr(auto, "_model_mapping", None) if name.startswith("AutoModel") else None
        if mapping is not None and type(model.config) in mapping:
            found = mapping[type(model.config)]
            if type(model) in (found if isinstance(found, tuple) else (found,)):
                yield auto
