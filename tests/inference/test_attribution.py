"""Attributions equal brute force: gradients of one sequence at a time, and every single change."""

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
)
from typer.testing import CliRunner

from hf_mixers import ChordMixerConfig, ChordMixerForSequenceClassification, DnaTokenizer
from hf_mixers.cli.main import app
from hf_mixers.inference import attribute
from hf_mixers.inference.outputs import PartedOutput
from tests.inference.conftest import SMALL
from tests.inference.test_run import run

TEXTS = [("a", "ACGTTGNACG"), ("b", "GGC"), ("c", "T"), ("d", "ACNNRTGCATTTACG")]


@pytest.fixture(scope="module")
def model(classifier):
    return AutoModelForSequenceClassification.from_pretrained(classifier).eval()


@pytest.fixture(scope="module")
def ngram_model():
    torch.manual_seed(4)
    settings = {**SMALL, "ngram_size": 3, "letter_token_ids": [5, 6, 7, 8], "num_labels": 3}
    return ChordMixerForSequenceClassification(ChordMixerConfig(**settings)).eval()


def logits_of(model, text):
    with torch.no_grad():
        return model(**DnaTokenizer()(text, return_tensors="pt")).logits[0]


@pytest.mark.parametrize("budget", [1, 1000])
def test_gradient_x_input_is_that_of_each_sequence_alone(model, budget):
    found = attribute(model, TEXTS, tokenizer=DnaTokenizer(), token_budget=budget)
    for one, (name, text) in zip(found, TEXTS, strict=True):
        assert (one.id, one.sequence, len(one.values)) == (name, text, len(text))
        ids = DnaTokenizer()(text, return_tensors="pt").input_ids
        embeds = model.get_input_embeddings()(ids).detach().requires_grad_()
        logits = model(inputs_embeds=embeds).logits[0]
        (slope,) = torch.autograd.grad(logits.max(), embeds)
        assert one.values == pytest.approx((slope * embeds).sum(-1)[0].detach().numpy(), abs=1e-5)
        assert one.score == pytest.approx(float(logits.detach().max()), abs=1e-5)
        assert one.target == model.config.id2label[int(logits.argmax())]


@pytest.mark.parametrize("kind", ["plain", "ngrams"])
def test_integrated_gradients_sum_to_the_difference_from_unknown_bases(kind, model, ngram_model):
    model = model if kind == "plain" else ngram_model
    target = model.config.id2label[1]
    options = {"method": "integrated_gradients", "target": target, "steps": 64}
    found = list(attribute(model, TEXTS, tokenizer=DnaTokenizer(), **options))
    for one, (_, text) in zip(found, TEXTS, strict=True):
        difference = logits_of(model, text)[1] - logits_of(model, "N" * len(text))[1]
        assert one.values.sum() == pytest.approx(float(difference), abs=2e-3)
        # an unknown base is no change, unless a word around it is
        if kind == "plain":
            assert all(one.values[place] == 0 for place, c in enumerate(text) if c == "N")
    # the numbers are of some size
    assert max(abs(one.values).max() for one in found) > 0.01


def test_models_with_padding_give_the_same_in_any_batch():
    settings = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = BertConfig(vocab_size=20, hidden_size=8, num_labels=2, **settings)
    model = BertForSequenceClassification(config).eval()
    for method in ("integrated_gradients", "mutagenesis"):
        options = {"tokenizer": DnaTokenizer(), "method": method, "steps": 2}
        alone = attribute(model, TEXTS, token_budget=1, **options)
        for one, other in zip(alone, attribute(model, TEXTS, **options), strict=True):
            assert one.values == pytest.approx(other.values, abs=1e-5)
            assert abs(one.values).max() > 0


def test_tokens_that_are_no_bases_have_no_values(model):
    marked = DnaTokenizer(add_cls=True, add_sep=True)
    for method in ("gradient_x_input", "integrated_gradients", "mutagenesis"):
        for one in attribute(model, TEXTS, tokenizer=marked, method=method, steps=2):
            assert len(one.values) == len(one.sequence)


@pytest.mark.parametrize("budget", [7, 1000])
def test_mutagenesis_is_every_change_one_by_one(model, ngram_model, budget, monkeypatch):
    monkeypatch.setattr("hf_mixers.inference.engine.LOOK_AHEAD", 2)
    for one_model in (model, ngram_model):
        options = {"tokenizer": DnaTokenizer(), "token_budget": budget, "method": "mutagenesis"}
        for one in attribute(one_model, TEXTS[1:3], **options):
            target = int(logits_of(one_model, one.sequence).argmax())
            before = float(logits_of(one_model, one.sequence)[target])
            expected = np.zeros((len(one.sequence), 4))
            for place in range(len(one.sequence)):
                for base, letter in enumerate("ACGT"):
                    text = one.sequence[:place] + letter + one.sequence[place + 1 :]
                    expected[place, base] = float(logits_of(one_model, text)[target]) - before
            assert one.effects == pytest.approx(expected, abs=1e-5)
            assert one.values == pytest.approx(-expected.sum(1) / 3, abs=1e-5)
    (one,) = attribute(model, TEXTS[:1], **options)
    assert not one.effects[6].any()


