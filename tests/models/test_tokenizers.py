"""What all tokenizers have in common; above all, that the look-up and the backend agree."""

import itertools
import pickle
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken
from transformers import tokenization_utils_base

from tests.models.tokenizer_cases import (
    assert_paths_agree,
    call_backend,
    every_tokenizer,
    was_looked_up,
)

ALPHABET = "ACGTNacgtu xé🧬中[]\n"


# --- look-up and backend ---


@pytest.mark.slow
@every_tokenizer
@pytest.mark.parametrize("add_cls", [False, True])
@pytest.mark.parametrize("add_sep", [False, True])
@pytest.mark.filterwarnings("ignore:`max_length` is ignored")
def test_every_combination_of_options_agrees_with_the_backend(build, add_cls, add_sep):
    tokenizer = build(add_cls=add_cls, add_sep=add_sep)
    batch = ["ACGT", "", "gattaca é🧬x", "AC"]
    choices = {
        "padding": [False, True, "max_length"],
        "truncation": [None, False, True, "only_first", "only_second"],
        "max_length": [None, 2, 8],
        "pad_to_multiple_of": [None, 4],
        "padding_side": [None, "left"],
        "return_tensors": [None, "np", "pt"],
    }
    for values in itertools.product(*choices.values()):
        options = dict(zip(choices, values, strict=True))
        options |= {"return_special_tokens_mask": True, "return_length": True}
        assert_paths_agree(tokenizer, batch, **options)
        assert_paths_agree(tokenizer, batch[2], **options)


texts = st.lists(st.sampled_from([*ALPHABET, "[MASK]", "[CLS]"]), max_size=12).map("".join)
texts |= st.text(max_size=12)


@every_tokenizer
@given(data=st.data())
@pytest.mark.filterwarnings("ignore:`max_length` is ignored")
def test_any_texts_and_options_agree_with_the_backend(build, data):
    pick = lambda *values: data.draw(st.sampled_from(values))  # noqa: E731  (reads as a word below)
    tokenizer = build(
        add_cls=pick(False, True),
        add_sep=pick(False, True),
        padding_side=pick("left", "right"),
        truncation_side=pick("left", "right"),
        model_max_length=pick(None, 5),
    )
    text = data.draw(texts | st.lists(texts, max_size=4) | st.lists(texts, max_size=4).map(tuple))
    # the backend panics where the stride is longer than what is left for a text
    stride = pick(0, 0, 0, 1)
    # torch makes an empty tensor of rows that begin with an empty one; the look-up raises an error
    tensors = pick(None, "np") if "" in list(text) else pick(None, "np", "pt")
    assert_paths_agree(
        tokenizer,
        text,
        text_pair=None if stride else pick(None, None, text),
        add_special_tokens=pick(True, False),
        padding=pick(False, True, "longest", "max_length", "do_not_pad"),
        truncation=pick(None, False, True, "longest_first", "only_first", "only_second"),
        max_length=pick(None, 8, 16) if stride else pick(None, 0, 1, 2, 3, 4, 8, 16),
        stride=stride,
        is_split_into_words=pick(False, False, False, True),
        pad_to_multiple_of=pick(None, 1, 4, 8),
        padding_side=pick(None, "left", "right"),
        return_tensors=tensors,
        return_token_type_ids=pick(None, None, False, True),
        return_attention_mask=pick(None, False, True),
        return_overflowing_tokens=pick(False, False, False, True),
        return_special_tokens_mask=pick(False, True),
        return_offsets_mapping=pick(False, False, False, True),
        return_length=pick(False, True),
        split_special_tokens=pick(False, True),
    )


@pytest.mark.slow
@every_tokenizer
def test_every_code_point_agrees_with_the_backend(build):
    tokenizer = build()
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    encoding = tokenizer(text, return_tensors="np")
    assert was_looked_up(encoding)
    ids = tokenizer.backend_tokenizer.encode(text).ids
    assert np.array_equal(encoding["input_ids"][0], ids)


