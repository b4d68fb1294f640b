"""Tables about recorded trainings say what the records hold, and leave out what is not recorded."""

import json

import numpy as np

from benchmarks.trainings.arena_tables import draw_arena, make_arena_section
from benchmarks.trainings.choice_tables import make_choices_section, make_sizes_section
from benchmarks.trainings.curves import draw_trainings
from benchmarks.trainings.tables import make_trainings_section
from benchmarks.trainings.variant_tables import make_planted_section
from benchmarks.trainings.zoo_tables import make_zoo_section
from hf_mixers.metrics import classification_report


def overall(**values: float) -> dict:
    return {"overall": {name: {"value": value} for name, value in values.items()}}


def write(folder, name: str, **content) -> None:
    record = {
        "script": "examples/x.py",
        "seconds": 150,
        "parameters": 1_240_000,
        "history": [{"epoch": 1.0}, {"epoch": 1.5}],
        "environment": {"machine": {"threads": 1}},
        **content,
    }
    (folder / f"{name}.json").write_text(json.dumps(record))


def test_nothing_recorded_is_said(tmp_path):
    (tmp_path / "blocks.json").write_text('{"machine": {}}')  # of a benchmark, not of a training
    assert make_trainings_section(tmp_path) == "Not run yet.\n"


def test_every_kind_of_training_has_its_table(tmp_path):
    good, fair = overall(accuracy=0.94, roc_auc=0.99), overall(accuracy=0.91, roc_auc=0.97)
    write(tmp_path, "genes_random", test={"model": good, "kmer": fair})
    contigs = overall(accuracy=0.9, balanced_accuracy=0.85, roc_auc=0.98)
    write(tmp_path, "contigs5", test={"model": contigs})
    few = [overall(accuracy=accuracy, roc_auc=0.95) for accuracy in (0.8, 0.9)]
    runs = [{"test": {"model": scores, "kmer": fair}} for scores in few]
    write(tmp_path, "few_scratch", runs=runs)
    write(tmp_path, "vowels_mrs_luna", runs=[{"test": {"model": one}} for one in few])
    write(tmp_path, "vowels_mrs_softmax", runs=[{"test": {"model": good, "ridge": fair}}] * 2)
    write(tmp_path, "adult_plain", runs=[{"test": {"model": one}} for one in few])
    write(tmp_path, "adult_mrs", runs=[{"test": {"model": good, "trees": fair}}] * 2)
    model, markov = {"accuracy": 0.4, "perplexity": 3.5}, {"accuracy": 0.375, "perplexity": 3.6}
    write(tmp_path, "mlm_genomes", test={"model": model, "Markov": markov})
    write(tmp_path, "mlm_microbes", test={"model": markov, "model, both strands": model})
    adding = {"model": overall(within_tolerance=0.995), "always 0.5": overall(within_tolerance=0.1)}
    write(tmp_path, "adding_200", test=adding)
    order = {"model": overall(accuracy=0.999), "always XX": overall(accuracy=0.25)}
    for task, test, positions in (
        ("temporal_order", order, "absolute"),
        ("adding", adding, "none"),
    ):
        config = {"max_position_embeddings": 2048, "position_embedding_type": positions}
        arguments = ["--length", "2048", "--task", task]
        write(tmp_path, f"paramixer_{task}", test=test, config=config, arguments=arguments)
    write(tmp_path, "blocks_mix_rotate_layer", validation={"model": good})
    write(tmp_path, "rotation_alternating", test={"model": model, "Markov": markov})
    for name, accuracy in (("genes_species", 0.9), ("choice_token_dropout", 0.8)):
        scores = {"eval_accuracy": accuracy, "eval_roc_auc": 0.96}
        history = [
            {"epoch": 1.0, **scores, "eval_balanced_accuracy": 0.8},
            {"epoch": 2.0, **scores, "eval_accuracy": 0.1, "eval_balanced_accuracy": 0.7},
        ]
        write(tmp_path, name, test={"model": fair}, history=history)

    lines = make_trainings_section(tmp_path).splitlines()
    effort = "1.24 M parameters, 1.5 epochs, 2 minutes on one core"
    for line in (
        f"| two genera, random split | {effort} | 0.940, 0.990 | 0.910, 0.970 |  |",
        f"| contigs of five species, 100 to 518,565 bases | {effort} | 0.850, 0.980 |  |  |",
        "| from scratch | 2 | 0.850 ± 0.071 | 0.950 ± 0.000 |",
        "| k-mer regression | 2 | 0.910 ± 0.000 | 0.970 ± 0.000 |",
        "| softmax | 2 | 94.00 ± 0.00 |  |",
        "| Luna | 2 | 85.00 ± 7.07 | 99.46 |",
        "| ridge | 2 | 91.00 ± 0.00 |  |",
        "| Adult, accuracy | 2 | 0.940 ± 0.000 | 0.850 ± 0.071 | 0.910 ± 0.000 (trees) |",
        "| ChordMixer | 0.400 | 3.500 |",
        "| Markov | 0.375 | 3.600 |",
        f"| 200, 4,096 tokens per step | {effort} | 99.50% | 10.00% |",
        f"| adding | 2,048 | none | {effort} | 99.50% | 10.00% |",
        f"| temporal order | 2,048 | learned | {effort} | 99.90% | 25.00% |",
        "| `mix_rotate` |  | 0.940, 0.990 |  |  |",
        "| `alternating` | 0.400 | 3.500 |",
        "| `chordmixer-microbes`, on from there | 0.375 | 3.600 |",
        "| `chordmixer-microbes`, on from there, both strands | 0.400 | 3.500 |",
        "| the model of the first table | 0.900 | 0.960 |",
        "| alternating rotation, 15% of the bases masked | 0.800 | 0.960 |",
    ):
        assert line in lines
    assert not any("pre-trained on" in line for line in lines)
    remark = "contigs are cut for training and evaluated whole, by balanced accuracy"
    assert f"95% bootstrap intervals are in the files; {remark}." in lines
    assert "![adding problem](images/adding.png)" in lines


