"""Predictions equal those of the model alone, whatever budget, shard, order or file."""

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from hf_mixers import ChordMixerConfig, ChordMixerForSequenceClassification, DnaTokenizer
from hf_mixers.inference import predict
from hf_mixers.models.dna import reverse_complement

from .conftest import SMALL


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
