"""The launcher of shared sequences: a process that dies ends all, and the training goes on."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]

# a copy of the example whose process 1 dies in the middle
DYING = """
import os, runpy, sys
sys.argv = sys.argv[1:]
import torch
count = 0
step = torch.optim.AdamW.step

def dying(self, *args, **kwargs):
    global count
    count += 1
    if count == 5 and os.environ["RANK"] == "1":
        raise SystemExit(17)
    return step(self, *args, **kwargs)

torch.optim.AdamW.step = dying
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def launch(folder, *before):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [*before, str(ROOT / "examples/context_parallel.py")]
    command += ["--length=301", "--steps=6", "--save_steps=2", "--track_size=2"]
    return subprocess.run(
        [*command, "--output_dir", str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
    )


def losses(run):
    return dict(re.findall(r"step (\d+): loss (\S+)", run.stdout))


@pytest.mark.slow
@pytest.mark.processes
def test_a_process_that_dies_ends_all_and_the_training_resumes(tmp_path):
    whole = launch(tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr[-3000:]
    assert list(losses(whole)) == ["2", "4", "6"]

    script = tmp_path / "dying.py"
    script.write_text(DYING)
    killed = launch(tmp_path / "killed", str(script))
    assert killed.returncode != 0
    assert re.search(r"rank\s*: 1", killed.stderr)
    assert re.search(r"exitcode\s*: 17", killed.stderr)
    assert list(losses(killed)) == ["2", "4"]

    resumed = launch(tmp_path / "killed")
    assert resumed.returncode == 0, resumed.stderr[-3000:]
    assert losses(resumed) == {"6": losses(whole)["6"]}
    first, second = (
        torch.load(tmp_path / name / "checkpoint.pt")["model"] for name in ("whole", "killed")
    )
    for name, weight in first.items():
        torch.testing.assert_close(second[name], weight)
