"""A vocabulary of characters that comes from a corpus."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_mixers.models.tokenization_char import CharTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def list_tokens(tokenizer):
    return tokenizer.convert_ids_to_tokens(range(len(tokenizer)))


def test_frequent_characters_come_first_and_equal_ones_by_code_point():
    tokenizer = CharTokenizer.train(["bca", "🧬éb", "\nb"])
    assert list_tokens(tokenizer) == [*SPECIAL, "b", "\n", "a", "c", "é", "🧬"]


def test_vocabulary_does_not_depend_on_the_order_of_the_corpus():
    corpus = ["abc", "bcd", "cde", "é中"]
    expected = CharTokenizer.train(corpus).get_vocab()
    assert CharTokenizer.train(reversed(corpus)).get_vocab() == expected
    assert CharTokenizer.train("".join(corpus)).get_vocab() == expected


def test_vocabulary_can_be_limited():
    corpus = ["aaa", "bb", "c"]
    assert list_tokens(CharTokenizer.train(corpus, min_count=2)) == [*SPECIAL, "a", "b"]
    assert list_tokens(CharTokenizer.train(corpus, max_size=6)) == [*SPECIAL, "a"]
    assert len(CharTokenizer.train(corpus, max_size=100)) == 8
    assert CharTokenizer.train(corpus, add_cls=True)("a").input_ids == [2, 5]


@pytest.mark.parametrize("options", [{"max_size": 5}, {"max_size": 0}, {"min_count": 0}])
def test_limits_that_leave_nothing_are_an_error(options):
    with pytest.raises(ValueError, match="accepted"):
        CharTokenizer.train(["a"], **options)


def test_unknown_characters_are_unknown_and_not_padding():
    tokenizer = CharTokenizer.train(["abc"])
    assert tokenizer("a?中🧬").input_ids == [5, 1, 1, 1]
    assert tokenizer("").input_ids == []


@given(st.lists(st.text()))
def test_decoding_gives_the_text_of_the_corpus_back(corpus):
    tokenizer = CharTokenizer.train(corpus)
    for text in corpus:
        assert tokenizer.decode(tokenizer(text).input_ids) == text


@given(st.text(), st.text())
def test_unseen_text_keeps_its_length(seen, text):
    tokenizer = CharTokenizer.train([seen])
    ids = tokenizer(text, split_special_tokens=True).input_ids
    assert [index == 1 for index in ids] == [character not in seen for character in text]


def test_vocabulary_is_kept_with_the_tokenizer(tmp_path):
    tokenizer = CharTokenizer.train(['abc \n\t é🧬\u2028\\"'])
    tokenizer.save_pretrained(tmp_path)
    again = CharTokenizer.from_pretrained(tmp_path)
    assert again.get_vocab() == tokenizer.get_vocab()
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match="neither characters nor a tokenizer"):
        CharTokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("characters", "message"),
    [
        (None, "neither"),
        (["ab"], "'ab'"),
        ("aba", "'a' twice"),
        (["\ud800"], "ud800"),
        ([""], "''"),
    ],
)
def test_wrong_characters_are_an_error(characters, message):
    with pytest.raises(ValueError, match=message):
        CharTokenizer(characters)