def test_trained_models_are_shown_next_to_regressions_and_on_other_data(tmp_path):
    assert "Not run yet." in make_zoo_section(tmp_path)
    scores = dict.fromkeys(("accuracy", "balanced_accuracy", "roc_auc"), 0.9)
    model = with_interval(overall(**scores))
    other = with_interval(overall(**scores | {"roc_auc": 0.5}))
    test = {"model": model, "codon": other, "average": model}
    write(tmp_path, "genus45_microbes_encoders", test=test)
    write(tmp_path, "genus12_microbes_combiner", test={"model": model})
    write(tmp_path, "contigs5_microbes", test={"model": model, "kmer": other})
    frozen = {"neighbours_accuracy": 0.5, "probe_accuracy": 0.6, "clusters_nmi": 0.7}
    write(tmp_path, "genus45_frozen_microbes", test={"4-mers": frozen, "model": frozen})
    lines = make_zoo_section(tmp_path).splitlines()
    scores = "0.900 | [0.800, 0.950] | 0.900 | 0.524 (published) | 0.900 | 0.900"
    assert f"| 45 genera | chordmixer-microbes-large | 1 | {scores} | 2 min |" in lines
    assert any(line.startswith("| twelve genera | combiner-microbes | 1 | 0.900") for line in lines)
    assert "| 4-mers | 0.500 | 0.600 | 0.700 |" in lines
    assert "| chordmixer-microbes | 0.500 | 0.600 | 0.700 |" in lines
    name = "chordmixer-microbes, k-mer part of both strands"
    assert f"| {name} | 0.900 | [0.800, 0.950] | 0.900 | 0.900 |" in lines
    assert "| k-mer regression | 0.900 | [0.800, 0.950] | 0.900 | 0.500 |" in lines


