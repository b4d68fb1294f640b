"""Every option of `predict` and `embed` does what it says; errors are a sentence and code 1."""

import functools
import gzip
import io
import json
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from hf_mixers.inference import embed, predict, read_records

GENBANK = """LOCUS       {name}              {length} bp    DNA     linear   BCT 01-JAN-2000
DEFINITION  a test.
ACCESSION   {name}
VERSION     {name}.1
SOURCE      a test
  ORGANISM  Testus testus
            Bacteria.
FEATURES             Location/Qualifiers
ORIGIN
{lines}
//
"""


def test_genbank_and_gzip_on_standard_input_are_read(tmp_path, sequences, monkeypatch):
    plain = [(name, text.upper()) for name, text in sequences[:3]]
    records = [
        GENBANK.format(name=name, length=len(text), lines=f"        1 {text.lower()}")
        for name, text in plain
    ]
    (tmp_path / "a.gb").write_text("".join(records))
    found = [(one.id, one.sequence.upper()) for one in read_records(tmp_path / "a.gb")]
    assert found == [(f"{name}.1", text) for name, text in plain]
    fasta = "".join(f">{name}\n{text}\n" for name, text in sequences).encode()
    stream = io.TextIOWrapper(io.BytesIO(gzip.compress(fasta)))
    monkeypatch.setattr(sys, "stdin", stream)
    assert [(one.id, one.sequence) for one in read_records("-")] == sequences
    for damaged in (gzip.compress(fasta)[:40], b"\x1f\x8b\x08" + b"\x07" * 40, b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(damaged)))
        with pytest.raises(ValueError, match=r"standard input is (cut short|empty)"):
            list(read_records("-"))


def test_a_device_and_a_dtype_are_used(run, classifier, fasta, tmp_path):
    whole = {one.id: one.probability for one in predict(classifier, fasta)}
    output = tmp_path / "half.parquet"
    words = ("predict", classifier, fasta, "-o", output, "--dtype", "bfloat16", "--device", "cpu")
    assert run(*words).code == 0
    table = pd.read_parquet(output)
    difference = np.abs(table["probability"].to_numpy() - np.array([*whole.values()]))
    assert 0 < difference.max() < 0.02


@pytest.mark.slow
def test_a_compiled_model_gives_the_same(run, masked_lm, tmp_path, monkeypatch):
    compile_module = torch.nn.Module.compile
    calls = []

    @functools.wraps(compile_module)
    def compile_quickly(self, **options):
        calls.append(options)
        compile_module(self, backend="eager", **options)

    monkeypatch.setattr(torch.nn.Module, "compile", compile_quickly)
    source = tmp_path / "a.fa"
    source.write_text(">a\nACGTAC\n>b\nGG\n")
    assert run("embed", masked_lm, source, "-o", tmp_path / "e.npy", "--compile").code == 0
    assert calls == [{"dynamic": True}]
    expected = np.stack([one.vector for one in embed(masked_lm, ["ACGTAC", "GG"])])
    assert np.abs(np.load(tmp_path / "e.npy") - expected).max() < 1e-5


def test_vectors_per_token_go_to_parquet(run, masked_lm, tmp_path):
    (tmp_path / "a.fa").write_text(">a\nACGT\n>b\nAC*T\n>c\nGG\n")
    words = ("embed", masked_lm, tmp_path / "a.fa", "--pooling", "none", "--layer", "1")
    assert run(*words, "-o", tmp_path / "e.parquet").code == 0
    table = pd.read_parquet(tmp_path / "e.parquet")
    assert table["vector"][1] is None
    expected = [one.vector for one in embed(masked_lm, ["ACGT", "GG"], layer=1, pooling="none")]
    for row, vectors in zip((0, 2), expected, strict=True):
        assert np.abs(np.stack(table["vector"][row]) - vectors).max() < 1e-5


def test_errors_are_a_sentence_and_notes_are_counted(run, classifier, masked_lm, tmp_path):
    source, output = tmp_path / "a.fa", tmp_path / "a.tsv"
    source.write_text(">a\nACGT\n>b\nAC*T\n>c\nAC-T\n>d\nNN\n")
    done = run("predict", classifier, source, "--strict", "-o", output)
    assert (done.code, [path.name for path in tmp_path.iterdir()]) == (1, ["a.fa"])
    assert done.error.startswith("error: Record 'b' cannot be read: letter '*'.\n")
    (tmp_path / "empty.csv").write_text("id,sequence\n")
    done = run("predict", classifier, tmp_path / "empty.csv", "-o", output)
    assert (done.code, output.with_name("a.tsv.parts").exists()) == (1, False)
    done = run("predict", masked_lm, source, "-o", output)
    assert done.code == 1
    assert "cannot classify: it holds ChordMixerForMaskedLM" in done.error
    assert run("predict", classifier, source, "-o", output).code == 0
    summary = json.loads((tmp_path / "a.tsv.summary.json").read_text())
    assert summary["notes"] == {"other letters": 2, "no known base": 1}
    assert (summary["records"], summary["tokens"]) == (4, 6)
    done = run("predict", classifier, source)
    counts = {"other letters": 2, "no known base": 1, "records": 4, "tokens": 6}
    assert (done.code, json.loads(done.error)) == (0, counts)
    assert len(done.out.splitlines()) == 5


def test_a_folder_whose_name_is_letters_is_read(run, classifier, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reads").mkdir()
    (tmp_path / "reads" / "a.fa").write_text(">a\nACGT\n")
    for words in ((), ("-o", "out.tsv")):
        done = run("predict", classifier, "reads", *words)
        assert done.code == 0
        text = done.out if not words else (tmp_path / "out.tsv").read_text()
        assert text.splitlines()[1].startswith("a\t4\t")


@pytest.mark.parametrize("device", ["nonsense", "cpu:x", "ipu"])
def test_a_device_that_is_not_there_is_named(run, classifier, fasta, device):
    done = run("predict", classifier, fasta, "--device", device)
    assert (done.code, done.out) == (1, "")
    assert done.error.startswith(f"error: There is no device '{device}' here: ")
