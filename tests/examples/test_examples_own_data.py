"""Fine-tuning on one's own data: parts that lack, bad records, other classes."""

import numpy as np
import pytest
from datasets import Dataset
from transformers import AutoModelForImageClassification

from hf_mixers import DnaTokenizer, MrsFormerConfig
from hf_mixers.data.other import PixelScaler
from hf_mixers.recipes.labelled_dna import DataOptions, leave_out_seen, load_parts
from hf_mixers.recipes.targets import Classes
from tests.examples.example_runs import load
from tests.families import ROWS

SMALL = '{"track_size": 4, "intermediate_size": 8}'


def write_rows(path, parts=("train",) * 8 + ("test",) * 4, classes=("cat", "dog"), letters=9):
    """A table of sequences, each row with its part and class."""
    rows = []
    for number, part in enumerate(part for part in parts for _ in range(2)):
        sequence = "ACGT"[number % 2] * (letters + number)
        rows.append(f"r{number},{sequence},{classes[number % len(classes)]},{part}")
    path.write_text("\n".join(["id,sequence,kind,part", *rows]) + "\n")
    return ["--data", str(path), "--label_column", "kind", "--split_column", "part"]


def finetune(folder, *arguments):
    options = ["--num_train_epochs", "1", "--output_dir", str(folder), *arguments]
    if "--checkpoint" not in arguments:
        options += ["--settings", SMALL]
    return load("finetune_classification").main(options)


def test_a_validation_part_that_lacks_is_drawn(tmp_path, capsys, quiet):
    data = write_rows(tmp_path / "rows.csv", parts=("train",) * 20 + ("test",) * 5)
    results = finetune(tmp_path / "run", *data, "--baselines", "kmer")
    assert "a tenth of the training part is drawn" in capsys.readouterr().out
    assert results["test"]["model"]["count"] == results["test"]["kmer"]["count"] == 10


def test_a_part_that_cannot_be_drawn_is_missed_before_training(tmp_path, quiet):
    for parts in (("train",) * 9, ("test",) * 9):
        data = write_rows(tmp_path / "rows.csv", parts)
        with pytest.raises(SystemExit, match="'part' names no rows for training or none for test"):
            finetune(tmp_path / "run", *data)


def test_a_class_that_training_lacks_does_not_stop_the_baselines(tmp_path, quiet):
    parts = ("train",) * 12 + ("val",) * 2 + ("test",) * 2
    data = write_rows(tmp_path / "rows.csv", parts)
    text = (tmp_path / "rows.csv").read_text().splitlines()
    text[-1] = text[-1].replace("dog", "zebra")
    (tmp_path / "rows.csv").write_text("\n".join(text) + "\n")
    results = finetune(tmp_path / "run", *data, "--baselines", "kmer", "cnn")
    assert results["config"]["id2label"] == {0: "cat", 1: "dog", 2: "zebra"}
    assert set(results["test"]) == {"model", "kmer", "cnn"}


def test_long_sequences_are_cut_for_training_alone(tmp_path):
    parts = ("train",) * 8 + ("val",) * 2 + ("test",) * 2
    write_rows(tmp_path / "rows.csv", parts, letters=300)
    options = DataOptions(
        data=[str(tmp_path / "rows.csv")],
        label_column="kind",
        split_column="part",
        cut_training=120,
        cut_rounds=2,
    )
    parts = load_parts(options, 0, "test", False)
    assert max(parts["train"]["length"]) < 220 < 300 < min(parts["test"]["length"])
    assert sum(parts["train"]["length"]) == 2 * sum(300 + number for number in range(16))
    with pytest.raises(SystemExit, match="--cut_rounds needs --cut_training"):
        DataOptions(cut_rounds=2)


def test_bad_and_short_records_are_left_out_if_asked_for(tmp_path, caplog, quiet):
    for name in ("cats", "dogs"):
        (tmp_path / "data" / name).mkdir(parents=True)
        records = "".join(f">{name}{i}\n{'ACGT' * 4}\n" for i in range(12))
        records += f">{name}-short\nA\n>{name}-odd\nACGT*\n>{name}0\nACGTACGT\n"
        (tmp_path / "data" / name / "genes.fa").write_text(records)
    data = ["--data", str(tmp_path / "data"), "--label_from", "folder", "--baselines", "none"]
    with pytest.raises(ValueError, match="cats-odd"):
        finetune(tmp_path / "run", *data)
    answers = ["--bad_records", "drop", "--duplicate_ids", "drop", "--min_length", "8"]
    results = finetune(tmp_path / "run", *data, *answers)
    assert results["options"]["DataOptions"]["min_length"] == 8
    fasta = str(tmp_path / "data" / "cats" / "genes.fa")
    given = ["--model", str(tmp_path / "run"), "--fasta", fasta]
    assert len(load("classify_fasta").main([*given, *answers[:4]])) == 12


def test_a_task_of_the_paper_is_read_by_its_name(tmp_path, quiet):
    genera = ("Carassius", "Labeo")
    rows = [f"{genera[i % 2]},{'ACGT' * 9}{'ACGT'[i % 2] * i},{36 + i}" for i in range(40)]
    path = tmp_path / "Carassius_Labeo_all.csv"
    path.write_text("\n".join(["genus,sequence,len", *rows]) + "\n")
    task = ["--data", str(path), "--genbank_task", "Carassius_Labeo", "--baselines", "none"]
    results = finetune(tmp_path / "run", *task)
    assert results["config"]["id2label"] == dict(enumerate(genera))


