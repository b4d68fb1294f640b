"""Every example explains itself, runs in seconds with --smoke, and leaves what it promises."""

import csv
import json

import pytest
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, pipeline

from hf_mixers.data import load_embedded
from tests.examples.example_runs import FOLDER, SCRIPTS, check_run, load
from tests.families import every_family, one_family

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_help_names_every_option(script, capsys):
    with pytest.raises(SystemExit) as stop:
        load(script.stem).main(["--help"])
    assert stop.value.code == 0
    assert "--" in capsys.readouterr().out


@one_family
def test_classification_smoke_run_leaves_a_model_that_a_pipeline_loads(row, tmp_path, quiet):
    script = load("finetune_classification")
    settings = json.dumps({**row.small, "max_position_embeddings": 12_189})
    results = script.main(
        ["--smoke", "--output_dir", str(tmp_path), "--family", row.name, "--settings", settings]
    )
    check_run(tmp_path, results)
    with open(tmp_path / "predictions.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == results["test"]["model"]["count"]
    assert float(rows[0]["score_Clostridium"]) + float(
        rows[0]["score_Mycoplasma"]
    ) == pytest.approx(1, abs=1e-4)
    assert set(results["test"]) == {"model", "kmer"}
    answers = load("classify_fasta").main(
        ["--model", str(tmp_path), "--fasta", str(FOLDER / "genes.fa")]
    )
    assert len(answers) == 12
    assert {answer["label"] for answer in answers} <= {"Clostridium", "Mycoplasma"}


@one_family
def test_pretraining_smoke_run_can_be_fine_tuned_and_probed(row, tmp_path, quiet):
    script = load("pretrain_mlm")
    settings = json.dumps({**row.small, "max_position_embeddings": 400})
    results = script.main(
        [
            "--smoke",
            "--output_dir",
            str(tmp_path / "mlm"),
            "--family",
            row.name,
            "--settings",
            settings,
        ]
    )
    check_run(tmp_path / "mlm", results)
    assert results["test"]["model"]["overall"]["perplexity"]["value"] > 1
    with open(tmp_path / "mlm" / "predictions.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == results["test"]["model"]["count"] == 10
    assert all(int(row["correct"]) <= int(row["masked"]) < int(row["length"]) for row in rows)
    accuracy = sum(int(row["correct"]) for row in rows) / sum(int(row["masked"]) for row in rows)
    assert results["test"]["model"]["overall"]["accuracy"]["value"] == pytest.approx(accuracy)
    seen = [entry["eval_accuracy"] for entry in results["history"] if "eval_accuracy" in entry]
    assert seen == [pytest.approx(accuracy)], "the same masks"
    assert "base frequency" in results["test"]
    guess = pipeline("fill-mask", str(tmp_path / "mlm"))("ACG[MASK]ACG", top_k=2)
    assert len(guess) == 2
    pretrained = AutoModelForMaskedLM.from_pretrained(tmp_path / "mlm")
    for frozen in ("true", "false"):
        folder = tmp_path / f"tuned-{frozen}"
        load("finetune_classification").main(
            [
                "--smoke",
                "--output_dir",
                str(folder),
                "--checkpoint",
                str(tmp_path / "mlm"),
                "--frozen",
                frozen,
                "--baselines",
                "none",
                "--train_fraction",
                "0.5",
                # with it, the blocks may stay as they are because that is better
                "--head_start",
                "false",
            ]
        )
        tuned = AutoModelForSequenceClassification.from_pretrained(folder)
        same = [
            bool((a == b).all())
            for a, b in zip(tuned.model.parameters(), pretrained.model.parameters(), strict=True)
        ]
        assert all(same) == (frozen == "true")


@every_family
def test_adding_problem_smoke_run(row, tmp_path, quiet):
    results = load("adding_problem").main(
        ["--smoke", "--output_dir", str(tmp_path), "--family", row.name]
    )
    check_run(tmp_path, results)
    assert (tmp_path / "scatter.png").exists()
    assert (tmp_path / "by_length.png").exists()
    assert set(results["test"]) == {"model", "always 0.5"}
    header = (tmp_path / "predictions.csv").read_text().splitlines()[0]
    assert header == "length,target,prediction"


def test_longer_adding_goes_on_from_shorter(tmp_path, quiet):
    run, first, second = load("adding_problem").main, tmp_path / "first", tmp_path / "second"
    settings = '{"track_size": 3, "max_position_embeddings": 500, "pre_norm": "layer"}'
    run(["--smoke", "--output_dir", str(first), "--settings", settings])
    start = ["--checkpoint", str(first), "--train_token_budget", "4000"]
    results = run(["--smoke", "--output_dir", str(second), *start])
    assert results["config"]["track_size"] == 3
    assert results["config"]["max_position_embeddings"] == 500
    begin, end = (AutoModelForSequenceClassification.from_pretrained(f) for f in (first, second))
    moved = begin.model.layers[0].mix.fc1.weight - end.model.layers[0].mix.fc1.weight
    assert 0 < moved.abs().max() < 0.1, "a few steps move the first model a little"


@every_family
@pytest.mark.parametrize("task", ["adding", "temporal_order"])
def test_fixed_length_smoke_run(row, task, tmp_path, quiet):
    results = load("fixed_length_tasks").main(
        ["--smoke", "--task", task, "--output_dir", str(tmp_path), "--family", row.name]
    )
    check_run(tmp_path, results)
    assert results["config"]["max_position_embeddings"] == 128
    metric = {"adding": "within_tolerance", "temporal_order": "accuracy"}[task]
    assert all(0 <= report["overall"][metric]["value"] <= 1 for report in results["test"].values())
    assert results["test"]["model"]["count"] == 16


def test_fixed_length_tasks_are_those_of_the_paper(tmp_path, quiet):
    script = load("fixed_length_tasks")
    for task, length, residual in (
        ("adding", 128, "previous"),
        ("temporal_order", 8192, "previous"),
        ("temporal_order", 16384, "initial"),
    ):
        config = script.build_model(script.Options(task=task), length).config
        assert config.pooling == "flat"
        assert (config.max_position_embeddings, config.residual_mode) == (length, residual)
        assert (config.hidden_size, config.intermediate_size) == (32, 32)
    with pytest.raises(ValueError, match="--task must be one of adding, temporal_order, got 'xor'"):
        script.main(["--task", "xor", "--output_dir", str(tmp_path)])
    with pytest.raises(ValueError, match=r"family must be one of chordmixer.*, got 'xor'"):
        script.main(["--smoke", "--family", "xor", "--output_dir", str(tmp_path)])


def test_genomes_are_classified_with_the_published_settings(tmp_path, quiet):
    script = load("finetune_classification")
    options = ["--smoke", "--output_dir", str(tmp_path), "--family", "paramixer"]
    options += ["--preset", "genome", "--settings", '{"max_position_embeddings": 512}']
    with pytest.raises(ValueError, match="2 of 9617 examples have other letters than AGCTU: rec"):
        script.main(options)
    options += ["--bad_records", "drop"]
    results = script.main(options)
    check_run(tmp_path, results)
    config = AutoModelForSequenceClassification.from_pretrained(tmp_path).config
    assert (config.pooling, config.position_embedding_type) == ("flat", "absolute")
    assert (config.hidden_size, config.intermediate_size, config.num_factors) == (32, 128, 9)
    assert (config.vocab_size, config.pad_token_id) == (5, 4)
    # a folder of its own: the results of a smoke run are replaced by the next
    turned = ["--reverse_complement", "true", "--output_dir", str(tmp_path / "turned")]
    with pytest.raises(ValueError, match="would move the padding of flat pooling"):
        script.main([*options, *turned])

    # the saved model answers as it did: cut, padded, nothing masked
    with open(tmp_path / "predictions.csv") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    genes = [gene for gene in load_embedded() if gene["id"] in rows]
    fasta = tmp_path / "genes.fa"
    fasta.write_text("".join(f">{gene['id']}\n{gene['sequence'].lower()}\n" for gene in genes))
    classify = load("classify_fasta").main
    answers = classify(["--model", str(tmp_path), "--fasta", str(fasta)])
    for gene, answer in zip(genes, answers, strict=True):
        expected = float(rows[gene["id"]][f"score_{answer['label']}"])
        assert answer["score"] == pytest.approx(expected, abs=1e-4)
    fasta.write_text(">a\nACGT\n>b\nACNT\n")
    with pytest.raises(ValueError, match=r"1 of 2 .* record 'b' has 'N' at position 2"):
        classify(["--model", str(tmp_path), "--fasta", str(fasta)])
    drop = ["--bad_records", "drop"]
    assert len(classify(["--model", str(tmp_path), "--fasta", str(fasta), *drop])) == 1


def test_strands_are_turned_with_ids_that_are_known(tmp_path, quiet):
    options = ["--smoke", "--output_dir", str(tmp_path), "--family", "paramixer", "--preset"]
    options += ["genome_with_n", "--settings", '{"pooling": "mean"}']
    with pytest.raises(ValueError, match="requires ids of DnaTokenizer, got GenomeTokenizer"):
        load("finetune_classification").main([*options, "--reverse_complement", "true"])


def test_own_data_are_read_split_and_scored(tmp_path, quiet):
    for number, name in enumerate(("cats", "dogs")):
        (tmp_path / "data" / name).mkdir(parents=True)
        with open(tmp_path / "data" / name / "genes.fa", "w") as file:
            for i in range(60):
                file.write(f">{name}{i}\n{'ACGT'[number] * (20 + i)}{'ACGT' * 5}\n")
    results = load("finetune_classification").main(
        [
            "--data",
            str(tmp_path / "data"),
            "--label_from",
            "folder",
            "--num_train_epochs",
            "4",
            "--output_dir",
            str(tmp_path / "run"),
            "--baselines",
            "none",
            "--class_weights",
            "true",
            "--settings",
            '{"track_size": 4, "intermediate_size": 16, "pre_norm": "layer"}',
            "--reverse_complement",
            "true",
            "--token_dropout",
            "0.1",
            "--train_token_budget",
            "512",
        ]
    )
    assert results["test"]["model"]["overall"]["accuracy"]["value"] > 0.9
    assert results["test"]["model"]["count"] == 18
    assert results["options"]["data"]["token_dropout"] == 0.1


@pytest.mark.parametrize(("labels", "names"), [("2 5", ["2", "5"]), ("b a", ["a", "b"])])
def test_classes_of_a_table_are_numbers_or_text(labels, names, tmp_path, quiet):
    rows = [f"{'ACGT' * 6}{'ACGT'[i % 2] * i},{labels.split()[i % 2]}" for i in range(60)]
    (tmp_path / "genes.csv").write_text("\n".join(["sequence,kind", *rows]))
    options = ["--data", str(tmp_path / "genes.csv"), "--label_column", "kind"]
    options += ["--num_train_epochs", "1", "--baselines", "none"]
    settings = '{"track_size": 4, "intermediate_size": 8}'
    script = load("finetune_classification")
    words = [*options, "--settings", settings, "--output_dir", str(tmp_path / "run")]
    results = script.main(words)
    assert results["config"]["id2label"] == dict(enumerate(names))

    numbers = "\n".join(["sequence,kind", *(row.split(",")[0] + ",0.5" for row in rows)])
    (tmp_path / "genes.csv").write_text(numbers)
    with pytest.raises(ValueError, match="Labels must be classes"):
        script.main([*options, "--output_dir", str(tmp_path / "other")])


def test_settings_that_are_no_json_are_refused_in_one_sentence(tmp_path, quiet):
    for settings in ("{track_size: 3}", "[3]"):
        with pytest.raises(ValueError, match="settings must be"):
            load("finetune_classification").main(
                ["--smoke", "--output_dir", str(tmp_path), "--settings", settings]
            )