def test_what_was_compared_before_defaults_were_chosen_is_shown(tmp_path):
    assert make_sizes_section(tmp_path) == make_choices_section(tmp_path) == "Not run yet.\n"
    config = {"num_hidden_layers": 14, "track_size": 6, "intermediate_size": 48}
    config["max_position_embeddings"] = 16_384
    history = [{"step": 300}, {"step": 300, "train_runtime": 60.0}]
    write(tmp_path, "size_narrow", config=config, history=history, validation={"loss": 1.25})
    lines = make_sizes_section(tmp_path).splitlines()
    assert lines[-1] == "| narrow | 1.24 M | 14 | 6 | 48 | 16,384 | 1.2500 | 0.20 s |"
    write(tmp_path, "masks_codons", validation={"loss": 1.5})
    report = overall(accuracy=0.7, balanced_accuracy=0.8, roc_auc=0.9)
    for name in ("choice_genus12_layers", "choice_contigs_20"):
        write(tmp_path, name, validation=dict.fromkeys(("model", "kmer", "average"), report))
    lines = make_choices_section(tmp_path).splitlines()
    assert "| whole codons hidden | 1.5000 |" in lines
    assert any(line.endswith("at 0.7 of the rates above it | 0.700 | 0.900 |") for line in lines)
    assert "| at most 20 | 0.800 | 0.800 | 0.800 |" in lines


def test_classifiers_of_variants_stand_next_to_the_ratio_and_the_ceiling(tmp_path):
    assert make_planted_section(tmp_path) == "Not run yet.\n"
    values = {"accuracy": 0.9, "balanced_accuracy": 0.85, "roc_auc": 0.95}
    report = with_interval(overall(**values))
    test = dict.fromkeys(("model", "likelihood ratio", "k-mer difference", "ceiling"), report)
    write(tmp_path, "variants_scratch", test=test)
    lines = make_planted_section(tmp_path).splitlines()
    assert "| ChordMixer, from scratch | 0.900 | [0.800, 0.950] | 0.850 | 0.950 |" in lines
    assert "| likelihood ratio alone | 0.900 | [0.800, 0.950] | 0.850 | 0.950 |" in lines
    assert len(lines) == 6


def with_interval(report):
    for cell in report["overall"].values():
        cell |= {"low": 0.8, "high": 0.95}
    return report


def test_plots_are_drawn_of_what_is_recorded(tmp_path):
    assert draw_trainings(tmp_path, tmp_path) == []
    history = [{"epoch": 0.5, "loss": 0.1}, {"epoch": 1.0, "eval_within_tolerance": 0.9}]
    write(tmp_path, "adding_200", history=history)
    report = classification_report(np.eye(2)[[0, 1, 1, 0]], [0, 1, 0, 0], [5, 6, 7, 8])
    write(tmp_path, "contigs5", test={"model": report, "kmer": report})
    plots = draw_trainings(tmp_path, tmp_path)
    assert [path.name for path in plots] == ["contigs5.png", "adding.png"]
    assert all(path.stat().st_size > 1000 for path in plots)


def test_trainings_of_the_arena_stand_side_by_side(tmp_path):
    assert make_arena_section(tmp_path) == "Not run yet.\n"
    for model, score in (("chordmixer", 0.75), ("bert", 0.5)):
        for end, more in (("", 0.0), ("_pretrained", 0.1)):
            arena = {"task": "listops", "model": model, "score": score + more, "max_length": 500}
            arena |= {"seconds_per_step": score, "memory_mb": 100.0}
            test = {"constant": overall(accuracy=0.17)}
            test["constant"]["overall"]["accuracy"]["high"] = 0.19
            write(tmp_path, f"arena_listops_short_{model}{end}", arena=arena, test=test)
    section = make_arena_section(tmp_path)
    title = "| ListOps, 100 to 500 tokens"
    assert f"{title} | **75.0** |  |  |  | 50.0 |  | 17.0 |  |" in section
    assert f"{title}, self-pretrained | **85.0** |  |  |  | 60.0 |  | 17.0 |  |" in section
    assert f"{title} | 0.75 |  |  |  | **0.5** |  |" in section
    pictures = draw_arena(tmp_path, tmp_path)
    assert [picture.name for picture in pictures] == ["arena_listops_short.png"]
    assert pictures[0].exists()
    assert "(../images/arena_listops_short.png)" in section
    # nothing is best where no model is better than the most frequent answer
    test["constant"]["overall"]["accuracy"]["high"] = 0.75
    write(tmp_path, "arena_listops_short_chordmixer", arena=arena | {"score": 0.75}, test=test)
    assert f"{title} | 75.0 |  |  |  | 50.0 |  | 17.0 |  |" in make_arena_section(tmp_path)
