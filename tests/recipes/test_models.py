"""Models of recipes: settings change defaults and presets, never what the data ask for."""

import re

import pytest
import torch
from transformers import AutoModelForImageClassification
from transformers.utils import logging

from hf_mixers import ChordMixerConfig, ChordMixerForSequenceClassification, ChordMixerModel
from hf_mixers.recipes.models import DEFAULT_SETTINGS, find_family, load_checkpoint, new_model
from hf_mixers.recipes.options import CheckpointOptions, ModelOptions, parse_settings
from hf_mixers.recipes.targets import Classes
from tests.families import ROWS, every_family


def test_settings_change_suggestions_and_presets_but_not_what_the_data_ask_for():
    fields = {**Classes(["a", "b", "c"]).config_fields(), "input_features": None}
    options = ModelOptions("paramixer", '{"hidden_size": 8, "input_features": 3}')
    config = new_model(options, fields, suggestions={"max_position_embeddings": 50}).config
    assert (config.hidden_size, config.max_position_embeddings, config.num_labels) == (8, 50, 3)
    options.preset = "listops"
    config = new_model(options, fields, suggestions={"max_position_embeddings": 50}).config
    assert (config.hidden_size, config.max_position_embeddings, config.num_labels) == (8, 2000, 3)
    assert config.input_features is None


def test_one_setting_leaves_the_other_defaults_of_recipes_alone():
    options = ModelOptions("chordmixer", {"track_size": 4})
    config = new_model(options, {"num_labels": 2}, suggestions={"pooling": "first"}).config
    defaults = DEFAULT_SETTINGS["chordmixer"] | {"track_size": 4, "pooling": "first"}
    assert {name: getattr(config, name) for name in defaults} == defaults


@every_family
def test_every_family_is_built_without_settings(row, caplog):
    logging.enable_propagation()
    try:
        model = new_model(ModelOptions(row.name), Classes(["a", "b", "c"]).config_fields())
    finally:
        logging.disable_propagation()
    assert not caplog.records, "no field is unknown to the family"
    assert (model.config.model_type, model.config.num_labels) == (row.name, 3)


@pytest.mark.parametrize("preset", [None, "adding_200"])
def test_what_no_model_has_is_named(preset):
    with pytest.raises(ValueError, match=r"family must be one of chordmixer.*, got 'xor'\."):
        find_family("xor")
    with pytest.raises(
        ValueError, match="'track_sise' is not a config field; did you mean 'track_size'"
    ):
        new_model(ModelOptions("chordmixer", {"track_sise": 4}, preset), {})
    with pytest.raises(ValueError, match="pooling") as refused:
        new_model(ModelOptions("chordmixer", {"pooling": "median"}, preset), {})
    assert "\n" not in str(refused.value)
    with pytest.raises(ValueError, match="AutoModelForImageClassification"):
        new_model(ModelOptions("chordmixer"), {}, auto_class=AutoModelForImageClassification)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{track_size: 3}", 'settings must be JSON such as {"track_size": 8}: '),
        ("[3]", "settings must be a JSON object, got [3]."),
    ],
)
def test_settings_that_are_not_an_object_are_refused_in_one_sentence(given, message):
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        ModelOptions(settings=given)
    assert "\n" not in str(refused.value)


def test_settings_are_not_shared_with_the_caller():
    given = {"track_size": 8}
    parse_settings(given)["track_size"] = 9
    assert given == {"track_size": 8}


@every_family
def test_a_checkpoint_gets_a_head_for_other_classes(row, tmp_path):
    start = row.build("sequence_classification", id2label={0: "ant", 1: "bee"})
    start.save_pretrained(tmp_path)
    options = CheckpointOptions(checkpoint=str(tmp_path))
    for names in (("ant", "bee"), ("cat", "dog"), ("x", "y", "z")):
        model = load_checkpoint(options, Classes(names).config_fields())
        assert (model.model.embed_tokens.weight == start.model.embed_tokens.weight).all()
        assert model.classifier.out_features == len(names)
        assert list(model.config.id2label.values()) == list(names)
        if len(names) == 2:
            is_kept = bool((model.classifier.weight == start.classifier.weight).all())
            assert is_kept == (names == ("ant", "bee"))
        assert all(parameter.requires_grad for parameter in model.parameters())


def test_settings_change_fields_of_a_checkpoint_that_it_has(tmp_path):
    ROWS[0].build("sequence_classification").save_pretrained(tmp_path)
    fields = Classes(["a", "b"]).config_fields()
    options = CheckpointOptions(checkpoint=str(tmp_path), settings={"pooling": "max"})
    assert load_checkpoint(options, fields).config.pooling == "max"
    options.settings = {"poling": "max"}
    with pytest.raises(ValueError, match="'poling' is not a config field; did you mean 'pooling'"):
        load_checkpoint(options, fields)


def test_a_frozen_checkpoint_trains_its_head_alone(tmp_path):
    ROWS[0].build("sequence_classification").save_pretrained(tmp_path)
    options = CheckpointOptions(checkpoint=str(tmp_path), frozen=True)
    model = load_checkpoint(options, Classes(["a", "b"]).config_fields())
    trained = {name for name, one in model.named_parameters() if one.requires_grad}
    assert trained
    assert all(name.startswith("classifier.") for name in trained)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"checkpoint": "x", "preset": "y"}, "preset is for new models, not for a checkpoint."),
        ({"frozen": True}, "frozen requires a checkpoint: a new model has learned nothing yet."),
    ],
)
def test_options_that_exclude_each_other_are_refused(given, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        CheckpointOptions(**given)


def test_a_pooled_vector_of_another_size_has_the_statistics_of_the_checkpoint(tmp_path):
    config = ChordMixerConfig(
        track_size=4, intermediate_size=8, max_position_embeddings=16, pooled_norm="running"
    )
    stored = ChordMixerForSequenceClassification(config)
    stored.model.pooled_norm.running_mean.normal_()
    stored.model.pooled_norm.running_var.uniform_(1, 2)
    stored.save_pretrained(tmp_path)
    settings = {"kmer_size": 2, "kmer_hidden_size": 5, "kmer_encoders": 2}
    options = CheckpointOptions(checkpoint=str(tmp_path), settings=settings)
    model = load_checkpoint(options, {"num_labels": 2})
    plain = ChordMixerModel.from_pretrained(tmp_path, **settings, ignore_mismatched_sizes=True)
    assert plain.pooled_norm.running_var.tolist() == [1] * plain.config.pooled_size
    before, norm = stored.model.pooled_norm, model.base_model.pooled_norm
    width = config.hidden_size
    assert torch.equal(norm.running_mean[:width], before.running_mean)
    assert torch.equal(norm.running_var[:width], before.running_var)
    assert norm.running_mean[width:].tolist() == [0] * 10
    assert norm.running_var[width:].tolist() == [1] * 10
