"""A training goes on from the newest complete checkpoint, whenever and however it was ended."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
from transformers.utils import logging

from hf_mixers.training.checkpoints import find_checkpoints, find_fault
from tests.families import find_row

from .test_safe import build

# more moments than in a usual test run: HF_MIXERS_KILLS=20
KILLS = int(os.environ.get("HF_MIXERS_KILLS", "2"))


def run(folder, resume=None, steps=6, **changes):
    trainer = build(
        folder,
        fields={"hidden_dropout_prob": 0.2},
        **{"max_steps": steps, "save_strategy": "steps", "save_steps": 2, **changes},
    )
    trainer.train(resume_from_checkpoint=resume)
    return trainer.model.state_dict()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run of six steps with three checkpoints, and its weights."""
    folder = tmp_path_factory.mktemp("finished")
    return folder, run(folder)


@pytest.fixture
def killed(finished, tmp_path):
    """A copy of that folder, as if the run had ended while it saved for the last time."""
    return shutil.copytree(finished[0], tmp_path / "killed")


@pytest.fixture
def heard(caplog):
    """Warnings of the package and of transformers."""
    logging.enable_propagation()
    yield lambda: [record.getMessage() for record in caplog.records]
    logging.disable_propagation()


def cut(path):
    """Leave the first part of a file, as a full disk or a kill does."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])


FILES = (
    "model.safetensors",
    "optimizer.pt",
    "scheduler.pt",
    "rng_state.pth",
    "trainer_state.json",
    "config.json",
    "training_args.bin",
)


@pytest.mark.parametrize(
    ("name", "resume"), [*((name, True) for name in FILES), (FILES[0], "auto")]
)
def test_a_checkpoint_with_half_a_file_is_skipped_with_a_warning(
    name, resume, finished, killed, heard
):
    cut(killed / "checkpoint-6" / name)
    weights = run(killed, resume=resume)
    warnings = [text for text in heard() if "is not complete" in text]
    assert len(warnings) == 1
    assert f"checkpoint-6 is not complete ({name} cannot be read to its end): " in warnings[0]
    assert warnings[0].endswith("checkpoint-4 is used.")
    for key, value in finished[1].items():
        assert torch.equal(weights[key], value)
    assert (killed / "incomplete-checkpoint-6").is_dir()
    assert find_fault(killed / "checkpoint-6") is None


@pytest.mark.parametrize("name", ["model.safetensors", "trainer_state.json"])
def test_a_checkpoint_without_its_weights_or_its_last_file_is_skipped(
    name, finished, killed, heard
):
    for step in (4, 6):
        (killed / f"checkpoint-{step}" / name).unlink()
    weights = run(killed, resume=True)
    assert [text.rpartition(": ")[2] for text in heard() if "not complete" in text] == [
        "checkpoint-2 is used."
    ] * 2
    for key, value in finished[1].items():
        assert torch.equal(weights[key], value)


def test_what_was_set_aside_before_goes_away(killed):
    (killed / "checkpoint-6/trainer_state.json").unlink()
    (killed / "incomplete-checkpoint-5").mkdir()
    run(killed, resume=True)
    assert sorted(path.name for path in killed.glob("incomplete-*")) == ["incomplete-checkpoint-6"]


def test_an_incomplete_checkpoint_does_not_push_out_a_newer_one(killed):
    # within a second, rotation of checkpoints goes by their numbers
    (killed / "checkpoint-6/trainer_state.json").unlink()
    run(killed, resume=True, steps=5, save_steps=1, save_total_limit=1)
    assert [path.name for path in killed.glob("checkpoint-*")] == ["checkpoint-5"]


def test_without_a_complete_checkpoint_auto_starts_and_true_is_refused(finished, tmp_path, heard):
    weights = run(tmp_path / "new", resume="auto")
    for key, value in finished[1].items():
        assert torch.equal(weights[key], value)
    broken = tmp_path / "broken"
    (broken / "checkpoint-3").mkdir(parents=True)
    with pytest.raises(ValueError, match="has no complete checkpoint to go on from"):
        run(broken, resume=True)
    assert any(text.endswith("training starts again.") for text in heard())


def test_a_checkpoint_that_is_named_must_be_complete(killed):
    (killed / "checkpoint-6/optimizer.pt").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"checkpoint-6 is not a complete checkpoint: optimizer"):
        run(killed, resume=str(killed / "checkpoint-6"))
    with pytest.raises(ValueError, match="checkpoint-7 is not a complete checkpoint: it is not a"):
        run(killed, resume=str(killed / "checkpoint-7"))
    assert (killed / "checkpoint-6").is_dir()
    assert run(killed, resume=str(killed / "checkpoint-4"))


@pytest.mark.parametrize("resume", [True, "auto", "named"])
def test_a_checkpoint_without_state_of_the_optimizer_is_an_error_unless_allowed(resume, tmp_path):
    run(tmp_path, steps=4, save_only_model=True)
    resume = str(tmp_path / "checkpoint-4") if resume == "named" else resume
    with pytest.raises(ValueError, match="has no state of the optimizer: set resume_without_opt"):
        run(tmp_path, resume=resume)
    run(tmp_path, resume=resume, resume_without_optimizer=True)
    assert find_checkpoints(tmp_path).newest.name == "checkpoint-6"


def test_saving_over_an_old_checkpoint_is_incomplete_until_it_is_done(killed, monkeypatch):
    trainer = build(killed, max_steps=6, save_strategy="steps", save_steps=6)

    def fail(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr(trainer, "_save_optimizer_and_scheduler", fail)
    with pytest.raises(OSError, match="No space left"):
        trainer.train()
    assert find_fault(killed / "checkpoint-6") == "it has no trainer_state.json"


def test_shards_that_are_missing_are_named(tmp_path):
    model = find_row("chordmixer").build()
    model.save_pretrained(tmp_path, max_shard_size="5KB")
    (tmp_path / "trainer_state.json").write_text("{}")
    assert find_fault(tmp_path) is None
    shard = sorted(tmp_path.glob("model-*.safetensors"))[1]
    shard.unlink()
    assert find_fault(tmp_path) == f"it has no {shard.name}"


@pytest.mark.processes
def test_runs_that_are_killed_at_random_moments_end_as_if_they_were_not(tmp_path):
    command = [sys.executable, "-m", "tests.training.killed_run", str(tmp_path), str(KILLS)]
    done = subprocess.run(command, check=True, timeout=60 * KILLS + 120, stdout=subprocess.PIPE)
    result = json.loads(done.stdout)
    assert len(result["after"]) == KILLS
    assert result["equal"] == [True] * KILLS, result
