"""Examples in two processes: every row is judged once, one process speaks and writes."""

import csv
import json
import os
import subprocess
import sys

import pytest

from hf_mixers.training import MixerTrainer
from tests.examples.example_runs import FOLDER, load


def launch(name: str, folder, *arguments: str) -> str:
    """What an example prints when torchrun starts it twice."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(FOLDER / f"{name}.py"), "--smoke", "--use_cpu", "--output_dir", str(folder)]
    done = subprocess.run(
        [*command, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"},
        cwd=FOLDER.parent,
        timeout=240,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


SMALL = json.dumps({"track_size": 4, "intermediate_size": 8})


@pytest.mark.processes
def test_a_classifier_is_judged_once(tmp_path):
    out = launch("finetune_classification", tmp_path, "--settings", SMALL)
    assert out.count("Everything is in") == out.count("parameters") == 1
    results = json.loads((tmp_path / "metrics.json").read_text())
    with open(tmp_path / "predictions.csv") as file:
        rows = list(csv.DictReader(file))
    assert len({row["id"] for row in rows}) == len(rows) == results["test"]["model"]["count"]
    # the same rows in the same order as the baseline, which one process scores alone
    assert results["test"]["kmer"]["count"] == len(rows)
    assert (tmp_path / "model.safetensors").exists()


@pytest.mark.exhaustive
@pytest.mark.processes
def test_masked_bases_of_all_processes_are_scored(tmp_path):
    out = launch("pretrain_mlm", tmp_path, "--settings", SMALL)
    assert out.count("Everything is in") == 1
    model, *others = json.loads((tmp_path / "metrics.json").read_text())["test"].values()
    assert 0 < model["overall"]["accuracy"]["value"] < 1
    assert model["count"] == 10
    counts = {report["count"] for report in others}
    assert len(counts) == 1
    # three in ten of ten windows of 100 to 400 bases; one process sees half of them
    assert 0.3 * 10 * 100 < counts.pop() < 0.3 * 10 * 400


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adding_problem", "fixed_length_tasks", "time_series"])
def test_other_processes_save_their_share_and_write_nothing(name, tmp_path, monkeypatch, quiet):
    monkeypatch.setattr(MixerTrainer, "is_world_process_zero", lambda self: False)
    assert load(name).main(["--smoke", "--output_dir", str(tmp_path)]) == {}
    assert (tmp_path / "model.safetensors").exists()
    written = {path.name for path in tmp_path.iterdir()}
    assert not written & {"metrics.json", "predictions.csv", "README.md", "history.png"}


@pytest.mark.exhaustive
@pytest.mark.processes
def test_sums_are_scored_once(tmp_path):
    out = launch("adding_problem", tmp_path)
    assert out.count("Everything is in") == 1
    results = json.loads((tmp_path / "metrics.json").read_text())
    assert results["test"]["model"]["count"] == 16
