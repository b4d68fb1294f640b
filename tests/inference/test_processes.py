"""Two processes share the parts of a run and write what one process writes."""

import json
import os
import subprocess
import sys

import pytest

from hf_mixers.inference import engine

from .test_run import run


def launch(*words):
    """`hf-mixers` in two processes of torchrun."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return subprocess.run(
        [*command, "-m", "hf_mixers.cli.main", *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"},
        timeout=240,
        capture_output=True,
        text=True,
    )


@pytest.mark.processes
def test_two_processes_write_what_one_writes(classifier, fasta, sequences, tmp_path, quiet):
    words = ("predict", classifier, fasta, "--token-budget", 50, "--device", "cpu")
    run(*words, "-o", tmp_path / "one.tsv")
    target = tmp_path / "two.tsv"
    target.write_text("of an earlier run\n")
    done = launch(*words, "-o", target, "--overwrite")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count(f"{len(sequences)} records are in") == 1
    assert target.read_bytes() == (tmp_path / "one.tsv").read_bytes()
    summary = json.loads((tmp_path / "two.tsv.summary.json").read_text())
    assert (summary["records"], summary["processes"]) == (len(sequences), 2)
    total = sum(len(text) for _, text in sequences)
    assert summary["tokens"] == total > 2 * 50 * engine.LOOK_AHEAD
    assert {path.name for path in tmp_path.glob("*two*")} == {"two.tsv", "two.tsv.summary.json"}


def test_standard_input_and_output_belong_to_one_process(classifier, fasta, tmp_path, monkeypatch):
    class Processes:
        num_processes = 2

    monkeypatch.setattr("hf_mixers.inference.run.join_processes", lambda device: Processes)
    with pytest.raises(ValueError, match="Standard input is read by one process, got several"):
        run("predict", classifier, "-", "-o", tmp_path / "a.tsv")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="Several processes write to a file: --output FILE"):
        run("predict", classifier, fasta)
    assert not list(tmp_path.iterdir())
