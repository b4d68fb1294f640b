"""Tasks made from a seed: parts, parquet files, what a model must know."""

import json

import numpy as np
import pytest

from hf_mixers.tasks import load_arena_task, write_task

from .test_arena_loaders import PARTS, check_task, sizes

SMALL = {"num_train": 7, "num_validation": 2, "num_test": 3}
MADE = {
    "listops": {"min_length": 20, "max_length": 60},
    "pathfinder": {"difficulty": "easy"},
    "adding": {"base_length": 20},
    "temporal_order": {"length": 32},
}


def check_equal(one, other):
    for part in PARTS:
        assert len(one.parts[part]) == len(other.parts[part])
        assert one.parts[part].lengths.tolist() == other.parts[part].lengths.tolist()
        for index in range(len(one.parts[part])):
            first, second = one.parts[part][index], other.parts[part][index]
            assert first.keys() == second.keys()
            for name in first:
                assert np.array_equal(first[name], second[name])
                assert np.asarray(first[name]).shape == np.asarray(second[name]).shape


@pytest.mark.parametrize("name", MADE)
def test_made_tasks_are_complete(name):
    task = load_arena_task(name, **SMALL, **MADE[name])
    if name == "adding":
        assert (task.problem_type, task.num_labels, task.metric) == (
            "regression",
            1,
            "within_tolerance",
        )
        assert task.config_fields()["input_features"] == 2
    else:
        check_task(task)
        assert task.config_fields()["vocab_size"] == task.vocab_size
        assert task.config_fields()["id2label"][1] == task.class_names[1]
    assert sizes(task) == (7, 2, 3)
    assert task.config_fields()["max_position_embeddings"] == task.max_length


@pytest.mark.parametrize("name", MADE)
def test_the_test_part_does_not_depend_on_the_size_of_the_others(name):
    small, large = (
        load_arena_task(name, **{**SMALL, "num_train": count}, **MADE[name]) for count in (1, 9)
    )
    for index in range(3):
        one, other = small.parts["test"][index], large.parts["test"][index]
        assert all(np.array_equal(one[key], other[key]) for key in one)
    another = load_arena_task(name, **SMALL, **MADE[name], data_seed=1)
    contents = [key for key in one if key.startswith("input")]
    assert not np.array_equal(another.parts["test"][2][contents[0]], other[contents[0]])


@pytest.mark.parametrize("name", MADE)
def test_parquet_files_give_back_the_same_task(name, tmp_path, quiet):
    task = load_arena_task(name, **SMALL, **MADE[name])
    write_task(task, tmp_path / "made", description=MADE[name])
    again = load_arena_task(name, tmp_path / "made")
    check_equal(task, again)
    assert again.config_fields().keys() == task.config_fields().keys()
    about = json.loads((tmp_path / "made" / "task.json").read_text())
    assert about["task"] == name
    assert about["sizes"] == {"train": 7, "validation": 2, "test": 3}
    assert about["options"] == MADE[name]
    assert about["vocab_size"] == task.vocab_size
    with pytest.raises(ValueError, match="holds a task already"):
        write_task(task, tmp_path / "made")
    with pytest.raises(ValueError, match=f"holds the task '{name}': '.*' was asked for"):
        load_arena_task("listops" if name != "listops" else "adding", tmp_path / "made")


def test_files_do_not_depend_on_the_number_of_processes(tmp_path, quiet, monkeypatch):
    monkeypatch.setattr("hf_mixers.tasks.stored._CHUNK", 3)
    task = load_arena_task("listops", **SMALL, min_length=50, max_length=90)
    for count in (1, 2):
        write_task(task, tmp_path / str(count), num_processes=count)
    for part in PARTS:
        one, two = ((tmp_path / str(n) / f"{part}.parquet").read_bytes() for n in (1, 2))
        assert one == two
    with pytest.raises(ValueError, match="num_processes=0"):
        write_task(task, tmp_path / "none", num_processes=0)


