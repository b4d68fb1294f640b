"""`MixerTrainer` whose processes share batches: the losses of one process."""

import os

import numpy as np
import pytest
from accelerate.state import AcceleratorState

from hf_mixers.training import MixerTrainingArguments
from tests.parallel.ranks import run_ranks
from tests.training.training_run import build_trainer

pytestmark = pytest.mark.processes


def train(rank, folder, size):
    """Losses of training, and of evaluation with its predictions."""
    if size > 1:
        names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size}
        os.environ.update({name: str(value) for name, value in names.items()})
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="1")
        AcceleratorState._reset_state(reset_partial_state=True)
    arguments = MixerTrainingArguments(
        str(folder),
        use_cpu=True,
        train_token_budget=200,
        eval_token_budget=300,
        max_steps=3,
        logging_steps=1,
        learning_rate=1e-2,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        context_parallel_size=size,
    )
    trainer = build_trainer("chordmixer", arguments)
    assert trainer.args.world_size == size
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    found = trainer.predict(trainer.eval_dataset)
    return losses, found.metrics["test_loss"], found.predictions


def test_processes_that_share_batches_train_as_one(tmp_path):
    losses, test_loss, predictions = train(0, tmp_path, 1)
    assert len(losses) == 3
    for found in run_ranks(train, 2, tmp_path, 2):
        np.testing.assert_allclose(found[0], losses, atol=2e-4)
        np.testing.assert_allclose(found[1], test_loss, atol=2e-4)
        np.testing.assert_allclose(found[2], predictions, atol=1e-3)


def test_a_size_that_leaves_processes_over_is_refused(tmp_path):
    with pytest.raises(ValueError, match="context_parallel_size must divide the number of proc"):
        MixerTrainingArguments(str(tmp_path), use_cpu=True, context_parallel_size=2)
