"""A training that is killed at random moments: `python -m tests.training.killed_run folder 20`.

Prints one line of JSON: at which part of its time each run was killed, and whether its weights in
the end are those of the run that was not. Processes are forked from one that has imported all and
has trained nothing, so that twenty runs take a minute and not twenty starts of Python.
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


def main(folder: Path, kills: int, seed: int = 0) -> dict:
    begin = time.monotonic()
    finish(start(folder / "straight"))
    duration = time.monotonic() - begin
    expected = load_file(folder / "straight/last/model.safetensors")
    generator = random.Random(seed)
    result = {"moments": [], "killed": [], "saved": [], "set_aside": [], "equal": []}
    for number in range(kills):
        run = folder / f"run-{number}"
        moment = generator.random()
        process = start(run)
        time.sleep(moment * duration)
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        saved = sorted(path.name for path in run.glob("checkpoint-*"))
        finish(start(run))
        weights = load_file(run / "last/model.safetensors")
        result["moments"].append(round(moment, 3))
        result["killed"].append(os.WIFSIGNALED(status))
        result["saved"].append(saved)
        result["set_aside"].append([path.name for path in run.glob("incomplete-*")])
        result["equal"].append(
            weights.keys() == expected.keys()
            and all(torch.equal(weights[name], expected[name]) for name in expected)
        )
        shutil.rmtree(run)
    return result


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), *map(int, sys.argv[2:]))))
