"""A training that is killed at random moments: `python -m tests.training.killed_run folder 20`.

Prints one line of JSON: after which step each run was killed, which checkpoints it left, and
whether its weights in the end are those of the run that was not killed. Processes are forked from
one that has imported all and has trained nothing, which saves twenty starts of Python.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import set_seed
from transformers.utils import logging

from hf_mixers.data import FlatCollator
from hf_mixers.training import MixerTrainer, MixerTrainingArguments
from tests.families import find_row

from .training_run import SequenceData

STEPS = 30


def train(folder: Path) -> None:
    """Train with dropout, save at every step, and leave the weights in `folder/last`."""
    set_seed(3)
    lengths = [5 + 3 * number % 40 for number in range(40)]
    trainer = MixerTrainer(
        find_row("chordmixer").build(
            "sequence_classification",
            max_position_embeddings=64,
            hidden_dropout_prob=0.2,
            classifier_dropout=0.2,
        ),
        MixerTrainingArguments(
            str(folder),
            train_token_budget=128,
            max_steps=STEPS,
            learning_rate=3e-3,
            save_steps=1,
            save_total_limit=1,
            logging_steps=10,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            seed=3,
        ),
        train_dataset=SequenceData(lengths),
        data_collator=FlatCollator(),
    )
    trainer.train(resume_from_checkpoint="auto")
    trainer.save_model(folder / "last")


def start(folder: Path) -> int:
    """Fork a process that trains; its number."""
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        logging.set_verbosity_error()
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
        train(folder)
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


def finish(process: int) -> None:
    _, status = os.waitpid(process, 0)
    if status != 0:
        raise RuntimeError(f"A training ended with status {status}.")


def kill_after(process: int, folder: Path, step: int, delay: float) -> bool:
    """Kill a training so long after it began to save a step; False if it was done before."""
    while step and not (folder / f"checkpoint-{step}").exists():
        if os.waitpid(process, os.WNOHANG)[0]:
            return False
        time.sleep(0.001)
    time.sleep(delay)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    return os.WIFSIGNALED(status)


def main(folder: Path, kills: int, seed: int = 0) -> dict:
    begin = time.monotonic()
    finish(start(folder / "straight"))
    duration = (time.monotonic() - begin) / STEPS
    expected = load_file(folder / "straight/last/model.safetensors")
    generator = random.Random(seed)
    result = {"after": [], "saved": [], "set_aside": [], "equal": []}
    while len(result["after"]) < kills:
        run = folder / f"run-{len(result['after'])}"
        # a step seems to take longer than it does, by its part of the start and of the end
        step, delay = generator.randrange(STEPS), generator.uniform(0, duration)
        if kill_after(start(run), run, step, delay):
            saved = sorted(path.name for path in run.glob("checkpoint-*"))
            finish(start(run))
            weights = load_file(run / "last/model.safetensors")
            result["after"].append(step)
            result["saved"].append(saved)
            result["set_aside"].append([path.name for path in run.glob("incomplete-*")])
            result["equal"].append(
                weights.keys() == expected.keys()
                and all(torch.equal(weights[name], expected[name]) for name in expected)
            )
        shutil.rmtree(run, ignore_errors=True)
    return result


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), *map(int, sys.argv[2:]))))
