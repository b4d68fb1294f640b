"""Recorded experiments: what they run is known beforehand, and their records name no machine."""

import json
from importlib import import_module

import pytest

from benchmarks.trainings import __main__ as experiments
from benchmarks.trainings.__main__ import main
from benchmarks.trainings.catalogue import EXPERIMENTS
from benchmarks.trainings.experiment import Experiment, finetune
from hf_mixers import FAMILIES
from hf_mixers.recipes.models import known_fields_of
from hf_mixers.recipes.options import parse_settings
from tests.examples.example_runs import load

# by recipe, the first step after options are accepted
RECIPES = {
    "hf_mixers.recipes.finetune": "begin_run",
    "hf_mixers.recipes.pretrain": "begin_run",
    "hf_mixers.recipes.arena": "begin_run",
    "hf_mixers.recipes.frozen": "load_parts",
}


@pytest.fixture
def results(tmp_path, monkeypatch):
    folder = experiments.ROOT / "runs"
    monkeypatch.setattr(experiments, "ROOT", tmp_path)
    monkeypatch.setattr(experiments, "RESULTS", tmp_path / "results")
    (tmp_path / "examples").symlink_to(folder.parent / "examples")
    return tmp_path / "results"


@pytest.mark.processes
def test_an_experiment_is_run_once_and_recorded(results, tmp_path, monkeypatch, capfd):
    settings = {"track_size": 4, "intermediate_size": 8}
    arguments = ("--smoke", "true", "--report_on", "validation", "--baselines", "none")
    monkeypatch.setitem(EXPERIMENTS, "tiny", finetune(settings, *arguments))
    runs = tmp_path / "runs"
    main(["tiny", "--runs", str(runs)])
    text = (results / "tiny.json").read_text()
    record = json.loads(text)
    assert record["script"] == "examples/finetune_classification.py"
    assert json.loads(record["arguments"][1]) == settings
    assert record["config"]["track_size"] == 4
    assert 0 <= record["validation"]["model"]["overall"]["accuracy"]["value"] <= 1
    assert "test" not in record
    assert str(tmp_path) not in text
    assert not (runs / "tiny" / "README.md").exists(), "a card tells of the test part alone"
    capfd.readouterr()
    main(["tiny", "--runs", str(runs)])
    assert "nothing to do" in capfd.readouterr().out


@pytest.mark.processes
def test_seeds_are_run_one_by_one_and_not_again(results, tmp_path, monkeypatch):
    arguments = ("--smoke", "true", "--baseline", "false", "--settings", '{"hidden_size": 16}')
    monkeypatch.setitem(EXPERIMENTS, "two", Experiment("time_series", arguments, seeds=(3, 4)))
    runs = tmp_path / "runs"
    main(["two", "--runs", str(runs)])
    record = json.loads((results / "two.json").read_text())
    assert [one["seed"] for one in record["runs"]] == [3, 4]
    assert record["config"]["hidden_size"] == 16
    losses = [one["history"][-1]["train_loss"] for one in record["runs"]]
    assert losses[0] != losses[1], "the seed must reach the script"

    (results / "two.json").unlink()
    written = (runs / "two" / "seed_3" / "metrics.json").stat().st_mtime_ns
    main(["two", "--runs", str(runs)])
    assert (runs / "two" / "seed_3" / "metrics.json").stat().st_mtime_ns == written
    assert json.loads((results / "two.json").read_text()) == record


def test_a_finished_run_is_not_taken_for_one_with_other_arguments(results, tmp_path, monkeypatch):
    def write_metrics(command, **options):
        folder = tmp_path / "runs" / "quick"
        folder.mkdir(parents=True)
        metrics = {"test": {"seed": command[-3]}, "config": {}, "parameters": 1, "environment": {}}
        (folder / "metrics.json").write_text(json.dumps(metrics))

    monkeypatch.setattr(experiments.subprocess, "run", write_metrics)
    call = ["quick", "--runs", str(tmp_path / "runs")]
    for seed in ("1", "2"):
        monkeypatch.setitem(EXPERIMENTS, "quick", Experiment("x", ("--seed", seed)))
        if seed == "2":
            (results / "quick.json").unlink()
            with pytest.raises(SystemExit, match="other arguments: --again runs it anew"):
                main(call)
        main([*call, "--again"])
        assert json.loads((results / "quick.json").read_text())["test"]["seed"] == seed


def test_what_cannot_be_run_is_said(results, monkeypatch):
    with pytest.raises(SystemExit, match="There is no experiment 'none'"):
        main(["none"])
    monkeypatch.setitem(EXPERIMENTS, "far", Experiment("x", ("--data", "{data}/x.parquet")))
    with pytest.raises(SystemExit, match="far reads data from a folder: give it with --data"):
        main(["far"])
    monkeypatch.setitem(EXPERIMENTS, "later", Experiment("x", ("--checkpoint", "{runs}/tiny")))
    with pytest.raises(SystemExit, match="later starts from the model of tiny: run that first"):
        main(["later"])


def test_experiments_start_from_experiments():
    starts = {experiment.needs for experiment in EXPERIMENTS.values()} - {None}
    assert starts
    assert starts <= set(EXPERIMENTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_scripts_accept_what_experiments_ask_for(name, tmp_path, monkeypatch):
    class Accepted(Exception):
        pass

    def accept(*arguments, **options):
        raise Accepted

    experiment = EXPERIMENTS[name]
    script = load(experiment.script)
    # a run begins in the script, or in the recipe that it calls
    for recipe, step in RECIPES.items():
        monkeypatch.setattr(import_module(recipe), step, accept)
    if hasattr(script, "begin_run"):
        monkeypatch.setattr(script, "begin_run", accept)
    with pytest.raises(Accepted):
        script.main([*experiment.arguments, "--output_dir", str(tmp_path)])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_families_have_the_fields_that_experiments_set(name):
    given = dict(zip(EXPERIMENTS[name].arguments, EXPERIMENTS[name].arguments[1:], strict=False))
    fields = parse_settings(given.get("--settings"))
    families = [given["--family"]] if "--family" in given else FAMILIES
    assert any(set(fields) <= known_fields_of(family) for family in families)


def test_all_experiments_can_be_seen(capsys):
    main(["--list"])
    out = capsys.readouterr().out
    assert all(f"{name}: " in out for name in EXPERIMENTS)
