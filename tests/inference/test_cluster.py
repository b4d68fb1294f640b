"""The scripts for clusters start commands that exist, and shards together are the whole."""

import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from hf_mixers.inference import embed
from tests.examples.example_runs import FOLDER

CLUSTER = FOLDER / "cluster"


@pytest.fixture
def recorded(tmp_path):
    """A folder for PATH with an `hf-mixers` that notes its words, and those words."""
    place = tmp_path / "bin"
    place.mkdir()
    command = place / "hf-mixers"
    command.write_text(f'#!/bin/bash\nprintf "%q " "$@" > {tmp_path}/words\n')
    command.chmod(0o755)
    return place, lambda: shlex.split((tmp_path / "words").read_text())


@pytest.mark.processes
def test_a_slurm_array_reads_every_record_once(
    run, classifier, fasta, sequences, recorded, tmp_path
):
    place, read_words = recorded
    output = tmp_path / "answers"
    for index in range(2):
        environment = {
            **{"PATH": f"{place}:{os.environ['PATH']}", "MODEL": classifier, "INPUT": fasta},
            **{"OUTPUT": str(output), "SLURM_ARRAY_TASK_COUNT": "2", "SLURM_ARRAY_TASK_MIN": "5"},
            "SLURM_ARRAY_TASK_ID": str(5 + index),
        }
        script = ["bash", str(CLUSTER / "predict_array.sbatch")]
        subprocess.run(script, env=environment, check=True, timeout=60)
        assert run(*read_words()).code == 0
    table = pd.concat([pd.read_parquet(path) for path in sorted(output.glob("*.parquet"))])
    assert sorted(table["id"]) == sorted(name for name, _ in sequences)
    # a task whose file is there has nothing to do
    done = subprocess.run(script, env=environment, check=True, timeout=60, capture_output=True)
    assert b"part-00001.parquet is there already" in done.stdout


def test_the_process_of_nextflow_runs(run, classifier, fasta, tmp_path, monkeypatch):
    text = (CLUSTER / "predict.nf").read_text()
    (line,) = re.findall(r"^\s*(hf-mixers .*)$", text, re.M)
    values = {"model": classifier, "sequences": fasta, "index": "1", "params.shards": "4"}
    values["sequences.simpleName"] = "reads"
    words = shlex.split(re.sub(r"\$\{(.*?)\}", lambda found: values[found[1]], line))
    monkeypatch.chdir(tmp_path)
    assert run(*words[1:]).code == 0
    assert len((tmp_path / "reads-1.tsv").read_text().splitlines()) > 1


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.processes
def test_ray_gives_the_vectors_of_embed(masked_lm, fasta, sequences, tmp_path):
    pytest.importorskip("ray")
    output = tmp_path / "vectors"
    words = ["--model", masked_lm, "--files", fasta, "--output", str(output), "--shards", "2"]
    done = subprocess.run(
        [sys.executable, str(CLUSTER / "embed_with_ray.py"), *words, "--concurrency", "1"],
        env={
            **os.environ,
            **{"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"},
            # a busy machine starts slowly
            "RAY_raylet_start_wait_time_s": "300",
        },
        timeout=400,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    table = pd.concat([pd.read_parquet(path) for path in output.glob("*.parquet")])
    assert sorted(table["id"]) == sorted(name for name, _ in sequences)
    found = dict(zip(table["id"], table["vector"], strict=True))
    for one in embed(masked_lm, fasta):
        assert np.abs(found[one.id] - one.vector).max() < 1e-5
