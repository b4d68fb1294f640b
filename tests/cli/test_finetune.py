"""`hf-mixers finetune`: labels and groups from headers, settings from anywhere, runs repeated."""

import csv

import pytest
import yaml

from tests.cli.files import SMALL, numbers_of, read_metrics, write_genes

LABELS = ("--labels", r"pattern:\[(\w+)")
GROUPS = ("--groups", r"pattern:\[(.*)\]")
QUICK = ("--epochs", "1", "--baselines", "none", *SMALL)


def read_ids(folder):
    with open(folder / "predictions.csv") as file:
        return [row["id"] for row in csv.DictReader(file)]


@pytest.fixture
def genes(tmp_path):
    return write_genes(tmp_path / "genes.fa")


def test_species_of_the_headers_lie_in_one_part(run, genes, tmp_path):
    words = ["finetune", genes, *LABELS, *GROUPS, "--epochs", "1", *SMALL]
    done = run(*words, "--baselines", "kmer,average", "-o", tmp_path / "run")
    assert done.code == 0, done.error
    # one species of six genes from either genus
    assert "The data have no test part: 12 rows are drawn for it." in done.out
    assert f"Everything is in {tmp_path / 'run'}/" in done.out
    results = read_metrics(tmp_path / "run")
    assert set(results["test"]) == {"model", "kmer", "average"}
    assert list(results["config"]["id2label"].values()) == ["Bos", "Sus"]
    assert results["config"]["track_size"] == 4
    assert results["options"]["split"]["group_pattern"] == r"\[(.*)\]"
    ids = [int(name.removeprefix("gene")) for name in read_ids(tmp_path / "run")]
    species = {number % 8 for number in ids}
    assert ids == [number for number in range(48) if number % 8 in species]


def test_the_test_part_does_not_depend_on_the_seed_of_the_run(run, genes, tmp_path):
    found = {}
    for name, words in {
        "first": ["--seed", 1],
        "second": ["--seed", 2],
        "other": ["--seed", 1, "--set", "split_seed=5"],
    }.items():
        assert run("finetune", genes, *LABELS, *QUICK, *words, "-o", tmp_path / name).code == 0
        found[name] = read_ids(tmp_path / name), read_metrics(tmp_path / name)["history"]
    assert found["first"][0] == found["second"][0]
    assert found["first"][1][0] != found["second"][1][0], "the seed must reach the training"
    assert found["first"][0] != found["other"][0]


def test_the_resolved_configuration_repeats_the_run(run, genes, tmp_path):
    words = ["--seed", 7, "--learning-rate", 3e-3, "--tokens", 512, "--set", "weight_decay=0.01"]
    words += ["--set", "data.min_length=21", "--set", "match_strands=true"]
    done = run("finetune", genes, *LABELS, *GROUPS, *QUICK, *words, "-o", tmp_path / "a")
    assert done.code == 0, done.error
    saved = yaml.safe_load((tmp_path / "a" / "run.yaml").read_text())
    assert saved["model"]["settings"]["track_size"] == 4
    assert saved["data"]["min_length"] == 21
    assert saved["split"]["match_strands"] is True
    training = saved["training"]
    assert (training["seed"], training["train_token_budget"]) == (7, 512)
    assert "output_dir" not in training
    assert not any("hub" in name for name in training)

    done = run("finetune", "--config", tmp_path / "a" / "run.yaml", "-o", tmp_path / "b")
    assert done.code == 0, done.error
    first, second = (read_metrics(tmp_path / name) for name in "ab")
    assert numbers_of(first) == numbers_of(second)
    assert first["options"] == second["options"]
    assert read_ids(tmp_path / "a") == read_ids(tmp_path / "b")
    again = yaml.safe_load((tmp_path / "b" / "run.yaml").read_text())
    assert again == saved

    # what is given stands above the file
    config = ["--config", tmp_path / "a" / "run.yaml", "--seed", 8, "--set", "hidden_act=relu"]
    done = run("finetune", *config, "-o", tmp_path / "c")
    if done.code == 0:
        third = read_metrics(tmp_path / "c")
        assert numbers_of(third) != numbers_of(first)
    else:
        assert "hidden_act" in done.error


