"""`hf-mixers pretrain`: windows of genomes, records held out, and a model to fine-tune."""

import pytest
import yaml
from transformers import pipeline

from hf_mixers import CharTokenizer, ChordMixerConfig, ChordMixerForMaskedLM, DnaTokenizer
from tests.cli.files import SMALL, numbers_of, read_metrics, write_genome

QUICK = ("--window", 50, 64, "--windows", 20, "--epochs", 1, "--set", "num_eval_windows=5")


@pytest.fixture
def genome(tmp_path):
    return write_genome(tmp_path / "genome.fa")


def test_a_language_model_is_trained_and_the_run_repeated(run, genome, tmp_path):
    words = ["pretrain", genome, "--held-out", "plasmid", "--mask", 0.2, *QUICK, *SMALL]
    done = run(*words, "--seed", 3, "--set", "markov_order=1", "-o", tmp_path / "a")
    assert done.code == 0, done.error
    assert "2 records, 3,300 bases; held out: plasmid" in done.out
    results = read_metrics(tmp_path / "a")
    guessers = {"model", "model, both strands", "base frequency", "Markov, 1 bases each side"}
    assert set(results["test"]) == guessers
    assert results["options"]["data"]["mask_probability"] == 0.2
    assert results["config"]["track_size"] == 4
    assert len(pipeline("fill-mask", str(tmp_path / "a"))("ACG[MASK]", top_k=3)) == 3
    saved = yaml.safe_load((tmp_path / "a" / "run.yaml").read_text())
    assert saved["data"]["window"] == [50, 64]

    done = run("pretrain", "--config", tmp_path / "a" / "run.yaml", "-o", tmp_path / "b")
    assert done.code == 0, done.error
    assert numbers_of(results) == numbers_of(read_metrics(tmp_path / "b"))


def test_runs_of_bases_are_hidden(run, genome, tmp_path):
    found = []
    for span in ("[1, 1]", "[2, 5]"):
        words = ["--set", f"mask_span={span}", "--held-out", "plasmid", "--tokens", 256]
        done = run("pretrain", genome, *words, *QUICK, *SMALL, "-o", tmp_path / span[1])
        assert done.code == 0, done.error
        found.append(read_metrics(tmp_path / span[1])["test"])
    # the same single bases are guessed, by another model
    assert found[0]["base frequency"] == found[1]["base frequency"]
    assert found[0]["model"] != found[1]["model"]
    done = run("pretrain", genome, "--set", "mask_span=[2, 1]", *QUICK, "-o", tmp_path / "none")
    assert "mask_span must be a length or the shortest and the longest" in done.error


def test_another_family_is_named(run, genome, tmp_path):
    words = ["--model", "paramixer", "--set", "hidden_size=8", "--set", "intermediate_size=8"]
    done = run("pretrain", genome, *QUICK, *words, "-o", tmp_path / "run")
    assert done.code == 0, done.error
    assert read_metrics(tmp_path / "run")["config"]["model_type"] == "paramixer"


def test_a_checkpoint_goes_on_learning_with_its_own_settings(run, genome, tmp_path):
    done = run("pretrain", genome, *QUICK, *SMALL, "-o", tmp_path / "first")
    assert done.code == 0, done.error
    words = ["--model", tmp_path / "first", "--learning-rate", 1e-9, "--set", "token_dropout=0.1"]
    done = run("pretrain", genome, *QUICK, *words, "-o", tmp_path / "second")
    assert done.code == 0, done.error
    first, second = (read_metrics(tmp_path / name) for name in ("first", "second"))
    assert second["config"] == {**first["config"], "token_dropout": 0.1}
    card = (tmp_path / "second" / "README.md").read_text()
    assert "It started from" in card
    # steps that small change nothing
    scores = [one["test"]["model"]["overall"]["perplexity"]["value"] for one in (first, second)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)


def test_a_checkpoint_of_another_alphabet_or_for_shorter_windows_is_refused(run, genome, tmp_path):
    CharTokenizer("ACGT").save_pretrained(tmp_path / "characters")
    absolute = {"position_embedding_type": "absolute", "max_position_embeddings": 32}
    config = ChordMixerConfig(track_size=4, intermediate_size=8, vocab_size=20, **absolute)
    for folder in ("characters", "short"):
        ChordMixerForMaskedLM(config).save_pretrained(tmp_path / folder)
    DnaTokenizer().save_pretrained(tmp_path / "short")
    for folder, message in (
        ("characters", "has a CharTokenizer: a model with a DnaTokenizer is accepted."),
        ("short", "reads at most 32 bases: windows of up to 64 were asked for."),
    ):
        words = ["--model", tmp_path / folder, "-o", tmp_path / f"from_{folder}"]
        done = run("pretrain", genome, *QUICK, *words)
        assert done.code == 1
        assert message in done.error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "window=[50]"], "window is the shortest and the longest, got [50]."),
        (["--set", "num_window=3"], "'num_window' is not a setting of this command; did you mean"),
        (["--held-out", "phage"], "phage"),
        (["--set", "markov_order=30"], "order must be from 0 to 6, got 30"),
        (["--held-out", "plasmid", "--held-out", "chromosome"], "All records are held out"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(words, message, run, genome, tmp_path):
    done = run("pretrain", genome, *QUICK, *SMALL, *words, "-o", tmp_path / "run")
    assert done.code == 1
    assert message in done.error
    assert done.error.strip().splitlines()[-2].startswith("error: ")