@every_tokenizer
def test_usual_calls_use_the_look_up(build):
    tokenizer = build(add_cls=True, add_sep=True)
    for options in (
        {},
        {"padding": True, "return_tensors": "pt"},
        {"truncation": True, "max_length": 4, "padding": "max_length"},
        {"return_special_tokens_mask": True, "return_length": True},
        {"return_attention_mask": False, "add_special_tokens": False, "return_tensors": "np"},
    ):
        assert was_looked_up(tokenizer(["ACGT", "中[x"], **options))


@every_tokenizer
def test_other_calls_use_the_backend(build):
    tokenizer = build()
    for options in (
        {"text": "A[MASK]C"},
        {"text": "AC", "text_pair": "GT"},
        {"text": "AC", "return_offsets_mapping": True},
        {"text": "AC", "return_token_type_ids": True},
        {"text": ["A", "C"], "is_split_into_words": True},
        {"text": "ACGT", "truncation": True, "max_length": 2, "return_overflowing_tokens": True},
    ):
        assert not was_looked_up(tokenizer(**options))


@every_tokenizer
def test_rows_of_different_lengths_need_padding_for_torch(build):
    for batch in (["A", "AC"], ["", "A"]):
        with pytest.raises(ValueError, match="activate truncation and/or padding"):
            build()(batch, return_tensors="pt")


@every_tokenizer
@pytest.mark.parametrize("call", [lambda t, text: t(text), call_backend], ids=["table", "backend"])
def test_long_input_warns_once_and_is_not_cut(build, call):
    tokenizer = build(model_max_length=3)
    with mock.patch.object(tokenization_utils_base.logger, "warning") as warn:
        for text in ("ACG", "ACGTA", "ACGTAC"):
            assert len(call(tokenizer, text).input_ids) == len(text)
    warn.assert_called_once()
    assert "(5 > 3)" in warn.call_args.args[0]


# --- encodings made when asked for ---


@every_tokenizer
def test_lazy_encodings_know_tokens_and_places(build):
    tokenizer = build(add_cls=True)
    encoding = tokenizer(["ACGT", "GT"], padding=True, return_tensors="pt")
    assert was_looked_up(encoding)
    assert encoding.is_fast
    assert encoding.tokens(1) == ["[CLS]", "G", "T", "[PAD]", "[PAD]"]
    assert encoding.char_to_token(0, 2) == 3
    assert encoding.token_to_chars(0, 3) == (2, 3)
    assert encoding.sequence_ids(1) == [None, 0, 0, None, None]
    assert encoding[0].ids == encoding["input_ids"][0].tolist()


@every_tokenizer
def test_lazy_encodings_keep_the_sides_of_their_call(build):
    tokenizer = build(truncation_side="left", padding_side="left")
    encoding = tokenizer(["ACGT", "G"], padding=True, truncation=True, max_length=3)
    tokenizer.truncation_side = tokenizer.padding_side = "right"
    assert [e.ids for e in encoding.encodings] == encoding["input_ids"]


@every_tokenizer
def test_encoding_survives_pickling(build):
    encoding = build()("ACGT", return_tensors="pt")
    again = pickle.loads(pickle.dumps(encoding))
    assert torch.equal(again["input_ids"], encoding["input_ids"])
    assert again.tokens() == ["A", "C", "G", "T"]


# --- special tokens ---


@every_tokenizer
def test_special_tokens_have_the_first_ids(build):
    tokenizer = build()
    assert sorted(tokenizer.all_special_ids) == [0, 1, 2, 3, 4]
    names = ["pad", "unk", "cls", "sep", "mask"]
    assert [getattr(tokenizer, f"{name}_token_id") for name in names] == [0, 1, 2, 3, 4]
    assert tokenizer.vocab_size == len(tokenizer) == len(tokenizer.get_vocab())


