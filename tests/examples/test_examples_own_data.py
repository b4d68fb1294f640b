"""Fine-tuning on one's own data: parts that are missing, bad records, other classes."""

import pytest
from datasets import Dataset

from hf_mixers import DnaTokenizer
from hf_mixers.data import SplitOptions
from hf_mixers.recipes.labelled_dna import DataOptions, leave_out_seen, load_parts
from tests.examples.example_runs import load
from tests.families import ROWS

pytestmark = pytest.mark.slow

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


def test_a_validation_part_that_is_missing_is_drawn(tmp_path, caplog, quiet):
    caplog.set_level("INFO", "hf_mixers")
    data = write_rows(tmp_path / "rows.csv", parts=("train",) * 20 + ("test",) * 5)
    results = finetune(tmp_path / "run", *data, "--baselines", "kmer")
    assert "The data have no validation part: 6 rows are drawn for it." in caplog.messages
    assert results["test"]["model"]["count"] == results["test"]["kmer"]["count"] == 10


def test_rows_to_train_on_are_missed_before_training(tmp_path, quiet):
    data = write_rows(tmp_path / "rows.csv", ("test",) * 9)
    with pytest.raises(ValueError, match="There are no rows to train on, only for test"):
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
        cut_training=120,
        cut_rounds=2,
    )
    parts = load_parts(options, SplitOptions(split_column="part"))
    assert max(parts["train"]["length"]) < 220 < 300 < min(parts["test"]["length"])
    assert sum(parts["train"]["length"]) == 2 * sum(300 + number for number in range(16))
    with pytest.raises(ValueError, match="cut_rounds requires cut_training"):
        DataOptions(cut_rounds=2)
    with pytest.raises(ValueError, match="cut_pieces requires cut_training"):
        DataOptions(cut_pieces=2)
    with pytest.raises(ValueError, match="cut_pieces must be at least 1, got 0"):
        DataOptions(cut_training=100, cut_pieces=0)


def test_reads_take_the_place_of_the_sequences_of_all_parts(tmp_path):
    parts = ("train",) * 8 + ("val",) * 2 + ("test",) * 2
    write_rows(tmp_path / "rows.csv", parts, letters=300)
    given = {"data": [str(tmp_path / "rows.csv")], "label_column": "kind"}
    options = DataOptions(**given, read_length=50, reads_per_sequence=3)
    whole = load_parts(DataOptions(**given), SplitOptions(split_column="part"))
    drawn = [load_parts(options, SplitOptions(split_column="part"), seed=seed) for seed in (0, 1)]
    for reads in drawn:
        for part, rows in reads.items():
            assert len(rows) == 3 * len(whole[part])
            assert set(rows["length"]) == {50}
    assert drawn[0]["test"][:] == drawn[1]["test"][:]
    assert drawn[0]["train"][:] != drawn[1]["train"][:]
    with pytest.raises(ValueError, match="reads_per_sequence requires read_length"):
        DataOptions(reads_per_sequence=2)
    with pytest.raises(ValueError, match="read_length=0 and reads_per_sequence=1"):
        DataOptions(**given, read_length=0)


def test_bad_and_short_records_are_left_out_if_asked_for(tmp_path, caplog, quiet):
    for name, base in (("cats", "A"), ("dogs", "C")):
        (tmp_path / "data" / name).mkdir(parents=True)
        records = "".join(f">{name}{i}\n{'ACGT' * 4}{base * (i + 1)}\n" for i in range(12))
        records += f">{name}-short\nA\n>{name}-odd\nACGT*\n>{name}0\nACGTACGT\n"
        (tmp_path / "data" / name / "genes.fa").write_text(records)
    data = ["--data", str(tmp_path / "data"), "--label_from", "folder", "--baselines", "none"]
    with pytest.raises(ValueError, match="cats-odd"):
        finetune(tmp_path / "run", *data)
    answers = ["--bad_records", "drop", "--duplicate_ids", "drop", "--min_length", "8"]
    results = finetune(tmp_path / "run", *data, *answers)
    assert results["options"]["data"]["min_length"] == 8
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


def test_a_checkpoint_keeps_its_tokenizer(tmp_path, quiet):
    data = write_rows(tmp_path / "rows.csv", ("train",) * 8 + ("val",) * 2 + ("test",) * 2)
    start = ROWS[0].build("sequence_classification", pooling="first", id2label={0: "ant", 1: "bee"})
    start.save_pretrained(tmp_path / "start")
    DnaTokenizer(add_cls=True).save_pretrained(tmp_path / "start")
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


FINETUNE = "finetune_classification"


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (FINETUNE, ["--checkpoint", "x", "--preset", "y"], "not for a checkpoint"),
        (FINETUNE, ["--frozen", "true"], "frozen requires a checkpoint"),
        (FINETUNE, ["--genbank_task", "Sus_Bos"], "genbank_task requires data"),
        (FINETUNE, ["--label_from", "folder"], "label_from requires data"),
        (
            FINETUNE,
            ["--data", "x", "--genbank_task", "Sus_Bos", "--label_column", "y"],
            "genbank_task sets its own classes: label_column must not be given",
        ),
        (
            FINETUNE,
            ["--split_column", "split", "--group_column", "species"],
            "split_column and group_column were given: one of them is accepted",
        ),
        ("pretrain_mlm", ["--held_out", "x"], "held_out requires genomes"),
        ("adding_problem", ["--checkpoint", "x", "--settings", '{"a": 1}'], "not for --checkpoint"),
    ],
)
def test_options_that_would_do_nothing_are_refused(name, arguments, message, quiet):
    with pytest.raises(ValueError, match=message):
        load(name).main(arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "finetune_classification",
            ["--baselines", "kmers"],
            "kmer, codon, .* and none, got 'kmers'",
        ),
        ("finetune_classification", ["--train_fraction", "2"], "fraction=2.0 was given"),
        ("pretrain_mlm", ["--markov_order", "30"], "order must be from 0 to 6, got 30"),
        ("pretrain_mlm", ["--window", "300"], r"the shortest and the longest, got \[300\]"),
    ],
)
def test_wrong_options_stop_a_run_before_it_trains(name, arguments, message, tmp_path, quiet):
    with pytest.raises(ValueError, match=message):
        load(name).main([*arguments, "--output_dir", str(tmp_path / "run")])
    left = {path.name for path in (tmp_path / "run").glob("*")}
    assert left <= {"run.lock"}, "this process has taken the folder, and written nothing to it"


def test_test_rows_that_are_not_scored_are_counted(caplog):
    rows = Dataset.from_dict(
        {"id": ["a", "b", "c"], "seen": [True, False, None], "kind": ["x"] * 3}
    )
    assert leave_out_seen(rows, "seen", "test")["id"][:] == ["b", "c"]
    assert "1 of 3 test rows are not scored: seen." in caplog.messages
    for column in ("lost", "kind"):
        with pytest.raises(ValueError, match=f"true and false, got '{column}': there are id, seen"):
            leave_out_seen(rows, column, "test")
    with pytest.raises(ValueError, match="leaves no validation row"):
        leave_out_seen(rows.select([0]), "seen", "validation")