def test_a_run_is_resumed_and_results_are_not_lost(run, genes, tmp_path):
    words = ["finetune", genes, *LABELS, *QUICK, "-o", tmp_path / "run"]
    assert run(*words).code == 0
    done = run(*words)
    assert done.code == 1
    assert "holds the results of a finished run: choose another folder, or give" in done.error
    first = read_metrics(tmp_path / "run")["history"]
    assert run(*words, "--epochs", "2", "--resume").code == 0
    second = read_metrics(tmp_path / "run")["history"]
    evaluations = [entry["epoch"] for entry in second if "eval_loss" in entry]
    assert evaluations == [1.0, 2.0]
    assert next(e for e in first if "eval_loss" in e) in second, "the first epoch is not repeated"
    assert run(*words, "--overwrite").code == 0
    third = read_metrics(tmp_path / "run")["history"]
    assert [entry["epoch"] for entry in third if "eval_loss" in entry] == [1.0]


def test_a_checkpoint_is_fine_tuned_and_a_family_takes_its_place(run, genes, tmp_path):
    words = ["finetune", genes, *LABELS, "--epochs", "1", "--baselines", "none"]
    assert run(*words, *SMALL, "-o", tmp_path / "first").code == 0
    done = run(*words, "--model", tmp_path / "first", "-o", tmp_path / "second")
    assert done.code == 0, done.error
    assert read_metrics(tmp_path / "second")["config"]["track_size"] == 4
    assert "It started from first." in (tmp_path / "second" / "README.md").read_text()
    words = [*words, "--model", tmp_path / "first", "-o", tmp_path / "words"]
    done = run(*words, "--set", "kmer_size=2", "--set", "kmer_strands=both")
    assert done.code == 0, done.error
    results = read_metrics(tmp_path / "words")
    assert results["config"]["kmer_strands"] == "both"
    assert "profile_loss" in results["history"][0]
    config = ["--config", tmp_path / "second" / "run.yaml", "--model", "paramixer"]
    done = run("finetune", *config, "-o", tmp_path / "third", "--set", "hidden_size=8")
    assert done.code == 0, done.error
    assert read_metrics(tmp_path / "third")["config"]["model_type"] == "paramixer"


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("learning_rat=1", "'learning_rat' is not a setting of this command; did you mean 'learn"),
        (
            "track_sise=4",
            "'track_sise' is not a setting of this command; did you mean 'track_size'",
        ),
        ("data.min_lenght=4", "'min_lenght' is not a setting of data; did you mean 'min_length'?"),
        ("dta.min_length=4", "'dta' is not a section; did you mean 'data'?"),
        ("min_length", "--set takes key=value, got 'min_length'."),
        ("min_length=short", "min_length must be int, got 'short'."),
        ("label_column=3", "label_column must be str or none, got 3."),
        ("pooling=median", "pooling"),
        ("baselines=[average]", "The baseline average needs another one, got it alone."),
        (
            "test_fraction=2",
            "test_fraction=2 and validation_fraction=0.15 were given: shares below",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_the_closest_match(
    pair, message, run, genes, tmp_path
):
    done = run("finetune", genes, *LABELS, *QUICK, "-o", tmp_path / "run", "--set", pair)
    assert done.code == 1
    # a bar may stand before the sentence and the way to a traceback
    sentence, hint = done.error.splitlines()[-2:]
    assert message in sentence
    assert "HF_MIXERS_TRACEBACK" in hint
    assert "Traceback (most" not in done.error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trainning:\n  seed: 1\n", "'trainning' is not a section; did you mean 'training'?"),
        ("training:\n  sed: 1\n", "'sed' is not a setting of training; did you mean 'seed'?"),
        ("training: 3\n", "training must hold names and values, got 3."),
        ("- 1\n", "must hold sections such as 'training:', got [1]."),
        ("a: [\n", "is not YAML"),
    ],
)
def test_a_file_of_settings_that_cannot_be_is_refused(text, message, run, genes, tmp_path):
    (tmp_path / "run.yaml").write_text(text)
    words = ["--config", tmp_path / "run.yaml", "-o", tmp_path / "run"]
    done = run("finetune", genes, *words)
    assert done.code == 1
    assert message in done.error
    assert not (tmp_path / "run").exists()
