"""Private interfaces of other packages that hf_mixers uses, one reason each.

After an upgrade, `tests/test_compat.py` names what is missing.
"""

import atexit
import os
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from torch import distributed


def leave_process_group() -> NoReturn:
    """End this process of a group at once, without taking the group down.

    A thread of gloo may hold the last reference to a tensor, and so wait for the interpreter, while
    the interpreter waits in a destructor of the group for that thread (torch 2.13): a deadlock.
    """
    # trackers do their last work in exit functions, which `os._exit` would skip
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def is_in_process_group() -> bool:
    return distributed.is_available() and distributed.is_initialized()


class PushHooks:
    """Base class of a `Trainer` that says itself what is pushed at a save (`hub_strategy`).

    Trainer would push the whole output folder with `training_args.bin`, which holds the token, and
    has no public method to change that.
    """

    def push_checkpoint(self, folder: str) -> None:
        """Push what is to be public of a checkpoint that was just saved."""
        raise NotImplementedError

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        self.push_checkpoint(checkpoint_folder)

    def wait_for_push(self) -> None:
        """Wait until a push in the background has ended."""
        self._finish_current_push()  # type: ignore[attr-defined]


def auto_classes_of(model: Any) -> Iterator[type]:
    """Auto classes of transformers that load models of this class.

    The classes do not tell which models they know.
    """
    from transformers.models.auto import modeling_auto

    for name, auto in vars(modeling_auto).items():
        mapping = getattr(auto, "_model_mapping", None) if name.startswith("AutoModel") else None
        if mapping is not None and type(model.config) in mapping:
            found = mapping[type(model.config)]
            if type(model) in (found if isinstance(found, tuple) else (found,)):
                yield auto
