"""Settings of a recipe: each has one place, wrong names and types are refused, files repeat."""

from dataclasses import fields

import pytest
import yaml
from transformers import HfArgumentParser

from hf_mixers.recipes import (
    FinetuneArguments,
    FinetuneOptions,
    PretrainArguments,
    PretrainOptions,
)
from hf_mixers.recipes.configuration import Configuration, describe_run, save_run
from tests.families import ROWS

RECIPES = [(FinetuneOptions, FinetuneArguments), (PretrainOptions, PretrainArguments)]
every_recipe = pytest.mark.parametrize(
    ("options", "arguments"), RECIPES, ids=lambda kind: kind.__name__
)


@pytest.fixture
def configuration():
    return Configuration(FinetuneOptions, FinetuneArguments)


@every_recipe
def test_no_two_sections_share_a_name(options, arguments):
    configuration = Configuration(options, arguments)
    kinds = [*configuration.sections.values(), arguments]
    names = [one.name for kind in kinds for one in fields(kind)]
    assert len(names) == len(set(names))


@every_recipe
def test_a_saved_run_is_read_again(options, arguments, tmp_path):
    configuration = Configuration(options, arguments)
    configuration.put_all(["seed=5", "track_size=8", "learning_rate=1e-3", "bf16=false"])
    built = configuration.build()
    save_run(tmp_path / "run.yaml", *built)
    again = Configuration(options, arguments)
    again.read(tmp_path / "run.yaml")
    rebuilt = again.build()
    assert describe_run(*built) == describe_run(*rebuilt)
    assert rebuilt[0] == built[0]
    assert (rebuilt[1].seed, rebuilt[1].learning_rate) == (5, 1e-3)


@every_recipe
def test_a_saved_run_holds_no_token_and_no_place(options, arguments, tmp_path):
    configuration = Configuration(options, arguments)
    configuration.put("training.output_dir", str(tmp_path / "x"))
    configuration.put("training.hub_token", "hf_secret")
    configuration.put("training.push_to_hub", True)
    save_run(tmp_path / "run.yaml", *configuration.build())
    text = (tmp_path / "run.yaml").read_text()
    assert "hf_secret" not in text
    assert str(tmp_path) not in text
    assert "hub" not in str(yaml.safe_load(text)["training"])


def test_what_comes_last_counts(configuration, tmp_path):
    (tmp_path / "run.yaml").write_text(
        "model:\n  settings: null\n  family: chordmixer\ntraining:\n  seed: 1\n"
    )
    configuration.read(tmp_path / "run.yaml")
    configuration.put_all(["seed=2", "track_size=4", "model.settings.pre_norm=none"])
    configuration.put_all(["track_size=6"])
    options, arguments = configuration.build()
    assert arguments.seed == 2
    assert options.model.config_fields() == {"track_size": 6, "pre_norm": "none"}


def test_numbers_and_none_are_read_as_people_write_them(configuration):
    configuration.put_all(["learning_rate=4e-3", "weight_decay=1E-2", "patience=none"])
    configuration.put_all(["report_to=none", "pre_norm=none", "reverse_complement=true"])
    options, arguments = configuration.build()
    assert (arguments.learning_rate, arguments.weight_decay) == (4e-3, 1e-2)
    assert options.evaluation.patience is None
    assert options.model.config_fields() == {"pre_norm": "none"}
    assert options.data.reverse_complement is True


def test_a_parser_of_the_same_options_changes_nothing(configuration):
    HfArgumentParser([*configuration.sections.values(), FinetuneArguments])
    configuration.put("patience", "none")
    assert configuration.build()[0].evaluation.patience is None


def test_fields_may_be_given_as_json_and_one_by_one(configuration):
    configuration.put("model.settings", '{"track_size": 4}')
    configuration.put("intermediate_size", 8)
    fields_of_model = configuration.build()[0].model.config_fields()
    assert fields_of_model == {"track_size": 4, "intermediate_size": 8}


def test_fields_are_those_of_the_family(configuration):
    configuration.put("model.family", "paramixer")
    configuration.put("num_links", 3)
    with pytest.raises(ValueError, match="'track_size' is not a setting of this command"):
        configuration.put("track_size", 3)


def test_fields_are_those_of_the_checkpoint(configuration, tmp_path):
    next(row for row in ROWS if row.name == "paramixer").build().save_pretrained(tmp_path)
    configuration.put("model.checkpoint", str(tmp_path))
    configuration.put("pooling", "max")
    assert configuration.build()[0].model.config_fields() == {"pooling": "max"}
    with pytest.raises(ValueError, match="'track_size' is not a setting of this command"):
        configuration.put("track_size", 3)


def test_the_home_folder_of_a_file_is_that_of_the_reader(configuration, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    (tmp_path / "run.yaml").write_text("data:\n  data: [~/genes.fa]\n  label_from: folder\n")
    configuration.read(tmp_path / "run.yaml")
    assert configuration.build()[0].data.data == [str(tmp_path / "me" / "genes.fa")]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("min_length", "short", "min_length must be int, got 'short'"),
        ("label_column", 3, "label_column must be .*, got 3"),
        ("learning_rate", "fast", "learning_rate must be float, got 'fast'"),
        ("report_on", "train", "report_on must be test or validation, got 'train'"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(key, value, message, configuration):
    configuration.put(key, value)
    with pytest.raises(ValueError, match=message):
        configuration.build()
