"""What a run writes: whole, without places of the machine, and where nothing is lost."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from hf_mixers.cli.main import app
from hf_mixers.recipes import FinetuneArguments, FinetuneOptions
from hf_mixers.recipes.configuration import Configuration, save_run
from hf_mixers.recipes.options import RunArguments
from hf_mixers.recipes.path import begin_run, name_source
from hf_mixers.reporting.occupied import LOCK, leave_folder

FASTA = "".join(
    f">{kind}_{number}\n{(letters * 12)[number % 4 : 36 + number % 9]}\n"
    for number in range(24)
    for kind, letters in (("a", "ACGA"), ("b", "TTGC"))
)
SMALL = ["track_size=2", "intermediate_size=4", "num_train_epochs=1", "split.test_fraction=0.25"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The home of a user, with data of hers, and her working folder."""
    place = tmp_path / "users" / "quillfeather"
    (place / "work").mkdir(parents=True)
    (place / "genes.fa").write_text(FASTA)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("LOGNAME", "quillfeather")
    monkeypatch.setenv("TQDM_DISABLE", "1")
    monkeypatch.chdir(place / "work")
    return place


def finetune(home, *more):
    words = ["finetune", str(home / "genes.fa"), "-o", str(home / "work" / "run")]
    words += ["--labels", "pattern:^([ab])_", "--baselines", "none"]
    words += [word for pair in SMALL for word in ("--set", pair)]
    return CliRunner().invoke(app, [*words, *more])


def test_a_run_and_the_next_one_in_its_folder(home):
    """One training, and all that may be said about its folder afterwards."""
    first = finetune(home, "--set", "license=mit")
    assert first.exception is None, first.output
    folder = home / "work" / "run"
    assert not (folder / LOCK).exists()
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["smoke"] is False
    assert set(metrics["rows"]) == {"train", "validation", "test"}
    assert sum(metrics["rows"].values()) <= 48
    assert metrics["options"]["data"]["data"] == ["genes.fa"]
    assert "output_dir" not in metrics["training"]
    report = metrics["test"]["model"]
    assert [one["name"] for one in report["by_class"]] == ["a", "b"]
    card = (folder / "README.md").read_text()
    assert "license: mit" in card
    assert "on genes.fa" in card
    header = (folder / "predictions.csv").read_text().splitlines()[0]
    assert header == "id,length,label,prediction,score_a,score_b"
    for name in ("README.md", "metrics.json", "run.yaml", "config.json", "tokenizer_config.json"):
        assert "quillfeather" not in (folder / name).read_text(), name
    assert yaml.safe_load((folder / "run.yaml").read_text())["data"]["data"] == ["~/genes.fa"]

    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    second = finetune(home, "--seed", "7")
    assert isinstance(second.exception, ValueError)
    assert "holds the results of a finished run" in str(second.exception)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before

    # run.yaml repeats the run; the smoke run that overwrites it says what it is
    words = ["finetune", "--config", str(folder / "run.yaml"), "-o", str(folder)]
    third = CliRunner().invoke(app, [*words, "--smoke", "--overwrite"])
    assert third.exception is None, third.output
    assert json.loads((folder / "metrics.json").read_text())["smoke"] is True
    assert "Smoke run" in (folder / "README.md").read_text()


def test_a_smoke_run_with_a_push_is_refused_before_anything_happens(tmp_path):
    arguments = RunArguments(str(tmp_path / "run"), push_to_hub=True)
    with pytest.raises(ValueError, match=r"^A smoke run is not published: push_to_hub and smoke"):
        begin_run(arguments, smoke=True)
    assert not (tmp_path / "run").exists()


def test_other_processes_of_a_run_leave_the_folder_to_the_first(tmp_path, monkeypatch):
    (tmp_path / "metrics.json").write_text("{}")
    monkeypatch.setattr(RunArguments, "process_index", 1)
    begin_run(RunArguments(str(tmp_path)))
    assert not (tmp_path / LOCK).exists()
    monkeypatch.setattr(RunArguments, "process_index", 0)
    with pytest.raises(ValueError, match="results of a finished run"):
        begin_run(RunArguments(str(tmp_path)))
    begin_run(RunArguments(str(tmp_path), resume_from_checkpoint="true"))
    assert (tmp_path / LOCK).exists()
    leave_folder(tmp_path)


def test_data_are_called_by_their_base_names(home):
    paths = [f"{home}/genes.fa", f"{home}/deep/train.csv", "here", str(home)]
    assert name_source(paths) == "genes.fa, train.csv, here, ~"


def test_a_saved_configuration_has_no_token_and_short_paths(home, tmp_path):
    configuration = Configuration(FinetuneOptions, FinetuneArguments)
    configuration.put("data.data", [str(home / "genes.fa"), str(home / "work" / "a.fa")])
    configuration.put("training.output_dir", str(tmp_path / "run"))
    configuration.put("training.hub_token", "hf_AbcdefghijKLMNOPQRST")
    configuration.put("training.overwrite", True)
    options, arguments = configuration.build()
    path = tmp_path / "run.yaml"
    save_run(path, options, arguments)
    text = path.read_text()
    assert "hf_" not in text
    assert "quillfeather" not in text
    assert "overwrite" not in text
    again = Configuration(FinetuneOptions, FinetuneArguments)
    again.read(path)
    found = [Path(one).absolute() for one in again.values["data"]["data"]]
    assert found == [home / "genes.fa", home / "work" / "a.fa"]
