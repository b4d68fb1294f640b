"""One command runs any model on any task; results, spans and maps come from its folder."""

import itertools
import json
import shutil

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from hf_mixers.auto import FAMILIES
from hf_mixers.cli.main import app
from hf_mixers.recipes.arena import (
    ArenaArguments,
    ArenaEvaluation,
    ArenaModelOptions,
    ArenaOptions,
    ArenaTaskOptions,
    guess,
    run_arena,
)
from hf_mixers.recipes.arena_models import (
    check_parameters,
    count_base,
    count_parameters,
    is_causal,
    make_arena_model,
    make_language_model,
)
from hf_mixers.recipes.arena_protocols import PROTOCOLS, Schedule, preset_name, protocol_values
from hf_mixers.recipes.arena_span import draw_maps, measure_spans
from hf_mixers.recipes.options import parse_settings
from hf_mixers.recipes.self_pretrain import NextTokenCollator, SelfPretrainOptions, SingleSequences
from hf_mixers.tasks import TASKS, load_arena_task, task_options

from ..tasks import release

SMALL = {"num_train": 16, "num_validation": 6, "num_test": 6}
LISTOPS = {**SMALL, "min_length": 20, "max_length": 50}

EXHAUSTIVE = pytest.mark.exhaustive


def invoke(*arguments):
    result = CliRunner().invoke(app, ["arena", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def read_entry(tmp_path):
    return json.loads((tmp_path / "run" / "metrics.json").read_text())["arena"]


def run(
    tmp_path,
    family="chordmixer",
    task="listops",
    options=LISTOPS,
    pretrain=False,
    settings=None,
    **training,
):
    chosen = ArenaOptions(
        ArenaModelOptions(family=family, parameters=8_000, settings=settings),
        ArenaTaskOptions(task=task, options=options),
        SelfPretrainOptions(self_pretrain=pretrain, pretrain_steps=3),
        ArenaEvaluation(results=str(tmp_path / "results.jsonl")),
    )
    training = {"max_steps": 3, "logging_steps": 1, **training}
    return run_arena(chosen, ArenaArguments(output_dir=str(tmp_path / "run"), **training))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The official files of all six tasks."""
    folder = tmp_path_factory.mktemp("release")
    release.write_listops(folder / "listops-1000", (16, 8, 8))
    release.write_imdb(folder / "aclImdb")
    release.write_aan(folder / "tsv_data", (16, 8, 8))
    release.write_cifar(folder / "cifar-10-batches-py", 6)
    release.write_pathfinder(folder / "pathfinder32", tables=2)
    release.write_pathfinder(folder / "pathfinder128", resolution=128, tables=1, per_table=12)
    return folder


@pytest.mark.parametrize(
    ("task", "option"),
    [
        ("listops", "max_length=2000"),
        ("text", "max_length=200"),
        ("retrieval", "max_length=60"),
        ("image", "pixels=values"),
        ("pathfinder", "difficulty=easy"),
        ("pathx", "difficulty=easy"),
    ],
)
def test_every_task_runs_from_official_files_with_one_command(files, tmp_path, quiet, task, option):
    invoke(
        *("run", "--task", task, "--data", files, "--option", option, "--smoke"),
        *("--output", tmp_path / "run", "--parameters", 3000),
    )
    found = read_entry(tmp_path)
    assert found["task"] == task
    assert found["steps"] == 2
    assert found["is_shortened"]
    assert 0 <= found["score"] <= 1
    assert (tmp_path / "run" / "README.md").is_file()
    assert (tmp_path / "run" / "model.safetensors").is_file()
    # the settings of the run repeat it
    assert f"task: {task}" in (tmp_path / "run" / "run.yaml").read_text()


@pytest.mark.parametrize(
    "task", ["retrieval", *(pytest.param(name, marks=EXHAUSTIVE) for name in ("listops", "image"))]
)
def test_a_transformer_runs_on_the_same_files(files, tmp_path, quiet, task):
    invoke(
        *("run", "--task", task, "--data", files, "--model", "bert", "--smoke", "--self-pretrain"),
        *("--output", tmp_path / "run", "--set", "hidden_size=16", "--set", "num_hidden_layers=1"),
    )
    found = read_entry(tmp_path)
    assert found["model"] == "bert"
    assert found["self_pretraining"]["mask_ratio"] == {"listops": 0.1, "image": 0.5}.get(task, 0.15)
    assert "a `bert` of transformers" in (tmp_path / "run" / "README.md").read_text()


@pytest.mark.parametrize(
    ("family", "pretrain"),
    [
        *(("chordmixer", pretrain) for pretrain in (False, True)),
        *(("combiner", True), ("bert", True)),
        *(pytest.param(name, True, marks=EXHAUSTIVE) for name in ("paramixer", "mrsformer")),
        pytest.param("mamba2", True, marks=EXHAUSTIVE),
    ],
)
def test_every_family_is_trained_and_self_pretrained(tmp_path, quiet, family, pretrain):
    results = run(tmp_path, family, pretrain=pretrain)
    entry = results["arena"]
    assert entry["parameters"] == pytest.approx(8_000, rel=0.35)
    assert entry["steps"] == 3
    assert entry["examples"] == {"train": 16, "validation": 6, "test": 6}
    assert entry["seconds_per_step"] > 0
    assert entry["memory_mb"] >= 0
    assert set(results["test"]) == {"model", "constant"}
    assert (entry["self_pretraining"] is not None) == pretrain
    if pretrain:
        assert entry["self_pretraining"]["steps"] == 3
        causal = family == "mamba2"
        assert (entry["self_pretraining"]["mask_ratio"] is None) == causal
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["score"] == entry["score"]


def test_self_pretraining_gives_its_trunk_to_the_classifier(tmp_path, quiet):
    from hf_mixers.recipes.self_pretrain import self_pretrain

    task = load_arena_task("listops", **LISTOPS)
    model = make_arena_model(ArenaModelOptions(parameters=8_000), task)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    arguments = ArenaArguments(
        output_dir=str(tmp_path),
        max_steps=3,
        eval_strategy="no",
        save_strategy="no",
        load_best_model_at_end=False,
    )
    found = self_pretrain(
        model, task, SelfPretrainOptions(True, mask_ratio=0.4), arguments, collator=task.collator()
    )
    assert found["mask_ratio"] == 0.4
    changed = {
        name for name, value in model.state_dict().items() if not torch.equal(value, before[name])
    }
    assert changed
    assert all(name.startswith("model.") for name in changed)


def test_labels_of_causal_models_are_their_tokens():
    task = load_arena_task("listops", **LISTOPS)
    examples = [{"input_ids": [5, 6, 7]}, {"input_ids": [8, 9]}]
    flat = NextTokenCollator(task.collator("none"))(examples)
    assert flat["labels"].tolist() == [[5, 6, 7, 8, 9]]
    padded = NextTokenCollator(task.collator("batch"))(examples)
    assert padded["labels"].tolist() == [[5, 6, 7], [8, 9, -100]]


def test_a_causal_combiner_is_pretrained_on_the_next_token(tmp_path, quiet):
    results = run(tmp_path, "combiner", pretrain=True, settings={"causal": True})
    found = results["arena"]["self_pretraining"]
    assert (found["mask_ratio"], found["accuracy"]) == (None, None)
    assert found["loss"] > 0


def test_both_sequences_of_a_pair_are_pretrained_on(files):
    task = load_arena_task("retrieval", files, max_length=30)
    rows = SingleSequences(task.parts["train"], is_pair=True)
    assert len(rows) == 32
    pair = task.parts["train"][3]
    assert np.array_equal(rows[6]["input_ids"], pair["input_ids"])
    assert np.array_equal(rows[7]["input_ids"], pair["input_ids_2"])
    assert len(rows.lengths) == 32


def test_values_cannot_be_self_pretrained_on():
    task = load_arena_task("adding", **SMALL, base_length=40)
    model = make_arena_model(ArenaModelOptions(parameters=5_000), task)
    with pytest.raises(ValueError, match="predicts tokens, got the task adding with values"):
        make_language_model(model, task)


# --- sizes ---


@pytest.mark.parametrize("family", [*FAMILIES, "bert", "longformer", "modernbert"])
def test_the_width_is_chosen_for_a_number_of_parameters(family):
    task = load_arena_task("listops", **LISTOPS)
    model = make_arena_model(ArenaModelOptions(family=family, parameters=40_000), task)
    assert count_parameters(model) == pytest.approx(40_000, rel=0.05)
    assert not is_causal(model)


def test_more_parameters_than_the_base_transformer_are_refused():
    task = load_arena_task("pathfinder", **SMALL)
    base = count_base(task)
    assert 20_000 < base < 60_000
    small = make_arena_model(ArenaModelOptions(parameters=base, apples_to_apples=True), task)
    assert check_parameters(small, task) == pytest.approx(1, abs=0.05)
    with pytest.raises(ValueError, match="at most 10% more are accepted"):
        make_arena_model(ArenaModelOptions(parameters=2 * base, apples_to_apples=True), task)
    other = load_arena_task("temporal_order", **SMALL)
    with pytest.raises(ValueError, match="has a base Transformer for listops"):
        check_parameters(make_arena_model(ArenaModelOptions(), other), other)


@pytest.mark.parametrize(
    ("family", "task"),
    [
        ("chordmixer", "listops"),
        ("paramixer", "listops"),
        ("mrsformer", "listops"),
        ("chordmixer", "pathfinder"),
        ("paramixer", "pathfinder"),
        ("combiner", "pathfinder"),
    ],
)
def test_published_models_fit_the_task(family, task):
    options = LISTOPS if task == "listops" else SMALL
    loaded = load_arena_task(task, **options)
    model = make_arena_model(ArenaModelOptions(family=family, published=True), loaded)
    expected = FAMILIES[family].config.preset(preset_name(family, task))
    assert model.config.intermediate_size == expected.intermediate_size
    assert model.config.num_labels == loaded.num_labels
    from hf_mixers.recipes.arena import choose_collator

    batch = choose_collator(model, loaded)([loaded.parts["train"][i] for i in range(3)])
    assert torch.isfinite(model(**batch).loss)


def test_a_protocol_may_have_other_sizes_than_the_released_model(files):
    task = load_arena_task("retrieval", files, max_length=60)
    for protocol, track_size in (("chordmixer", 20), ("chordmixer_paper", 12)):
        options = ArenaModelOptions(published=True, protocol=protocol)
        assert make_arena_model(options, task).config.track_size == track_size


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"family": "bert", "published": True}, "published requires a family"),
        ({"parameters": 0}, "a positive number"),
        ({"parameters": 100, "published": True}, "without published"),
    ],
)
def test_model_options_that_exclude_each_other_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        ArenaModelOptions(**options)


def test_unknown_models_and_fields_are_refused():
    task = load_arena_task("listops", **LISTOPS)
    with pytest.raises(ValueError, match="neither a family of hf_mixers nor a model type"):
        make_arena_model(ArenaModelOptions(family="bart-but-longer"), task)
    with pytest.raises(ValueError, match="'colour' is not a config field of bert"):
        make_arena_model(ArenaModelOptions(family="bert", settings={"colour": 1}), task)
    with pytest.raises(ValueError, match="mrsformer has published settings for listops"):
        preset_name("mrsformer", "image")


# --- protocols ---


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_protocols_are_settings_of_a_run(protocol):
    from hf_mixers.recipes.configuration import Configuration

    for task, from_files in itertools.product(PROTOCOLS[protocol], (False, True)):
        kind = TASKS[task]
        if (kind.load if from_files else kind.make) is None:
            continue
        configuration = Configuration(ArenaOptions, ArenaArguments)
        for key, value in protocol_values(protocol, task, from_files=from_files).items():
            configuration.put(key, value)
        options, arguments = configuration.build()
        assert arguments.per_device_train_batch_size >= 2
        assert arguments.train_token_budget is None
        known = task_options(task, from_files=from_files)
        chosen = parse_settings(options.task.options)
        assert chosen.keys() <= known.keys()
        # a test part that is also the validation part chooses nothing
        assert not (chosen.get("reference_validation") and arguments.load_best_model_at_end)


def test_protocols_have_the_published_numbers():
    lra = protocol_values("lra", "listops")
    assert lra["training.learning_rate"] == pytest.approx(0.05 / 1000**0.5)
    assert lra["training.lr_scheduler_type"] == "inverse_sqrt"
    assert (lra["training.max_steps"], lra["training.warmup_steps"]) == (5000, 1000)
    chord = protocol_values("chordmixer", "image")
    assert (chord["training.learning_rate"], chord["training.num_train_epochs"]) == (0.01, 120)
    assert protocol_values("combiner", "pathfinder")["task.options"] == {
        "difficulty": "intermediate"
    }
    paper = protocol_values("chordmixer_paper", "retrieval")
    assert (
        paper["training.learning_rate"],
        paper["training.per_device_train_batch_size"],
        paper["training.lr_scheduler_kwargs"]["power"],
    ) == (0.007, 90, 2.0)
    assert protocol_values("lra", "pathfinder")["training.max_grad_norm"] == 0
    assert protocol_values("lra", "pathx")["training.max_grad_norm"] == 1
    text = protocol_values("chordmixer", "text", from_files=True)["task.options"]
    assert text == {
        "tokenization": "chars",
        "append_eos": True,
        "min_count": 10,
        "max_length": 4096,
        "reference_validation": True,
    }
    with pytest.raises(ValueError, match="protocol='x' was given"):
        protocol_values("x", "image")
    with pytest.raises(ValueError, match="has settings for listops"):
        protocol_values("lra", "adding")


@EXHAUSTIVE
def test_a_protocol_is_applied_and_can_be_changed(tmp_path, quiet):
    pairs = [f"{name}={value}" for name, value in SMALL.items()]
    invoke(
        *("run", "--task", "pathfinder", "--protocol", "lra", "--model", "bert", "--smoke"),
        *("--output", tmp_path / "run", "--learning-rate", 0.5),
        *(word for pair in pairs for word in ("--option", pair)),
    )
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert found["training"]["learning_rate"] == 0.5
    assert found["training"]["per_device_train_batch_size"] == 512
    entry = read_entry(tmp_path)
    assert (entry["published_steps"], entry["of_base"]) == (62_400, 1.0)


# --- what a run tells ---


def test_the_constant_answer_is_the_most_frequent_class():
    task = load_arena_task("listops", **{**LISTOPS, "num_train": 300})
    counts = np.bincount(task.parts["train"].labels, minlength=10)
    assert guess(task, "test").shape == (6, 10)
    assert guess(task, "test")[0].argmax() == counts.argmax()
    adding = load_arena_task("adding", **SMALL, base_length=40)
    assert np.allclose(guess(adding, "test"), np.median(adding.parts["train"].labels))


def test_fewer_examples_can_be_asked_for_and_are_noted():
    options = ArenaTaskOptions("listops", options=LISTOPS, num_train=5, num_evaluation=2)
    task = options.load()
    assert [len(rows) for rows in task.parts.values()] == [5, 2, 2]
    assert task.notes[0] == "train is 5 of 16 examples, drawn at random."
    with pytest.raises(ValueError, match=r"task.num_train must be at least 1, got 0"):
        ArenaTaskOptions("listops", num_train=0)


def test_fewer_examples_of_files_that_go_class_by_class_are_of_all_classes(tmp_path):
    release.write_imdb(tmp_path, count=50)
    options = ArenaTaskOptions("text", str(tmp_path), num_train=20, num_evaluation=20)
    for rows in options.load().parts.values():
        assert set(rows.labels.tolist()) == {0, 1}


def test_the_most_frequent_class_is_that_of_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_mixers.recipes.arena._COUNTED", 5)
    rows = {"train": ["a"] * 20 + ["b"] * 40, "test": ["a", "b"]}
    for part, labels in rows.items():
        lines = [f"{part} {number},{label}" for number, label in enumerate(labels)]
        (tmp_path / f"{part}.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    task = load_arena_task("text", tmp_path)
    assert np.allclose(np.exp(guess(task, "test")[0]), [1 / 3, 2 / 3])


def test_the_file_of_a_run_repeats_its_task_and_model(tmp_path, quiet):
    options = [f"--option={name}={value}" for name, value in SMALL.items()]
    options += ["--option=length=20", "--steps=1"]
    invoke("run", "--task=adding", "--model=paramixer", *options, "-o", tmp_path / "first")
    invoke("run", "--config", tmp_path / "first" / "run.yaml", "-o", tmp_path / "run")
    entry = read_entry(tmp_path)
    assert (entry["task"], entry["model"], entry["steps"]) == ("adding", "paramixer", 1)
    assert entry["task_options"] == {**SMALL, "length": 20}


def test_epochs_come_before_the_steps_of_a_protocol(tmp_path, quiet):
    options = [f"--option={name}={value}" for name, value in LISTOPS.items()]
    given = ("--protocol=lra", "--epochs=1", "--batch-size=8", "--results", tmp_path / "all.jsonl")
    invoke("run", "--task=listops", "--parameters=3000", *given, *options, "-o", tmp_path / "run")
    entry = read_entry(tmp_path)
    assert entry["steps"] == 2
    assert entry["is_shortened"]


def test_few_examples_make_a_shortened_run_whatever_the_epochs(tmp_path, quiet):
    options = [f"--option={name}={value}" for name, value in LISTOPS.items()]
    given = ("--protocol=chordmixer", "--epochs=200", "--batch-size=16", "--parameters=3000")
    invoke("run", "--task=listops", *given, *options, "-o", tmp_path / "run")
    assert read_entry(tmp_path)["is_shortened"]


@pytest.mark.parametrize(("steps", "batch", "short"), [(2, 8, False), (1, 8, True), (2, 4, True)])
def test_a_run_is_as_long_as_its_steps_and_examples(
    tmp_path, quiet, monkeypatch, steps, batch, short
):
    published = {"lra": {"listops": Schedule(1e-3, 8, 2)}}
    monkeypatch.setattr("hf_mixers.recipes.arena.PROTOCOLS", published)
    options = [f"--option={name}={value}" for name, value in LISTOPS.items()]
    given = (f"--steps={steps}", f"--batch-size={batch}", "--protocol=lra", "--parameters=3000")
    invoke("run", "--task=listops", *given, *options, "-o", tmp_path / "run")
    assert read_entry(tmp_path)["is_shortened"] is short


def test_what_a_task_was_made_with_is_in_the_results(tmp_path, quiet):
    options = [f"--option={name}={value}" for name, value in SMALL.items()]
    options += ["--option=difficulty=easy", "--option=padding=max"]
    invoke("make", tmp_path / "made", "--task=pathfinder", *options)
    given = ("--task=pathfinder", "--data", tmp_path / "made", "--smoke", "--option=padding=batch")
    invoke("run", *given, "-o", tmp_path / "run")
    told = read_entry(tmp_path)["task_options"]
    assert (told["difficulty"], told["padding"]) == ("easy", "batch")
    with pytest.raises(ValueError, match="holds images of the difficulty 'easy' in parts"):
        load_arena_task("pathfinder", tmp_path / "made", difficulty="hard")
    with pytest.raises(ValueError, match="split='file_order' were given"):
        load_arena_task("pathfinder", tmp_path / "made", split="file_order")


def test_a_finished_self_pretraining_is_not_gone_on_with(tmp_path, quiet):
    changes = {"max_steps": 3, "lr_scheduler_type": "constant"}
    whole = run(tmp_path, pretrain=True, **changes)
    for checkpoint in (tmp_path / "run").glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
    again = run(tmp_path, pretrain=True, resume_from_checkpoint="true", **changes)
    for name in ("self_pretraining", "score", "steps"):
        assert again["arena"][name] == whole["arena"][name]


def test_an_interrupted_run_goes_on(tmp_path, quiet):
    run(
        tmp_path,
        max_steps=2,
        save_steps=1,
        save_strategy="steps",
        eval_strategy="steps",
        eval_steps=1,
    )
    results = run(tmp_path, max_steps=4, resume_from_checkpoint="true")
    assert results["arena"]["steps"] == 4
    steps = [row["step"] for row in results["history"] if "loss" in row]
    assert steps[-1] == 4


def test_an_interrupted_self_pretraining_goes_on(tmp_path, quiet, monkeypatch):
    from hf_mixers.recipes import arena

    def stop(*args, **kwargs):
        raise OSError("no space left")

    often = {"save_steps": 1, "save_strategy": "steps", "eval_strategy": "steps", "eval_steps": 1}
    with pytest.raises(ValueError, match="has no complete checkpoint"):
        run(tmp_path, pretrain=True, resume_from_checkpoint="true", **often)
    with monkeypatch.context() as patched:
        # stopped between the two trainings
        patched.setattr(arena, "train_model", stop)
        with pytest.raises(OSError, match="no space left"):
            run(tmp_path, pretrain=True, **often)
    folder = tmp_path / "run" / "self_pretrain"
    assert (folder / "checkpoint-3").is_dir()
    shutil.rmtree(folder / "checkpoint-3")
    results = run(tmp_path, pretrain=True, resume_from_checkpoint="true", **often)
    assert results["arena"]["self_pretraining"]["steps"] == 3
    assert results["arena"]["steps"] == 3
    state = json.loads((folder / "checkpoint-3" / "trainer_state.json").read_text())
    # steps 1 and 2 are those of the first run
    assert [row["step"] for row in state["log_history"] if "loss" in row] == [1, 2, 3]


@pytest.mark.parametrize("family", ["chordmixer", "bert"])
def test_spans_of_a_finished_run(tmp_path, quiet, family):
    run(tmp_path, family)
    found = measure_spans(tmp_path / "run", num_samples=3, num_queries=2)
    assert (found["attention"] is None) == (family == "chordmixer")
    gradient = found["gradient"]
    assert 0 < gradient["coverage"] <= 1
    assert sum(gradient["curve"]) == pytest.approx(1)
    assert (tmp_path / "run" / "reach.png").is_file()
    text = invoke("span", tmp_path / "run", "--samples", 2, "--queries", 1)
    assert "receptive field by gradient" in text
    assert ("attention span" in text) == (family == "bert")


def test_maps_of_an_adding_model(tmp_path, quiet):
    run(tmp_path, task="adding", options={**SMALL, "base_length": 40})
    found = draw_maps(tmp_path / "run", (40, 90))
    assert [len(one["values"]) for one in found] == [40, 90]
    assert all(one["first"].shape == one["last"].shape for one in found)
    assert not np.allclose(found[1]["first"], found[1]["last"])
    assert (tmp_path / "run" / "maps.png").is_file()
    assert "maps.png" in invoke("maps", tmp_path / "run", "--length", 33)


def test_folders_that_are_no_runs_are_refused(tmp_path, quiet):
    with pytest.raises(ValueError, match="not the folder of a finished arena run"):
        measure_spans(tmp_path)
    run(tmp_path)
    with pytest.raises(ValueError, match="for the task adding, got 'listops'"):
        draw_maps(tmp_path / "run")


def test_tasks_are_listed_and_made(tmp_path, quiet):
    assert "pathfinder" in invoke("tasks")
    assert "min_length=500" in invoke("tasks", "listops")
    pairs = [f"{name}={value}" for name, value in LISTOPS.items()]
    options = [word for pair in pairs for word in ("--option", pair)]
    text = invoke("make", tmp_path / "made", "--task", "listops", *options)
    assert "train 16, validation 6, test 6" in text
    assert len(load_arena_task("listops", tmp_path / "made").parts["train"]) == 16
    with pytest.raises(ValueError, match="'x' was asked for"):
        invoke("tasks", "x")
    with pytest.raises(ValueError, match="--option takes key=value"):
        invoke("make", tmp_path / "other", "--option", "x")


def test_the_example_does_the_same(tmp_path, quiet):
    from ..examples.example_runs import check_run, load

    results = load("run_arena").main(
        [
            *("--task", "temporal_order", "--options", json.dumps({**SMALL, "length": 32})),
            *("--parameters", "5000", "--smoke", "true", "--output_dir", str(tmp_path / "run")),
        ]
    )
    check_run(tmp_path / "run", results)
    assert results["arena"]["task"] == "temporal_order"
