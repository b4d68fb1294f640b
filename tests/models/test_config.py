"""Configurations: saved and loaded unchanged, checked when built, helpful about mistakes."""

import json

import pytest
from transformers import AutoConfig
from transformers.utils import logging

from tests.families import ROWS, every_family, every_variant


@every_variant
def test_configs_survive_a_round_trip(row, changes, tmp_path):
    config = row.config(**changes, num_labels=3, id2label={0: "a", 1: "b", 2: "c"})
    config.save_pretrained(tmp_path)
    again = AutoConfig.from_pretrained(tmp_path)
    assert type(again) is type(config)
    again.name_or_path = ""
    assert again.to_dict() == config.to_dict()
    assert again.hidden_size == config.hidden_size


@every_family
def test_unknown_fields_are_warned_of_with_a_suggestion(row, caplog):
    logging.enable_propagation()
    try:
        row.config(intermediate_sise=3)
        # the Trainer leaves `use_cache` in the configs that it saves
        row.config(num_labels=4, name_or_path="x", auto_map={}, use_cache=False)
    finally:
        logging.disable_propagation()
    messages = [record.message for record in caplog.records]
    assert len(messages) == 1
    assert "no field `intermediate_sise`; did you mean `intermediate_size`?" in messages[0]


@every_family
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pooling": "median"}, "pooling"),
        ({"intermediate_size": 0}, "intermediate_size must be at least 1, got 0"),
        ({"intermediate_size": 1.5}, "intermediate_size"),
        ({"hidden_dropout_prob": 1.0}, r"must lie in \[0, 1\), got 1.0"),
        ({"checkpoint_segment_size": 0}, "checkpoint_segment_size must be at least 1, got 0"),
        ({"problem_type": "binary"}, "problem_type must be one of regression, .* got 'binary'"),
        ({"pad_token_id": 20}, "pad_token_id must be below vocab_size=20, got 20"),
        ({"num_tasks": 3, "num_labels": 1}, "num_tasks with one label needs problem_type"),
        ({"tie_word_embeddings": True, "input_features": 2}, "tie_word_embeddings needs token"),
    ],
)
def test_configs_that_contradict_themselves_are_refused(row, changes, message):
    with pytest.raises(Exception, match=message):
        row.config(**changes)


def test_configs_are_written_as_json_without_the_derived_width(tmp_path):
    row = ROWS[0]
    row.config().save_pretrained(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    assert content["model_type"] == row.name
    assert "hidden_size" not in content
    assert row.config(hidden_size=row.config().hidden_size).hidden_size == 36
    with pytest.raises(ValueError, match="set track_size instead"):
        row.config(hidden_size=100)
    with pytest.raises(ValueError, match="set track_size instead"):
        AutoConfig.from_pretrained(tmp_path, hidden_size=100)