def test_a_checkpoint_keeps_its_tokenizer_and_gets_a_head_for_other_classes(tmp_path, quiet):
    data = write_rows(tmp_path / "rows.csv", ("train",) * 8 + ("val",) * 2 + ("test",) * 2)
    start = ROWS[0].build("sequence_classification", pooling="first", id2label={0: "ant", 1: "bee"})
    start.save_pretrained(tmp_path / "start")
    DnaTokenizer(add_cls=True).save_pretrained(tmp_path / "start")
    run = load("finetune_classification")
    for names, is_kept in (
        (("ant", "bee"), True),
        (("cat", "dog"), False),
        (("x", "y", "z"), False),
    ):
        options = run.CheckpointOptions(checkpoint=str(tmp_path / "start"))
        fields = Classes(names).config_fields()
        model = run.load_checkpoint(options, fields)
        assert (model.model.embed_tokens.weight == start.model.embed_tokens.weight).all()
        assert model.classifier.out_features == len(names)
        if len(names) == 2:
            assert bool((model.classifier.weight == start.classifier.weight).all()) == is_kept
    checkpoint = ["--checkpoint", str(tmp_path / "start"), "--baselines", "none"]
    finetune(tmp_path / "run", *data, *checkpoint)
    tokenizer = DnaTokenizer.from_pretrained(tmp_path / "run")
    assert tokenizer("AC").input_ids == [2, 5, 6]


def test_sequences_longer_than_a_model_are_named_before_it_runs(tmp_path, quiet):
    data = write_rows(tmp_path / "rows.csv", ("train",) * 8 + ("val",) * 2 + ("test",) * 2)
    limits = {"max_position_embeddings": 20, "position_embedding_type": "absolute"}
    start = ROWS[0].build("sequence_classification", **limits)
    start.save_pretrained(tmp_path / "start")
    DnaTokenizer().save_pretrained(tmp_path / "start")
    with pytest.raises(ValueError, match="'r12' has 21 tokens: at most 20 are accepted"):
        finetune(tmp_path / "run", *data, "--checkpoint", str(tmp_path / "start"))
    (tmp_path / "x.fa").write_text(f">short\nACGT\n>long\n{'ACGT' * 6}\n")
    given = ["--model", str(tmp_path / "start"), "--fasta", str(tmp_path / "x.fa")]
    with pytest.raises(ValueError, match="record 'long' has 24 letters: at most 20 are accepted"):
        load("classify_fasta").main(given)
    assert len(load("classify_fasta").main([*given, "--bad_records", "drop"])) == 1


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("finetune_classification", ["--checkpoint", "x", "--settings", "{}"], "not for --check"),
        ("finetune_classification", ["--checkpoint", "x", "--preset", "y"], "not for --check"),
        ("finetune_classification", ["--frozen", "true"], "--frozen needs --checkpoint"),
        ("finetune_classification", ["--genbank_task", "Sus_Bos"], "--data must name"),
        ("finetune_classification", ["--label_from", "folder"], "--data must name"),
        (
            "finetune_classification",
            ["--data", "x", "--genbank_task", "Sus_Bos", "--label_column", "y"],
            "goes without --label_column",
        ),
        (
            "finetune_classification",
            ["--split_column", "split", "--group_column", "species"],
            "one of them splits",
        ),
        ("pretrain_mlm", ["--held_out", "x"], "names records of --genomes"),
        ("adding_problem", ["--checkpoint", "x", "--settings", '{"a": 1}'], "not for --checkpoint"),
    ],
)
def test_options_that_would_do_nothing_are_refused(name, arguments, message, quiet):
    with pytest.raises(SystemExit, match=message):
        load(name).main(arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("finetune_classification", ["--baselines", "kmers"], "kmer, cnn and none, got 'kmers'"),
        ("finetune_classification", ["--train_fraction", "2"], "fraction=2.0 was given"),
        ("pretrain_mlm", ["--markov_order", "30"], "order must be from 0 to 6, got 30"),
        ("pretrain_mlm", ["--window", "300"], r"the shortest and the longest, got \[300\]"),
    ],
)
def test_wrong_options_stop_a_run_before_it_trains(name, arguments, message, tmp_path, quiet):
    with pytest.raises((SystemExit, ValueError), match=message):
        load(name).main([*arguments, "--output_dir", str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()


def test_test_rows_that_are_not_scored_are_counted(capsys):
    rows = Dataset.from_dict(
        {"id": ["a", "b", "c"], "seen": [True, False, None], "kind": ["x"] * 3}
    )
    assert leave_out_seen(rows, "seen")["id"][:] == ["b", "c"]
    assert "1 of 3 test rows are not scored: seen." in capsys.readouterr().out
    for column in ("lost", "kind"):
        with pytest.raises(SystemExit, match=f"true and false, got '{column}': there are id, seen"):
            leave_out_seen(rows, column)
    with pytest.raises(SystemExit, match="leaves no test row"):
        leave_out_seen(rows.select([0]), "seen")


def test_a_run_without_matplotlib_ends_before_it_begins(tmp_path, monkeypatch, quiet):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="need matplotlib: pip install"):
        load("adding_problem").main(["--smoke", "--output_dir", str(tmp_path)])


def test_colour_pictures_are_prepared_by_an_image_processor():
    script = load("image_sequence")
    scaler = PixelScaler("picture", [10.0, 20.0, 30.0], [51.0, 102.0, 255.0])
    config = MrsFormerConfig(image_size=8, patch_size=2)
    model = AutoModelForImageClassification.from_config(config)
    processor = script.make_processor(model, scaler)
    pixels = (255 * np.random.default_rng(0).random((8, 8, 3))).astype("uint8")
    given = processor(pixels, return_tensors="np")["pixel_values"][0]
    assert given == pytest.approx(scaler.scale(pixels.transpose(2, 0, 1)), abs=1e-5)
    assert script.make_processor(model, PixelScaler("picture", [1.0], [2.0])) is None