@every_tokenizer
@pytest.mark.parametrize("add_cls", [False, True])
@pytest.mark.parametrize("add_sep", [False, True])
def test_options_rule_the_special_tokens(build, add_cls, add_sep):
    tokenizer = build(add_cls=add_cls, add_sep=add_sep)
    start, end = ["[CLS]"] * add_cls, ["[SEP]"] * add_sep
    assert tokenizer("AC").tokens() == [*start, "A", "C", *end]
    assert tokenizer("A", "C").tokens() == [*start, "A", *end, "C", *end]
    assert tokenizer.num_special_tokens_to_add() == add_cls + add_sep
    assert tokenizer.num_special_tokens_to_add(pair=True) == add_cls + 2 * add_sep
    ids = tokenizer("AC", add_special_tokens=False).input_ids
    encoding = tokenizer("AC", return_special_tokens_mask=True)
    mask = [1] * add_cls + [0, 0] + [1] * add_sep
    assert encoding["special_tokens_mask"] == mask
    assert tokenizer.get_special_tokens_mask(ids) == mask
    assert tokenizer.get_special_tokens_mask(encoding.input_ids, None, True) == mask
    pair = tokenizer("AC", "AC", return_special_tokens_mask=True)
    assert tokenizer.get_special_tokens_mask(ids, ids) == pair["special_tokens_mask"]


@every_tokenizer
def test_options_can_be_set_later(build):
    tokenizer = build()
    tokenizer.add_cls = tokenizer.add_sep = True
    assert tokenizer("A").tokens() == ["[CLS]", "A", "[SEP]"]
    assert_paths_agree(tokenizer, ["ACGT", "A"], padding=True)


@every_tokenizer
def test_option_without_its_token_is_an_error(build):
    with pytest.raises(ValueError, match="add_cls=True was given with cls_token=None"):
        build(add_cls=True, cls_token=None)
    with pytest.raises(ValueError, match="add_sep=True was given with sep_token=None"):
        build(add_sep=True, sep_token=None)


@every_tokenizer
def test_only_ids_and_mask_are_returned(build):
    for call in (build()("AC"), build()("A[MASK]"), build()("A", "C")):
        assert list(call) == ["input_ids", "attention_mask"]


@every_tokenizer
def test_special_tokens_in_text_are_special(build):
    tokenizer = build()
    assert tokenizer("A[MASK]C").input_ids == [
        *tokenizer("A").input_ids,
        tokenizer.mask_token_id,
        *tokenizer("C").input_ids,
    ]
    split = tokenizer("A[MASK]C", split_special_tokens=True)
    assert tokenizer.mask_token_id not in split.input_ids
    assert len(split.input_ids) == 8


# --- added tokens ---


@every_tokenizer
@pytest.mark.parametrize(
    "token", ["<x>", "ACG", "Z", AddedToken("<y>", normalized=False), AddedToken("T ", rstrip=True)]
)
@pytest.mark.parametrize("special", [False, True])
def test_added_tokens_are_found(build, token, special):
    tokenizer = build()
    tokenizer("ACGT")
    assert tokenizer.add_tokens([token], special_tokens=special) == 1
    text = f"AC{token}GT"
    assert tokenizer.convert_tokens_to_ids(str(token)) in tokenizer(text).input_ids
    for batch in ([text, "ACGT"], "acgt acu", "TT  A"):
        assert_paths_agree(tokenizer, batch)


@every_tokenizer
def test_tokens_added_on_the_backend_are_found(build):
    tokenizer = build()
    size = len(tokenizer)
    tokenizer.backend_tokenizer.add_tokens(["GATTACA"])
    assert tokenizer("GATTACA").input_ids == [size]


@every_tokenizer
def test_new_special_token_leaves_other_text_to_the_look_up(build):
    tokenizer = build()
    tokenizer.add_special_tokens({"eos_token": "<eos>"})
    assert was_looked_up(tokenizer("ACGT"))
    assert tokenizer("AC<eos>").input_ids[-1] == tokenizer.eos_token_id
