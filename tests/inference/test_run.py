"""Runs to files: complete or absent, resumed without loss or repetition, equal in shards."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from datasets import load_dataset
from typer.testing import CliRunner

from hf_mixers.cli.main import app
from hf_mixers.cli.process import show_log
from hf_mixers.inference import engine, outputs


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch, quiet):
    # several parts of few records
    monkeypatch.setattr(engine, "LOOK_AHEAD", 2)


@pytest.mark.slow
def test_tables_hold_every_record_in_order(classifier, fasta, sequences, tmp_path):
    arguments = ("predict", classifier, fasta, "--token-budget", 300, "--all-scores", "--top", 2)
    run(*arguments, "-o", tmp_path / "a.tsv")
    run(*arguments, "-o", tmp_path / "a.parquet")
    text = pd.read_csv(tmp_path / "a.tsv", sep="\t", keep_default_na=False)
    table = pd.read_parquet(tmp_path / "a.parquet")
    assert list(text["id"]) == list(table["id"]) == [name for name, _ in sequences]
    scores = table[["score_cat", "score_dog", "score_owl"]].to_numpy()
    assert np.allclose(scores.sum(1), 1, atol=1e-5)
    assert np.allclose(np.sort(scores)[:, -2], table["probability_2"], atol=1e-6)
    summary = json.loads((tmp_path / "a.tsv.summary.json").read_text())
    assert summary["records"] == len(sequences)
    assert not (tmp_path / "a.tsv.parts").exists()


@pytest.mark.slow
def test_a_killed_run_goes_on_and_gives_the_same_bytes(classifier, fasta, tmp_path, monkeypatch):
    arguments = ("predict", classifier, fasta, "--token-budget", 300)
    run(*arguments, "-o", tmp_path / "whole.tsv")
    write = outputs.PartedOutput.write
    written = []

    def fail_at_times(self, number, rows, counts):
        written.append(number)
        if len(written) % 4 == 0:
            raise KeyboardInterrupt
        write(self, number, rows, counts)

    monkeypatch.setattr(outputs.PartedOutput, "write", fail_at_times)
    for _ in range(40):
        try:
            if run(*arguments, "-o", tmp_path / "killed.tsv").exit_code == 0:
                break
        except KeyboardInterrupt:
            assert not (tmp_path / "killed.tsv").exists()
    assert (tmp_path / "killed.tsv").read_bytes() == (tmp_path / "whole.tsv").read_bytes()
    # a part that was written is not computed again
    done = [number for position, number in enumerate(written, 1) if position % 4]
    assert len(done) == len(set(done))


def test_shards_together_are_the_whole(classifier, fasta, tmp_path):
    run("predict", classifier, fasta, "-o", tmp_path / "whole.tsv")
    lines = []
    for index in range(3):
        path = tmp_path / f"{index}.tsv"
        run("predict", classifier, fasta, "-o", path, "--shard", f"{index}/3")
        lines += path.read_text().splitlines()[1:]
    whole = (tmp_path / "whole.tsv").read_text().splitlines()[1:]
    assert sorted(line.split("\t")[:3] for line in lines) == sorted(
        line.split("\t")[:3] for line in whole
    )


def test_embeddings_go_to_parquet_or_to_a_matrix_with_names(masked_lm, fasta, sequences, tmp_path):
    run("embed", masked_lm, fasta, "-o", tmp_path / "e.npy", "--token-budget", 300)
    run("embed", masked_lm, fasta, "-o", tmp_path / "e.parquet", "--token-budget", 5000)
    matrix = np.load(tmp_path / "e.npy")
    table = pd.read_parquet(tmp_path / "e.parquet")
    names = (tmp_path / "e.ids.txt").read_text().split()
    assert names == list(table["id"]) == [name for name, _ in sequences]
    assert np.abs(matrix - np.stack(table["vector"])).max() < 1e-5


def test_results_are_not_overwritten_or_mixed(classifier, fasta, tmp_path, monkeypatch):
    target = tmp_path / "a.tsv"
    run("predict", classifier, fasta, "-o", target)
    with pytest.raises(ValueError, match="is there already: --overwrite writes it again"):
        run("predict", classifier, fasta, "-o", target)
    run("predict", classifier, fasta, "-o", target, "--overwrite")

    def stop(self, number, rows, counts):
        raise KeyboardInterrupt

    monkeypatch.setattr(outputs.PartedOutput, "write", stop)
    other = tmp_path / "b.tsv"
    assert run("predict", classifier, fasta, "-o", other).exit_code != 0
    with pytest.raises(ValueError, match="holds parts of a run with other settings or input"):
        run("predict", classifier, fasta, "-o", other, "--rc-average")


def test_files_of_other_endings_are_refused_before_anything_is_read(classifier, masked_lm, fasta):
    with pytest.raises(ValueError, match=r"a.xlsx must end in .tsv, .parquet"):
        run("predict", classifier, fasta, "-o", "a.xlsx")
    with pytest.raises(ValueError, match=r"a.npy must end in .parquet"):
        run("embed", masked_lm, fasta, "-o", "a.npy", "--pooling", "none")
    with pytest.raises(ValueError, match="--shard takes 0/n to n-1/n, got '3/3'"):
        run("predict", classifier, fasta, "--shard", "3/3")


def test_standard_output_gets_lines(classifier, fasta, sequences):
    lines = run("predict", classifier, fasta).stdout.splitlines()
    assert lines[0].split("\t") == ["id", "length", "label", "probability", "note"]
    assert [line.split("\t")[0] for line in lines[1:]] == [name for name, _ in sequences]


@pytest.mark.parametrize("name", ["a.tsv", "a.parquet"])
def test_a_shard_without_records_is_a_table_without_rows(name, classifier, fasta, tmp_path):
    done = run("predict", classifier, fasta, "-o", tmp_path / name, "--shard", "900/901")
    assert done.stdout.startswith("0 records are in")
    read = pd.read_parquet if name == "a.parquet" else lambda path: pd.read_csv(path, sep="\t")
    table = read(tmp_path / name)
    assert (len(table), list(table.columns)[:2]) == (0, ["id", "length"])
    assert {path.name for path in tmp_path.iterdir()} == {name, f"{name}.summary.json"}


def test_shards_of_few_records_are_one_table(classifier, tmp_path):
    source = tmp_path / "few.fa"
    source.write_text(">a\nACGT\n>b\nGG\n")
    (tmp_path / "answers").mkdir()
    for index in range(3):
        target = tmp_path / "answers" / f"part-{index}.parquet"
        run("predict", classifier, source, "-o", target, "--shard", f"{index}/3")
        run("embed", classifier, source, "-o", tmp_path / f"{index}.npy", "--shard", f"{index}/3")
    # as examples/cluster/predict_array.sbatch says
    files = str(tmp_path / "answers" / "*.parquet")
    table = load_dataset("parquet", data_files=files, cache_dir=str(tmp_path / "cache"))["train"]
    assert list(table["id"]) == ["a", "b"]
    vectors = np.concatenate([np.load(tmp_path / f"{index}.npy") for index in range(3)])
    assert len(vectors) == 2


def test_parts_of_another_column_or_config_are_refused(classifier, tmp_path, monkeypatch):
    model, source = tmp_path / "model", tmp_path / "a.csv"
    shutil.copytree(classifier, model)
    source.write_text("sequence,other\nACGT,GG\n")

    def stop(self, number, rows, counts):
        raise KeyboardInterrupt

    monkeypatch.setattr(outputs.PartedOutput, "write", stop)
    words = ("predict", model, source, "-o", tmp_path / "a.tsv")
    assert run(*words).exit_code != 0
    with pytest.raises(ValueError, match="holds parts of a run with other settings or input"):
        run(*words, "--sequence-column", "other")
    config = json.loads((model / "config.json").read_text())
    config["id2label"]["0"] = "cow"
    (model / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="holds parts of a run with other settings or input"):
        run(*words)


def test_what_is_said_is_not_in_the_results(classifier, tmp_path, kept_log):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.fa").write_text(">a\nACGT\n")
    (folder / "notes.txt").write_text("nothing")
    show_log()
    done = run("predict", classifier, folder)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["id", "a"]
    assert "1 files are not read as sequences" in done.stderr
    (folder / "a.fa").write_text("")
    result = CliRunner().invoke(app, ["predict", classifier, str(folder)])
    assert (result.stdout, str(result.exception)) == ("", f"{folder}/a.fa is empty.")
