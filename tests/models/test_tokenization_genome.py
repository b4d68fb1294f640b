"""The vocabulary of published genome classifiers: few letters, padding, and errors for the rest."""

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, pipeline

from hf_mixers import GenomeTokenizer, ParamixerConfig, save_with_code
from tests.families import find_row
from tests.models.tokenizer_cases import call_backend, was_looked_up


@pytest.mark.parametrize(
    ("preset", "letters", "ids"),
    [("genome", "AGCT", [0, 1, 2, 3]), ("genome_with_n", "AGCTN", [0, 1, 2, 3, 4])],
)
def test_ids_are_those_of_the_paper_and_of_the_preset(preset, letters, ids):
    tokenizer, config = GenomeTokenizer(letters), ParamixerConfig.preset(preset)
    assert tokenizer(letters).input_ids == tokenizer(letters.lower()).input_ids == ids
    assert tokenizer.pad_token_id == config.pad_token_id == len(letters)
    assert len(tokenizer) == config.vocab_size == len(letters) + 1
    assert tokenizer.decode(ids) == tokenizer.letters == letters
    assert tokenizer("uU").input_ids == [3, 3]
    assert tokenizer.all_special_tokens == ["[PAD]"]


@pytest.mark.parametrize("text", ["ACGN", "AC GT", "ACGT\n", "ACGTé", "ACG🧬", "AC[PAD]", "\ud800"])
def test_other_characters_are_an_error_on_every_way(text):
    tokenizer = GenomeTokenizer()
    for call in (
        lambda: tokenizer(text),
        lambda: tokenizer(["ACGT", text], padding=True, return_tensors="pt"),
        lambda: tokenizer("ACGT", text),
        lambda: tokenizer([["A", text]], is_split_into_words=True),
        lambda: tokenizer(text, return_offsets_mapping=True),
        lambda: tokenizer.encode(text),
        lambda: tokenizer.tokenize(text),
        lambda: call_backend(tokenizer, text),
    ):
        with pytest.raises(ValueError, match=r"was given .* at position \d+: it accepts AGCT and"):
            call()


def test_usual_calls_are_looked_up_and_agree_with_the_backend():
    tokenizer = GenomeTokenizer()
    options = {"padding": "max_length", "truncation": True, "max_length": 5, "return_tensors": "np"}
    batch = ["ACGTACGT", "gat", ""]
    encoding = tokenizer(batch, **options)
    assert was_looked_up(encoding)
    expected = [[0, 2, 1, 3, 0], [1, 0, 3, 4, 4], [4] * 5]
    assert np.array_equal(encoding["input_ids"], expected)
    assert np.array_equal(call_backend(tokenizer, batch, **options)["input_ids"], expected)


@pytest.mark.parametrize("letters", ["AGCTA", "AGC", "AGCTX", "agct", ""])
def test_wrong_letters_are_an_error(letters):
    with pytest.raises(ValueError, match=r"letters=.* was given: letters of .* are accepted"):
        GenomeTokenizer(letters)


def test_a_saved_folder_is_all_that_a_pipeline_needs(tmp_path):
    model = find_row("paramixer").build(
        "sequence_classification",
        **{"vocab_size": 6, "pad_token_id": 5, "pooling": "flat", "max_position_embeddings": 16},
    )
    tokenizer = GenomeTokenizer("AGCTN", model_max_length=16)
    tokenizer.model_input_names = ["input_ids"]
    save_with_code(tmp_path, model, tokenizer)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert (type(again), again.letters, len(again)) == (GenomeTokenizer, "AGCTN", 6)
    assert (again.model_max_length, again.model_input_names) == (16, ["input_ids"])
    assert (tmp_path / "tokenization_genome.py").exists()

    classify = pipeline("text-classification", str(tmp_path), top_k=None)
    answers = classify(["ACGTN", "GATTACA" * 9], padding="max_length", truncation=True)
    ids = torch.tensor([[0, 2, 1, 3, 4, *[5] * 11]])
    expected = model(ids).logits.softmax(-1)[0].tolist()
    scores = {answer["label"]: answer["score"] for answer in answers[0]}
    assert [scores[name] for name in model.config.id2label.values()] == pytest.approx(expected)
    with pytest.raises(ValueError, match="was given 'R' at position 2"):
        classify("ACR", padding="max_length")
