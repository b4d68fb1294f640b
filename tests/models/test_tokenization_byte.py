"""Bytes in, the same bytes out."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel

from hf_mixers.models.tokenization_byte import ByteTokenizer, spell_bytes

TOKENIZER = ByteTokenizer()


def test_byte_ids_follow_the_special_tokens():
    assert len(TOKENIZER) == TOKENIZER.vocab_size == 261
    assert TOKENIZER.encode_bytes(bytes(range(256))).tolist() == list(range(5, 261))


def test_spelling_is_that_of_the_backend():
    assert sorted(spell_bytes()) == sorted(ByteLevel.alphabet())
    for character in map(chr, [*range(0x800), 0x800, 0x4E2D, 0xFFFF, 0x10000, 0x10FFFF]):
        ids = TOKENIZER.backend_tokenizer.encode(character).ids
        assert ids == [byte + 5 for byte in character.encode()]


@given(st.text())
@example("🧬 naïve\r\n\ttext\0 [MASK] [mask] ▁Ġ ")
@example("  two  spaces , and don't . ")
def test_decoding_gives_any_text_back(text):
    ids = TOKENIZER(text).input_ids
    assert TOKENIZER.decode(ids) == text
    assert TOKENIZER.decode(TOKENIZER(text, split_special_tokens=True).input_ids) == text


@given(st.binary())
def test_decoding_gives_any_bytes_back(data):
    ids = TOKENIZER.encode_bytes(data)
    assert ids.dtype == np.int64
    assert TOKENIZER.decode_bytes(ids) == TOKENIZER.decode_bytes(ids.tolist()) == data


def test_text_and_its_bytes_have_the_same_ids():
    for text in ("", "plain", "naïve 🧬"):
        assert TOKENIZER.encode_bytes(text.encode()).tolist() == TOKENIZER(text).input_ids


def test_bytes_are_not_searched_for_special_tokens():
    assert len(TOKENIZER.encode_bytes(b"[MASK]")) == 6
    assert TOKENIZER.decode_bytes([2, 70, 4, 0]) == b"A"


def test_offsets_point_to_characters():
    encoding = TOKENIZER("aé🧬", return_offsets_mapping=True)
    assert encoding["offset_mapping"] == [(0, 1), (1, 2), (1, 2), *[(2, 3)] * 4]


@pytest.mark.parametrize("wrong", ["text", 3, [1, 2]])
def test_encode_bytes_accepts_bytes_only(wrong):
    with pytest.raises(ValueError, match="it accepts bytes"):
        TOKENIZER.encode_bytes(wrong)
