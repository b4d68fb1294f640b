"""Two processes share the parts of a run and write what one process writes."""

import json
import os
import subprocess
import sys

import numpy as np
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


@pytest.mark.processes
def test_an_error_ends_all_processes(masked_lm, fasta, tmp_path):
    # standard input and output belong to one process
    for words in (("-", "-o", tmp_path / "a.npy"), (fasta, "-o", tmp_path / "a.txt")):
        done = launch("embed", masked_lm, *words, "--device", "cpu")
        assert done.returncode != 0
        assert "error: " in done.stderr
    assert not np.any([path.suffix == ".npy" for path in tmp_path.iterdir()])
