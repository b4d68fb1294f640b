"""One process or several: who speaks, who writes results, and how all of them end."""

import atexit
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import NoReturn

import datasets
from torch import distributed
from transformers import Trainer, TrainingArguments, set_seed


def begin_run(training: TrainingArguments) -> None:
    """Set the seed; of several processes only the first is heard.

    What the end of a run needs is looked for before its beginning.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise SystemExit("The plots of a run need matplotlib: pip install 'hf-mixers[plots]'.")
    set_seed(training.seed)
    if training.process_index > 0:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
        datasets.disable_progress_bars()


def hand_over(trainer: Trainer) -> bool:
    """Save the model, in which all processes may have a share.

    Whether this process is the one that goes on to judge it and to write the results.
    """
    trainer.save_model()
    return trainer.is_world_process_zero()


def run_as_script(main: Callable[[list[str]], object]) -> None:
    """Call the `main` of a script with the arguments of the command line."""
    main(sys.argv[1:])
    if distributed.is_available() and distributed.is_initialized():
        leave()


def leave() -> NoReturn:
    """End this process of a group at once, without taking the group down.

    A thread of gloo may hold the last reference to a tensor, and so wait for the interpreter, while
    the interpreter waits in a destructor of the group for that thread (torch 2.13): a deadlock.
    """
    # what trackers want to do in the end
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