def test_an_interrupted_task_goes_on_where_it_stopped(tmp_path, quiet, monkeypatch):
    monkeypatch.setattr("hf_mixers.tasks.stored._CHUNK", 2)
    monkeypatch.setattr("hf_mixers.tasks.stored._CHUNKS_OF_A_PIECE", 2)
    settings = {"num_train": 11, "num_validation": 2, "num_test": 3, "length": 16}
    task = load_arena_task("temporal_order", **settings)
    write_task(task, tmp_path / "whole")
    made, limit = [], 10
    original = type(task.parts["train"]).read

    def read(rows, row):
        made.append(row)
        if len(made) == limit:
            raise OSError("no space left")
        return original(rows, row)

    monkeypatch.setattr(type(task.parts["train"]), "read", read)
    with pytest.raises(OSError, match="no space left"):
        write_task(task, tmp_path / "made")
    assert not (tmp_path / "made" / "train.parquet").exists()
    with pytest.raises(ValueError, match="unfinished task: make it again"):
        load_arena_task("temporal_order", tmp_path / "made")
    with pytest.raises(ValueError, match="unfinished task with other options"):
        write_task(load_arena_task("temporal_order", **settings, data_seed=1), tmp_path / "made")
    made, limit = [], None
    write_task(task, tmp_path / "made")
    # one example of each part to compare, and what was not written: a whole piece was
    assert len(made) == 3 + 11 - 4 + 2 + 3
    names = sorted(file.name for file in (tmp_path / "whole").iterdir())
    assert names == ["task.json", "test.parquet", "train.parquet", "validation.parquet"]
    assert sorted(file.name for file in (tmp_path / "made").iterdir()) == names
    for name in names:
        assert (tmp_path / "made" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_stored_listops_keep_their_vocabulary(tmp_path, quiet):
    task = load_arena_task("listops", **SMALL, min_length=20, max_length=40, vocabulary="s4")
    write_task(task, tmp_path)
    again = load_arena_task("listops", tmp_path, vocabulary="s4", max_length=40)
    assert again.config_fields() | {"max_position_embeddings": 40} == task.config_fields()
    assert again.mask_token_id == task.mask_token_id
    with pytest.raises(ValueError, match="vocabulary='hf_mixers' with 20 was asked for"):
        load_arena_task("listops", tmp_path)
    with pytest.raises(ValueError, match=r"max_length=15 was given: .* is not cut"):
        load_arena_task("listops", tmp_path, vocabulary="s4", max_length=15)


def test_stored_images_know_their_pixel_mode_and_resolution(tmp_path, quiet):
    write_task(load_arena_task("pathfinder", **SMALL, difficulty="easy", pixels="values"), tmp_path)
    task = load_arena_task("pathfinder", tmp_path, pixels="values")
    check_task(task)
    with pytest.raises(ValueError, match="pixels='ids' at resolution 32 were asked"):
        load_arena_task("pathfinder", tmp_path)
    with pytest.raises(ValueError, match="at resolution 64 were asked"):
        load_arena_task("pathfinder", tmp_path, pixels="values", resolution=64)


@pytest.mark.parametrize("vocabulary", ["hf_mixers", "lra", "s4", "paramixer"])
def test_listops_is_made_in_every_vocabulary(vocabulary):
    task = load_arena_task("listops", **SMALL, min_length=20, max_length=60, vocabulary=vocabulary)
    check_task(task)
    ids = task.parts["train"][0]["input_ids"]
    assert (ids[-1] == 2) == (vocabulary == "s4")


def test_adding_at_one_length_and_path_x():
    task = load_arena_task("adding", **SMALL, length=64)
    assert set(task.parts["train"].lengths) == {64}
    assert task.max_length == 64
    task = load_arena_task("pathx", **SMALL, difficulty="easy")
    assert (task.name, task.max_length) == ("pathx", 128**2)
    assert len(task.parts["test"][0]["input_ids"]) == 128**2


def test_adding_has_the_published_sizes():
    for options, expected in (
        ({}, (50_000, 5_000, 5_000)),
        ({"base_length": 128_000}, (10_000, 1_000, 1_000)),
        ({"length": 128}, (100_000, 1_000, 1_000)),
        ({"base_length": 16_000, "num_test": 7}, (50_000, 5_000, 7)),
    ):
        task = load_arena_task("adding", **options)
        assert tuple(len(task.parts[part]) for part in PARTS) == expected


def test_parts_without_examples_are_refused():
    with pytest.raises(ValueError, match="at least one example"):
        load_arena_task("temporal_order", num_train=5, num_validation=0, num_test=5)
    with pytest.raises(ValueError, match="padding='left'"):
        load_arena_task("temporal_order", **SMALL, padding="left").collator()
