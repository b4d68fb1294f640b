"""The standard pipelines of transformers with every family."""

import pytest
import torch
from transformers import pipeline

from hf_mixers import DnaTokenizer
from tests.families import every_family

SEQUENCES = ["ACGTACGTTTGACA", "GG", "ACGNNNRYACGTAAAAAAAACCCCGGTT"]


def save(row, head, folder, **changes):
    row.build(head, **changes).save_pretrained(folder)
    DnaTokenizer().save_pretrained(folder)
    return str(folder)


@every_family
def test_fill_mask_proposes_bases(row, tmp_path):
    fill = pipeline("fill-mask", save(row, "masked_lm", tmp_path))
    answers = fill("ACG[MASK]TTGA", top_k=3)
    assert len(answers) == 3
    assert all(answer["sequence"].replace(" ", "").startswith("ACG") for answer in answers)
    assert answers[0]["score"] >= answers[1]["score"]


@every_family
@pytest.mark.parametrize("batch_size", [1, 3])
def test_text_classification_names_the_labels_whatever_the_batch(row, tmp_path, batch_size):
    folder = save(row, "sequence_classification", tmp_path, id2label={0: "Bos", 1: "Sus"})
    classify = pipeline("text-classification", folder, top_k=None)
    answers = classify(SEQUENCES, batch_size=batch_size)
    for answer, sequence in zip(answers, SEQUENCES, strict=True):
        assert {entry["label"] for entry in answer} == {"Bos", "Sus"}
        alone = {entry["label"]: entry["score"] for entry in classify([sequence])[0]}
        together = {entry["label"]: entry["score"] for entry in answer}
        assert together == pytest.approx(alone, abs=1e-5)


@every_family
def test_feature_extraction_gives_one_vector_per_base(row, tmp_path):
    extract = pipeline("feature-extraction", save(row, "model", tmp_path), return_tensors=True)
    features = extract(SEQUENCES)
    for vectors, sequence in zip(features, SEQUENCES, strict=True):
        assert vectors.shape == (1, len(sequence), row.config().hidden_size)
        assert torch.isfinite(vectors).all()


@every_family
def test_token_classification_labels_every_base(row, tmp_path):
    label = pipeline("token-classification", save(row, "token_classification", tmp_path))
    answers = label(SEQUENCES[0], ignore_labels=[])
    assert [answer["word"] for answer in answers] == list(SEQUENCES[0])
    assert [answer["start"] for answer in answers] == list(range(len(SEQUENCES[0])))
