"""Predictions equal those of the model alone, whatever budget, shard, order or file."""

import json
import shutil

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from hf_mixers import (
    ChordMixerConfig,
    ChordMixerForMaskedLM,
    ChordMixerForSequenceClassification,
    ChordMixerForSequencePairClassification,
    ChordMixerForTokenClassification,
    ChordMixerModel,
    DnaTokenizer,
)
from hf_mixers.data import load_embedded
from hf_mixers.inference import attribute, embed, predict
from hf_mixers.models.dna import reverse_complement

from .conftest import SMALL, save


def probabilities(folder, text):
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    inputs = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        return model(**inputs).logits.softmax(-1)[0]


@pytest.mark.parametrize("budget", [1, 100, 10_000])
def test_predictions_are_those_of_each_sequence_alone(classifier, sequences, fasta, budget):
    found = list(predict(classifier, fasta, token_budget=budget))
    assert [(one.id, one.length) for one in found] == [(n, len(text)) for n, text in sequences]
    for one, (_, text) in list(zip(found, sequences, strict=True))[::9]:
        expected = probabilities(classifier, text)
        assert list(one.scores.values()) == pytest.approx(expected.tolist(), abs=1e-5)
        assert one.label == ["cat", "dog", "owl"][int(expected.argmax())]
        assert one.probability == pytest.approx(float(expected.max()), abs=1e-5)


def test_both_strands_are_averaged(classifier, sequences):
    name, text = sequences[10]
    (one,) = predict(classifier, [(name, text)], rc_average=True)
    strands = [probabilities(classifier, strand) for strand in (text, reverse_complement(text))]
    assert list(one.scores.values()) == pytest.approx((sum(strands) / 2).tolist(), abs=1e-5)


def test_what_cannot_be_read_has_a_note_and_no_label(classifier):
    records = [("a", "ACGT"), ("b", ""), ("c", "AC*T"), ("d", "NNNN"), ("e", "GG")]
    found = list(predict(classifier, records))
    assert [one.note for one in found] == ["", "no sequence", "letter '*'", "no known base", ""]
    assert [one.label is None for one in found] == [False, True, True, False, False]
    with pytest.raises(ValueError, match=r"Record 'c' cannot be read: letter '\*'"):
        list(predict(classifier, records[2:], strict=True))


def test_a_checkpoint_without_the_head_is_refused(masked_lm):
    with pytest.raises(ValueError, match="cannot classify: it holds ChordMixerForMaskedLM"):
        next(predict(masked_lm, ["ACGT"]))
    with pytest.raises(ValueError, match="is not the folder or Hub name of a model"):
        next(predict("/nowhere/at/all", ["ACGT"]))


@pytest.mark.parametrize(
    "kind",
    [
        ChordMixerForTokenClassification,
        ChordMixerForSequencePairClassification,
        ChordMixerForMaskedLM,
        ChordMixerModel,
    ],
)
def test_heads_of_other_kinds_are_refused(kind, tmp_path):
    # weights of a head for tokens or for pairs may have the shapes of one for sequences
    model = kind(ChordMixerConfig(**SMALL, num_labels=3))
    with pytest.raises(
        ValueError, match=f"ForSequenceClassification is accepted, got {kind.__name__}"
    ):
        predict(model, ["ACGT"], tokenizer=DnaTokenizer())
    with pytest.raises(ValueError, match=f"cannot classify: it holds {kind.__name__}"):
        predict(save(model, tmp_path), ["ACGT"])
    with pytest.raises(ValueError, match="ForSequenceClassification is accepted"):
        attribute(model, ["ACGT"], tokenizer=DnaTokenizer())


def test_damaged_checkpoints_are_named(classifier, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(classifier, model)
    weights = (model / "model.safetensors").read_bytes()
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"intermediate_size": 16}))
    with pytest.raises(ValueError, match="has no weights that can be read and fit its config"):
        predict(str(model), ["ACGT"])
    (model / "config.json").write_text(json.dumps(config))
    for content in (weights[: len(weights) // 2], b"nothing", None):
        (model / "model.safetensors").unlink()
        if content is not None:
            (model / "model.safetensors").write_bytes(content)
        with pytest.raises(ValueError, match="has no weights that can be read"):
            predict(str(model), ["ACGT"])


def test_numbers_and_several_labels_are_predicted_too():
    torch.manual_seed(0)
    for problem, labels in (("regression", 1), ("multi_label_classification", 3)):
        config = ChordMixerConfig(**SMALL, num_labels=labels, problem_type=problem)
        model = ChordMixerForSequenceClassification(config)
        (one,) = predict(model, ["ACGTAC"], tokenizer=DnaTokenizer())
        assert len(one.scores) == labels
        assert one.probability is None
        if problem == "regression":
            assert one.label == pytest.approx(one.scores["LABEL_0"])


def test_wrong_settings_are_named(classifier):
    with pytest.raises(ValueError, match="token_budget=0 was given"):
        next(predict(classifier, ["ACGT"], token_budget=0))
    with pytest.raises(ValueError, match="dtype must be one of float32"):
        next(predict(classifier, ["ACGT"], dtype="int3"))


@pytest.fixture(scope="module")
def by_codon(tmp_path_factory):
    """A classifier that counts words of three letters by codon position."""
    kmers = {"kmer_size": 3, "kmer_phases": 3, "kmer_hidden_size": 8}
    model = ChordMixerForSequenceClassification(ChordMixerConfig(**SMALL, **kmers, num_labels=2))
    return save(model, tmp_path_factory.mktemp("by_codon"))


@pytest.mark.parametrize(
    ("turn", "both_strands", "words"),
    [
        (False, False, None),
        (True, False, "no genes that begin with their first codon"),
        (False, True, "the average of both strands is worse"),
    ],
)
def test_sequences_out_of_the_reading_frame_are_told(by_codon, caplog, turn, both_strands, words):
    genes = load_embedded().select(range(0, 9000, 90))["sequence"][:]
    records = [
        (str(number), reverse_complement(gene) if turn else gene)
        for number, gene in enumerate(genes)
    ]
    for call in (
        lambda: predict(by_codon, records, rc_average=both_strands),
        lambda: embed(by_codon, records, pooling="cls", rc_average=both_strands),
    ):
        caplog.clear()
        assert len(list(call())) == len(records)
        assert caplog.text.count("codon") == (0 if words is None else 1)
        assert words is None or words in caplog.text
    # the mean over tokens has no share of the words
    caplog.clear()
    list(embed(by_codon, records[:5], pooling="mean"))
    assert "codon" not in caplog.text


def test_sequences_without_a_word_have_a_note(by_codon):
    found = list(predict(by_codon, [("a", "AC"), ("b", "ACG")]))
    assert [one.note for one in found] == [
        "shorter than the words of 3 letters that the model counts",
        "",
    ]
