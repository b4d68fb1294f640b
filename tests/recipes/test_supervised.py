"""Parts are drawn as they are said to be, and goals score in the units of the data."""

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from hf_mixers.recipes.options import RunArguments
from hf_mixers.recipes.supervised import ModelOptions, SupervisedOptions, build_model, choose_parts
from hf_mixers.recipes.targets import Amount, Classes


def make_parts(**sizes):
    return DatasetDict(
        {
            name: Dataset.from_dict({"label": np.arange(size) % 2, "row": np.arange(size)})
            for name, size in sizes.items()
        }
    )


def choose(parts, folder, seed=0, **options):
    training = RunArguments(str(folder), seed=seed)
    return choose_parts(parts, SupervisedOptions(**options), training), training


def test_parts_that_lack_are_drawn_and_the_test_part_is_the_same_for_every_seed(tmp_path):
    chosen = [choose(make_parts(train=100), tmp_path, seed)[0] for seed in (0, 1)]
    for parts in chosen:
        rows = [row for part in parts.values() for row in part["row"]]
        assert sorted(rows) == list(range(100))
        sizes = {name: len(part) for name, part in parts.items()}
        assert sizes == {"train": 64, "test": 20, "validation": 16}
    assert chosen[0]["test"]["row"][:] == chosen[1]["test"]["row"][:]
    assert chosen[0]["validation"]["row"][:] != chosen[1]["validation"]["row"][:]


def test_parts_that_are_there_stay_as_they_are(tmp_path):
    given = make_parts(train=30, validation=10, test=20)
    chosen, _ = choose(given, tmp_path)
    assert {name: part["row"][:] for name, part in chosen.items()} == {
        name: part["row"][:] for name, part in given.items()
    }


def test_smoke_runs_are_small(tmp_path):
    chosen, training = choose(make_parts(train=1000, test=10), tmp_path, smoke=True)
    assert {name: len(part) for name, part in chosen.items()} == {
        "train": 60,
        "test": 10,
        "validation": 60,
    }
    assert training.num_train_epochs == 1


def test_amounts_are_scored_in_units_of_the_target():
    goal = Amount(mean=100.0, std=10.0)
    outputs, labels = np.array([[0.0], [1.0]]), np.array([0.5, 1.0])
    overall = goal.report(outputs, labels, num_bootstrap=0)["overall"]
    assert overall["mae"]["value"] == pytest.approx(2.5)
    assert overall["rmse"]["value"] == pytest.approx(10 * overall["rmse_standardized"]["value"])
    assert goal.notes() == [
        "The model answers in standard deviations: its output times 10 plus 100 is the amount."
    ]
    columns = goal.columns(outputs, labels)
    assert columns["target"].tolist() == [105, 110]
    assert columns["prediction"].tolist() == [100, 110]


def test_amounts_may_be_right_within_a_tolerance():
    goal = Amount(tolerance=0.04)
    report = goal.report(np.array([[0.5], [1.0]]), np.array([0.52, 1.5]), num_bootstrap=0)
    assert report["overall"]["within_tolerance"]["value"] == 0.5
    assert "rmse_standardized" not in report["overall"], "models see the target as it is"


def test_classes_are_written_by_name():
    goal = Classes(["cat", "dog"])
    columns = goal.columns(np.array([[0.0, 0.0], [-50.0, 50.0]]), np.array([0, 1]))
    assert columns["label"] == ["cat", "dog"]
    assert columns["score_dog"].tolist() == [0.5, 1]


def test_settings_change_suggestions_and_presets_but_not_what_the_data_ask_for():
    fields = Classes(["a", "b", "c"]).config_fields()
    options = ModelOptions("paramixer", '{"hidden_size": 8}')
    config = build_model(options, fields, suggestions={"max_position_embeddings": 50}).config
    assert (config.hidden_size, config.max_position_embeddings, config.num_labels) == (8, 50, 3)
    options.preset = "listops"
    config = build_model(options, fields, suggestions={"max_position_embeddings": 50}).config
    assert (config.hidden_size, config.max_position_embeddings, config.num_labels) == (8, 2000, 3)
