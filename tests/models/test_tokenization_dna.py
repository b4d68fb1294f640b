"""Bases, their ids and their reverse complement."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils import logging

from hf_mixers.models.dna import FIRST_NUCLEOTIDE_ID, NUCLEOTIDES, reverse_complement
from hf_mixers.models.tokenization_dna import DnaTokenizer, unify_spelling
from tests.models.tokenizer_cases import assert_paths_agree

PARTNERS = {
    "A": "T",
    "C": "G",
    "G": "C",
    "T": "A",
    "R": "Y",
    "Y": "R",
    "S": "S",
    "W": "W",
    "K": "M",
    "M": "K",
    "B": "V",
    "V": "B",
    "D": "H",
    "H": "D",
    "N": "N",
}
bases = st.text(alphabet=NUCLEOTIDES + NUCLEOTIDES.lower(), max_size=40)


@pytest.fixture(scope="module")
def tokenizer():
    return DnaTokenizer()


def test_vocabulary_is_fixed(tokenizer):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"ACGTNRYSWKMBDHV"]
    assert tokenizer.get_vocab() == {token: index for index, token in enumerate(tokens)}
    assert tokenizer.convert_tokens_to_ids(NUCLEOTIDES[0]) == FIRST_NUCLEOTIDE_ID


def test_case_makes_no_difference_and_u_is_t(tokenizer):
    text = NUCLEOTIDES + "U"
    expected = [*range(5, 20), 8]
    assert tokenizer(text).input_ids == expected
    assert tokenizer(text.lower()).input_ids == expected
    assert tokenizer(text.lower(), return_offsets_mapping=True).input_ids == expected


@pytest.mark.parametrize("character", [*">-.*XZ0[é中🧬\u0301\u017f\u0130\xa0\u2028\x85"])
def test_every_other_character_is_one_unknown_token(tokenizer, character):
    assert tokenizer(f"A{character}C").input_ids == [5, 1, 6]
    assert tokenizer(f"A{character}C", return_offsets_mapping=True)["offset_mapping"] == [
        (0, 1),
        (1, 2),
        (2, 3),
    ]


@pytest.mark.parametrize("space", [*" \t\n\r\v\f", "\r\n  "])
def test_white_space_is_dropped_and_others_keep_their_offsets(tokenizer, space, caplog):
    text = f"{space}A{space}C[MASK]{space}g\n"
    expected = [5, 6, 4, 7]
    assert tokenizer(text).input_ids == expected
    assert tokenizer([text, "AC"], padding=True).input_ids == [expected, [5, 6, 0, 0]]
    for texts in ([f"A{space}C", "G"], [f"A{space}C"]):
        assert_paths_agree(tokenizer, texts)
        assert_paths_agree(
            tokenizer, texts, padding="max_length", max_length=4, return_tensors="np"
        )
    found = tokenizer(text, return_offsets_mapping=True)
    assert found.input_ids == expected
    assert [text[a:b] for a, b in found["offset_mapping"]] == ["A", "C", "[MASK]", "g"]
    assert tokenizer(f"A{space}", f"{space}C").input_ids == [5, 6]


@pytest.fixture
def heard(caplog):
    """Warnings of the tokenizer."""
    logging.enable_propagation()
    yield lambda: [record.getMessage() for record in caplog.records]
    logging.disable_propagation()


def test_characters_that_become_unknown_are_counted_in_one_warning_per_call(tokenizer, heard):
    tokenizer(["AC GT\n", "acgunRYU[MASK]"])
    tokenizer("AC", "gt[UNK][PAD]", return_offsets_mapping=True)
    assert heard() == []
    tokenizer(["AC-G-", "X A*-é", "GG"])
    assert heard() == ["6 characters are not bases and become [UNK]: 3 '-', 1 'X', 1 '*', 1 'é'."]
    tokenizer("A-", "C-[MASK]", return_offsets_mapping=True)
    assert heard()[1:] == ["2 characters are not bases and become [UNK]: 2 '-'."]
    tokenizer("12345678")
    assert heard()[2].endswith(": 1 '1', 1 '2', 1 '3', 1 '4', 1 '5', ....")


def test_unknown_characters_can_be_an_error(tmp_path, heard):
    tokenizer = DnaTokenizer(unknown="error")
    tokenizer.save_pretrained(tmp_path)
    for one in (tokenizer, DnaTokenizer.from_pretrained(tmp_path)):
        assert one("AC gt[MASK]N").input_ids == [5, 6, 7, 8, 4, 9]
        for text in ("AC-X", ["A", "AC-X"], "AC-[MASK]"):
            with pytest.raises(ValueError, match=r"was given '-' at position 2: .*unknown='error'"):
                one(text)
        with pytest.raises(ValueError, match="was given '-' at position 7"):
            one("A[MASK]-")
    assert heard() == []
    with pytest.raises(ValueError, match="unknown='drop' was given: warn and error are accepted"):
        DnaTokenizer(unknown="drop")


def test_files_of_earlier_releases_drop_white_space_too(tmp_path):
    old = DnaTokenizer()
    old._tokenizer.normalizer = unify_spelling(NUCLEOTIDES)
    old.save_pretrained(tmp_path)
    again = DnaTokenizer.from_pretrained(tmp_path)
    assert_paths_agree(again, ["A C\n", "G"])
    assert again("A C\n").input_ids == [5, 6]


def test_length_has_no_limit(tokenizer):
    assert tokenizer.model_max_length > 10**12
    assert len(tokenizer("ACGT" * 50_000, truncation=True).input_ids) == 200_000


def test_decoding_gives_the_bases_back(tokenizer):
    assert tokenizer.decode(tokenizer("acgtnRYU").input_ids) == "ACGTNRYT"
    assert tokenizer.decode(tokenizer("A-C").input_ids) == "A[UNK]C"


# --- reverse complement ---


@pytest.mark.parametrize(("base", "partner"), PARTNERS.items())
def test_partners_follow_iupac(base, partner):
    assert reverse_complement(base) == partner
    assert reverse_complement(base.lower()) == partner.lower()
    assert reverse_complement(f"A{base}") == f"{partner}T"


def test_rna_comes_back_as_dna():
    assert reverse_complement("AUGu") == "aCAT"


@given(bases)
def test_reverse_complement_undoes_itself(text):
    slow = "".join(
        PARTNERS[c] if c.isupper() else PARTNERS[c.upper()].lower() for c in reversed(text)
    )
    assert reverse_complement(text) == slow
    assert reverse_complement(slow) == text


def test_list_of_texts_gives_a_list():
    assert reverse_complement(["AAC", "", "gt"]) == ["GTT", "", "ac"]
    assert reverse_complement([]) == []


@pytest.mark.parametrize("character", ["X", " ", "\n", "\0", "-", "é", "🧬"])
def test_character_that_is_no_base_is_an_error(character):
    with pytest.raises(ValueError, match="at position 2: it accepts the letters") as caught:
        reverse_complement(f"AC{character}GX")
    assert repr(character) in str(caught.value)


@pytest.mark.parametrize("wrong", [3, None, [1, 2], b"ACGT", np.ones(3), torch.ones(3)])
def test_other_types_are_an_error(wrong):
    with pytest.raises(ValueError, match="it accepts a str, a list of str"):
        reverse_complement(wrong)


@given(st.lists(bases, min_size=1, max_size=5), st.sampled_from(["left", "right"]), st.booleans())
def test_ids_and_text_give_the_same_strand(texts, side, special):
    tokenizer = DnaTokenizer(add_cls=special, add_sep=special, padding_side=side)
    options = {"padding": True, "return_tensors": "np"}
    ids = tokenizer(texts, **options)["input_ids"]
    expected = tokenizer(reverse_complement(texts), **options)["input_ids"]
    assert np.array_equal(reverse_complement(ids), expected)
    assert np.array_equal(reverse_complement(expected), ids)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64])
def test_arrays_and_tensors_keep_type_and_shape(dtype):
    ids = np.arange(5, 17, dtype=dtype).reshape(2, 2, 3)
    result = reverse_complement(ids)
    assert result.dtype == dtype
    assert result.shape == ids.shape
    tensor = reverse_complement(torch.from_numpy(ids))
    assert tensor.dtype == torch.from_numpy(ids).dtype
    assert np.array_equal(tensor.numpy(), result)
    assert np.array_equal(reverse_complement(ids[::-1])[::-1], result)


def test_outer_tokens_stay_and_inner_tokens_move():
    ids = torch.tensor(
        [[0, 2, 5, 1, 6, 4, 3, 0], [2, 3, 0, 0, 0, 0, 0, 0], [4, 5, 5, 5, 5, 5, 5, 5]]
    )
    expected = [[0, 2, 4, 7, 1, 8, 3, 0], [2, 3, 0, 0, 0, 0, 0, 0], [8, 8, 8, 8, 8, 8, 8, 4]]
    assert reverse_complement(ids).tolist() == expected
    assert reverse_complement(torch.empty(2, 0, dtype=torch.long)).shape == (2, 0)


def test_ids_of_two_sequences_in_a_row_are_an_error():
    with pytest.raises(ValueError, match="it accepts one run of bases in each row"):
        reverse_complement(np.array([[5, 5, 5], [5, 3, 6]]))


@pytest.mark.parametrize("wrong", [20, -100, 65])
def test_ids_beyond_the_vocabulary_are_an_error(wrong):
    with pytest.raises(ValueError, match=f"was given the id {wrong}: it accepts"):
        reverse_complement(torch.tensor([5, wrong]))


def test_single_id_is_an_error():
    with pytest.raises(ValueError, match="was given a single id"):
        reverse_complement(torch.tensor(5))
