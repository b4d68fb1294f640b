"""`hf-mixers info` says what a checkpoint is, from a folder and from a Hub."""

import json
import os
import subprocess
import sys
import threading

import pytest

from hf_mixers import DnaTokenizer
from hf_mixers.reporting.describe import describe_checkpoint
from tests.cli.files import SMALL, read_metrics, write_genes
from tests.families import ROWS, every_family
from tests.hub.server import serve


def test_a_run_is_described(run, tmp_path):
    genes = write_genes(tmp_path / "genes.fa")
    words = ["--labels", r"pattern:\[(\w+)", "--epochs", 1, "--baselines", "none", *SMALL]
    done = run("finetune", genes, *words, "--set", "license=mit", "-o", tmp_path / "run")
    assert done.code == 0, done.error
    done = run("info", tmp_path / "run", "--json")
    assert done.code == 0, done.error
    found = json.loads(done.out)
    results = read_metrics(tmp_path / "run")
    assert found["model type"] == "chordmixer"
    assert found["class"] == "ChordMixerForSequenceClassification"
    assert found["parameters"] == f"{results['parameters']:,}"
    assert found["blocks"] == results["config"]["num_hidden_layers"]
    assert found["labels"] == ["Bos", "Sus"]
    assert found["tokenizer"] == "DnaTokenizer"
    assert found["lengths"] == "built for up to 64 tokens"
    assert found["trained on"] == "genes.fa"
    assert found["licence"] == "mit"
    accuracy = results["test"]["model"]["overall"]["accuracy"]["value"]
    assert any(f" {accuracy:.4g}" in one for one in found["results"])
    assert [one.split()[0] for one in found["versions"]] == ["hf_mixers", "torch", "transformers"]

    done = run("info", tmp_path / "run")
    lines = dict(line.split("  ", 1) for line in done.out.splitlines())
    assert {name: value.strip() for name, value in lines.items()}["labels"] == "Bos, Sus"
    assert len(lines) == len(found)


@every_family
def test_every_family_is_described_without_a_card(row, tmp_path):
    model = row.build("masked_lm")
    model.save_pretrained(tmp_path)
    found = describe_checkpoint(str(tmp_path))
    assert found["model type"] == row.name
    assert found["class"] == type(model).__name__
    assert found["input"] == f"input_ids, vocabulary of {model.config.vocab_size}"
    assert found["parameters"] == f"{model.num_parameters():,}"
    assert not {"labels", "tokenizer", "results", "licence"} & set(found)


@pytest.mark.parametrize(
    ("changes", "name", "text"),
    [
        ({"num_labels": 1, "problem_type": "regression"}, "labels", "a number"),
        ({"num_labels": 3, "problem_type": "regression"}, "labels", "3 numbers"),
        ({"num_labels": 21}, "labels", "21 classes"),
        ({"input_features": 5}, "input", "input_values, 5 features"),
        (
            {"position_embedding_type": "absolute", "max_position_embeddings": 9},
            "lengths",
            "up to 9 tokens, longer sequences are refused",
        ),
        ({"pooling": "flat", "max_position_embeddings": 9}, "lengths", "exactly 9 tokens"),
    ],
)
def test_labels_inputs_and_lengths_are_said_in_words(changes, name, text, tmp_path):
    row = next(row for row in ROWS if row.name == "paramixer")
    row.build("sequence_classification", **changes).save_pretrained(tmp_path)
    assert describe_checkpoint(str(tmp_path))[name] == text


@pytest.mark.processes
def test_a_repository_of_the_hub_is_described(tmp_path):
    server = serve(tmp_path / "hub")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("HF_")},
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_TOKEN": "hf_local",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HOME": str(tmp_path / "home"),
    }
    ROWS[0].build("sequence_classification").save_pretrained(tmp_path / "model")
    DnaTokenizer().save_pretrained(tmp_path / "model")
    command = [sys.executable, "-m", "hf_mixers.cli.main"]

    def call(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [*command, *words], env=environment, capture_output=True, text=True, timeout=300
        )

    try:
        pushed = call("publish", str(tmp_path / "model"), "local/mixer", "--yes")
        assert pushed.returncode == 0, pushed.stderr
        done = call("info", "local/mixer", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == describe_checkpoint(str(tmp_path / "model"))
        lost = call("info", "local/lost")
    finally:
        server.shutdown()
        server.server_close()
    assert lost.returncode == 1
    assert "error: 'local/lost' is neither the folder nor the name of a model." in lost.stderr