def test_wrong_settings_are_named(classifier, model):
    for options, message in (
        ({"method": "guess"}, "method must be one of gradient_x_input, integrated_gradients, "),
        ({"target": "cow"}, "target must be one of cat, dog, owl, got 'cow'"),
        ({"steps": 0}, "steps=0 was given"),
    ):
        with pytest.raises(ValueError, match=message):
            next(attribute(classifier, ["ACGT"], **options))
    config = ChordMixerConfig(**SMALL, kmer_size=2, letter_token_ids=[5, 6, 7, 8])
    counting = ChordMixerForSequenceClassification(config)
    with pytest.raises(ValueError, match="counts k-mers, which have no gradient"):
        next(attribute(counting, ["ACGT"], tokenizer=DnaTokenizer()))
    (one,) = attribute(counting, ["ACGT"], tokenizer=DnaTokenizer(), method="mutagenesis")
    assert one.effects.any()
    bad, good = attribute(model, [("x", "AC*"), ("y", "AC")], tokenizer=DnaTokenizer())
    assert (bad.values, bad.note) == (None, "letter '*'")
    assert good.note == ""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["integrated_gradients", "mutagenesis"])
def test_predict_writes_tracks_and_a_picture(method, classifier, tmp_path, quiet):
    fasta = tmp_path / "a.fa"
    fasta.write_text("".join(f">{name}\n{text}\n" for name, text in [*TEXTS, ("e", "AC*")]))
    words = ("--attribute", method, "--target", "owl")
    run("predict", classifier, fasta, "-o", tmp_path / "out.tsv", *words)
    lines = (tmp_path / f"out.tsv.{method}.bedgraph").read_text().splitlines()
    assert lines[0].startswith("track type=bedGraph")
    expected = [
        (one.id, str(place), str(place + 1), value)
        for one in attribute(classifier, TEXTS, method=method, target="owl")
        for place, value in enumerate(one.values)
    ]
    assert len(lines) == len(expected) + 1
    for line, (name, start, end, value) in zip(lines[1:], expected, strict=True):
        fields = line.split("\t")
        assert fields[:3] == [name, start, end]
        assert float(fields[3]) == pytest.approx(value, rel=1e-4, abs=1e-6)
    assert (tmp_path / f"out.tsv.{method}.png").stat().st_size > 5000
    with pytest.raises(ValueError, match="--attribute writes files next to that of --output"):
        run("predict", classifier, fasta, "--attribute", method)
    for word, message in (("--rc-average", "not of both strands"), ("--compile", "exclude each")):
        with pytest.raises(ValueError, match=message):
            run("predict", classifier, fasta, "-o", tmp_path / "b.tsv", *words, word)
    with pytest.raises(ValueError, match="--target requires --attribute"):
        run("predict", classifier, fasta, "--target", "owl")


def test_a_killed_attribution_goes_on_and_gives_the_same_files(
    classifier, tmp_path, quiet, monkeypatch
):
    fasta = tmp_path / "a.fa"
    fasta.write_text("".join(f">{name}\n{text}\n" for name, text in [*TEXTS, ("e", "AC*")]))
    words = ("predict", classifier, fasta, "--attribute", "mutagenesis")
    run(*words, "-o", tmp_path / "whole.tsv")
    write, written = PartedOutput.write, []

    def fail_at_times(self, number, rows, counts):
        written.append(number)
        if len(written) % 2 == 0:
            raise KeyboardInterrupt
        write(self, number, rows, counts)

    monkeypatch.setattr(PartedOutput, "write", fail_at_times)
    for _ in range(20):
        if run(*words, "-o", tmp_path / "killed.tsv").exit_code == 0:
            break
        assert not list(tmp_path.glob("killed.tsv.mutagenesis.*"))
    # every record is a part of its own, and none is computed again
    kept = [number for position, number in enumerate(written, 1) if position % 2]
    assert sorted(kept) == list(range(len(TEXTS) + 1))
    for ending in ("", ".mutagenesis.bedgraph", ".mutagenesis.png"):
        one, other = (tmp_path / f"{name}.tsv{ending}" for name in ("whole", "killed"))
        assert one.read_bytes() == other.read_bytes()
    assert not (tmp_path / "killed.tsv.parts").exists()


def test_attributions_of_standard_input_and_of_nothing(classifier, tmp_path, quiet):
    words = ["predict", classifier, "-", "--attribute", "gradient_x_input", "-o"]
    for name, text, lines in (("a", ">a\nACGT\n", 5), ("b", ">a\nAC*T\n", 1)):
        target = tmp_path / f"{name}.tsv"
        assert CliRunner().invoke(app, [*words, str(target)], input=text).exit_code == 0
        track = tmp_path / f"{name}.tsv.gradient_x_input.bedgraph"
        assert len(track.read_text().splitlines()) == lines
        assert track.with_suffix(".png").exists() == (lines > 1)
