"""A folder has one run at a time, and results are lost to nobody who did not say so."""

import json
import os
import socket
import subprocess
import sys

import pytest

from hf_mixers.reporting.occupied import LOCK, leave_folder, occupy_folder

HOLD = """
import sys
from hf_mixers.reporting.occupied import occupy_folder
occupy_folder(sys.argv[1])
print("taken", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "taken\n"
    yield process
    process.kill()
    process.wait()


@pytest.mark.processes
def test_a_folder_in_use_is_refused_until_its_run_ends(holder, tmp_path):
    for options in ({}, {"overwrite": True}, {"resume": True}):
        with pytest.raises(ValueError, match=rf"is in use by process {holder.pid} on"):
            occupy_folder(tmp_path, **options)
    holder.communicate("")
    assert not (tmp_path / LOCK).exists()
    occupy_folder(tmp_path)
    leave_folder(tmp_path)
    assert not (tmp_path / LOCK).exists()


@pytest.mark.processes
@pytest.mark.parametrize("reaped", [True, False])
def test_a_killed_run_leaves_the_folder_free(reaped, holder, tmp_path):
    holder.kill()
    if reaped:
        holder.wait()
    else:
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    assert (tmp_path / LOCK).exists()
    occupy_folder(tmp_path)
    assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    leave_folder(tmp_path)


def test_a_later_process_of_the_same_number_is_another_one(tmp_path):
    lock = {"pid": os.getppid(), "host": socket.gethostname(), "started": 5.0}
    (tmp_path / LOCK).write_text(json.dumps(lock))
    occupy_folder(tmp_path)
    leave_folder(tmp_path)


def test_a_run_of_another_machine_is_believed_to_live(tmp_path):
    (tmp_path / LOCK).write_text('{"pid": 1, "host": "elsewhere", "started": 5.0}')
    with pytest.raises(ValueError, match=r"process 1 on elsewhere.*delete run.lock"):
        occupy_folder(tmp_path, overwrite=True)


def test_the_same_process_may_take_a_folder_again(tmp_path):
    """A notebook whose run ended in an error."""
    occupy_folder(tmp_path)
    occupy_folder(tmp_path)
    leave_folder(tmp_path)
    leave_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []


def finish(folder, smoke=False):
    """What a run leaves behind, and a file of the user."""
    (folder / "metrics.json").write_text(json.dumps({"smoke": smoke}))
    (folder / "model.safetensors").touch()
    (folder / "predictions.csv").touch()
    (folder / "my notes.txt").touch()
    (folder / "checkpoint-3").mkdir()
    (folder / "checkpoint-3" / "optimizer.pt").touch()


def test_finished_results_are_refused_unless_overwritten(tmp_path):
    finish(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=r"results of a finished run: .* --overwrite"):
        occupy_folder(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    occupy_folder(tmp_path, resume=True)
    leave_folder(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    occupy_folder(tmp_path, overwrite=True)
    leave_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["my notes.txt"]


def test_results_of_a_smoke_run_are_replaced(tmp_path):
    finish(tmp_path, smoke=True)
    occupy_folder(tmp_path)
    leave_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["my notes.txt"]


def test_checkpoints_of_an_unfinished_run_are_resumed_or_overwritten(tmp_path):
    (tmp_path / "checkpoint-3").mkdir()
    with pytest.raises(ValueError, match=r"checkpoints of an unfinished run: resume it"):
        occupy_folder(tmp_path)
    occupy_folder(tmp_path, resume=True)
    assert (tmp_path / "checkpoint-3").is_dir()
    occupy_folder(tmp_path, overwrite=True)
    assert not (tmp_path / "checkpoint-3").exists()
    leave_folder(tmp_path)
