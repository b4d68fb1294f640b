"""Examples for time series, tables and images run, resume, and judge what they say they judge."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from transformers import AutoModelForImageClassification, AutoModelForSequenceClassification

from hf_mixers.data.other import PixelScaler, SeriesScaler, TableEncoder
from tests.examples.example_runs import check_run, load
from tests.families import every_family

pytestmark = pytest.mark.slow


def run(script, folder, *flags, **options):
    """Results of an example, given its options by name."""
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return load(script).main(["--output_dir", str(folder), *flags, *words])


def read_rows(folder):
    with open(folder / "predictions.csv") as file:
        return list(csv.DictReader(file))


def read_preparation(folder):
    return json.loads((folder / "preparation.json").read_text())


def write_waves(path, count=40):
    """Series of two classes, slow and fast waves, without a test part."""
    chance = np.random.default_rng(0)
    speed = np.arange(count) % 2
    steps = np.arange(20)
    waves = np.sin(steps * (0.3 + 1.2 * speed[:, None]) + chance.uniform(0, 6, (count, 1)))
    np.savez(path, x_train=waves, y_train=speed, class_names=["slow", "fast"])
    return path


@every_family
def test_time_series_smoke_run(row, tmp_path, quiet):
    settings = json.dumps({**row.small, "max_position_embeddings": 29})
    results = run("time_series", tmp_path, "--smoke", family=row.name, settings=settings)
    check_run(tmp_path, results)
    assert set(results["test"]) == {"model", "random kernels, ridge"}
    rows = read_rows(tmp_path)
    assert len(rows) == results["test"]["model"]["count"]
    scores = [float(value) for name, value in rows[0].items() if name.startswith("score_")]
    assert sum(scores) == pytest.approx(1, abs=1e-4)
    config = AutoModelForSequenceClassification.from_pretrained(tmp_path).config
    assert (config.input_features, config.num_labels) == (12, 9)
    assert len(SeriesScaler(**read_preparation(tmp_path)).mean) == 12
    assert (tmp_path / "by_length.png").exists()
    assert "preparation.json" in (tmp_path / "README.md").read_text()


def test_own_series_are_split_learnt_and_training_is_taken_up_again(tmp_path, quiet, caplog):
    caplog.set_level("INFO", "hf_mixers")
    options = {
        "data": write_waves(tmp_path / "waves.npz"),
        "family": "chordmixer",
        "settings": '{"track_size": 4, "intermediate_size": 16, "pre_norm": "layer"}',
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
    }
    first = run("time_series", tmp_path / "run", num_train_epochs=1, **options)
    assert "The data have no test part: 6 rows are drawn for it." in caplog.messages
    assert first["config"]["max_position_embeddings"] == 20
    options |= {"num_train_epochs": 8, "resume_from_checkpoint": "true"}
    second = run("time_series", tmp_path / "run", **options)
    losses = [
        [entry["eval_loss"] for entry in results["history"] if "eval_loss" in entry]
        for results in (first, second)
    ]
    # the first epoch is not trained again
    assert losses[1][: len(losses[0])] == losses[0]
    assert len(losses[1]) > len(losses[0])
    for report in second["test"].values():
        assert report["overall"]["accuracy"]["value"] > 0.8


def test_all_rows_are_trained_on_without_validation(tmp_path, quiet):
    options = {
        "data": write_waves(tmp_path / "waves.npz"),
        "family": "paramixer",
        "num_train_epochs": 1,
        "validation_fraction": 0,
    }
    results = run("time_series", tmp_path / "run", baseline="false", **options)
    assert set(results["test"]) == {"model"}
    assert not any("eval_loss" in entry for entry in results["history"])
    with pytest.raises(ValueError, match="There is no validation part: there are train and test"):
        run("time_series", tmp_path / "other", report_on="validation", **options)
    with pytest.raises(ValueError, match=r"validation_fraction=1.0 were given: shares below 1"):
        run("time_series", tmp_path / "other", **{**options, "validation_fraction": 1})


def test_the_test_part_is_left_alone_while_settings_are_chosen(tmp_path, quiet):
    options = {"family": "chordmixer", "report_on": "validation"}
    results = run("time_series", tmp_path, "--smoke", **options)
    assert "test" not in results
    assert all(row["id"].startswith("train_") for row in read_rows(tmp_path))
    assert not (tmp_path / "README.md").exists()


def test_flat_pooling_reads_series_of_one_length(tmp_path, quiet):
    settings = '{"pooling": "flat", "max_position_embeddings": 32}'
    results = run("time_series", tmp_path, "--smoke", family="paramixer", settings=settings)
    assert results["config"]["pooling"] == "flat"
    # what is written about a series is its own length
    assert {int(row["length"]) for row in read_rows(tmp_path)} <= set(range(7, 30))


@pytest.mark.parametrize(
    ("script", "options", "message"),
    [
        ("time_series", {"data": "x.ts", "aeon": "X"}, "--data and --aeon were given together"),
        ("time_series", {"family": "lstm"}, r"family must be one of .*, got 'lstm'"),
        ("tabular", {"report_on": "train"}, "report_on must be test or validation, got 'train'"),
        ("tabular", {"data": "x.csv"}, "--target must name the column to predict"),
        (
            "image_sequence",
            {"read_as": "waves"},
            "read_as='waves' was given: picture, values, ids are",
        ),
        ("image_sequence", {"family": "chordmixer"}, "got AutoModelForImageClassification"),
    ],
)
def test_options_that_cannot_be_are_refused(script, options, message, tmp_path, quiet):
    with pytest.raises(ValueError, match=message):
        run(script, tmp_path, "--smoke", **options)


@every_family
@pytest.mark.parametrize("read_as", ["values", "ids"])
def test_pixels_are_read_one_by_one(row, read_as, tmp_path, quiet):
    settings = json.dumps({**row.small, "max_position_embeddings": 64})
    options = {"read_as": read_as, "family": row.name, "settings": settings}
    results = run("image_sequence", tmp_path, "--smoke", **options)
    check_run(tmp_path, results)
    assert set(results["test"]) == {"model", "logistic regression on pixels"}
    assert PixelScaler(**read_preparation(tmp_path)).read_as == read_as


def test_images_are_read_by_patches(tmp_path, quiet):
    results = run("image_sequence", tmp_path, "--smoke")
    check_run(tmp_path, results)
    config = AutoModelForImageClassification.from_pretrained(tmp_path).config
    assert (config.image_size, config.patch_size, config.num_channels) == (8, 2, 1)
    card = (tmp_path / "README.md").read_text()
    assert "images of 8 x 8 pixels in 1 channels" in card
    assert "AutoModelForImageClassification" in card


def test_embedded_vowels_are_learnt_with_the_published_settings(tmp_path, quiet):
    results = run("time_series", tmp_path, "--smoke")
    check_run(tmp_path, results)
    config = AutoModelForSequenceClassification.from_pretrained(tmp_path).config
    assert (config.hidden_size, config.intermediate_size) == (128, 256)
    assert config.head_scales == [1, 1, 2, 2, 4, 4, 8, 8]


def write_houses(path):
    chance = np.random.default_rng(0)
    size, town = chance.uniform(50, 150, 200), chance.choice(["Ulm", "Bern"], 200)
    price = 2 * size + 30 * (town == "Ulm")
    rows = {"size": size, "town": town, "price": price, "dear": price > 200}
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def test_tables_smoke_run(tmp_path, quiet):
    results = run("tabular", tmp_path, "--smoke")
    check_run(tmp_path, results)
    assert set(results["test"]) == {"model", "gradient boosting"}
    assert results["config"]["num_numeric_features"] == 30


@pytest.mark.parametrize("target", ["price", "dear"])
def test_numbers_and_classes_of_a_table_are_predicted(target, tmp_path, quiet):
    results = run(
        "tabular",
        tmp_path / "run",
        data=write_houses(tmp_path / "houses.csv"),
        target=target,
        ignore="dear" if target == "price" else "price",
        num_train_epochs=15,
        learning_rate=1e-3,
        per_device_train_batch_size=32,
        settings='{"hidden_size": 32, "intermediate_size": 32}',
    )
    check_run(tmp_path / "run", results)
    assert results["config"]["category_sizes"] == [3]
    encoder = TableEncoder(**read_preparation(tmp_path / "run"))
    assert list(encoder.categories) == ["town"]
    overall = results["test"]["model"]["overall"]
    rows = read_rows(tmp_path / "run")
    if target == "dear":
        assert overall["accuracy"]["value"] > 0.8
        assert {row["label"] for row in rows} == {"False", "True"}
        return
    assert overall["r2"]["value"] > 0.5
    # in the units of the table, and standardised
    assert {float(row["target"]) > 90 for row in rows} == {True}
    assert overall["rmse"]["value"] == pytest.approx(
        overall["rmse_standardized"]["value"] * encoder.target_std
    )
    assert (tmp_path / "run" / "scatter.png").exists()
