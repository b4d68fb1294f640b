"""The table of tokenizers over which the common tests run, and the comparison with the backend."""

from unittest import mock

import numpy as np
import pytest
import torch

from hf_mixers.models.tokenization_byte import ByteTokenizer
from hf_mixers.models.tokenization_char import CharTokenizer
from hf_mixers.models.tokenization_dna import DnaTokenizer
from hf_mixers.models.tokenization_table import LazyEncodings, TableTokenizer


def build_char_tokenizer(**options):
    return CharTokenizer("ACGTN acgté🧬[", **options)


BUILDERS = {"dna": DnaTokenizer, "byte": ByteTokenizer, "char": build_char_tokenizer}
every_tokenizer = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS.keys())


def was_looked_up(encoding):
    return isinstance(encoding.encodings, LazyEncodings)


def call_backend(tokenizer, *args, **options):
    """The same call with the look-up switched off."""
    with mock.patch.object(TableTokenizer, "_look_up", return_value=None):
        return tokenizer(*args, **options)


def as_plain(value):
    """Nested lists, with the type and dtype of what was given."""
    if isinstance(value, torch.Tensor):
        return "pt", value.dtype, value.tolist()
    if isinstance(value, np.ndarray) and value.dtype == object:
        return "ragged", [row.tolist() for row in value]
    if isinstance(value, np.ndarray):
        return "np", value.dtype, value.tolist()
    return value


def outcome(call, *args, **options):
    """Everything a call gives, or the error it raises."""
    try:
        encoding = call(*args, **options)
    except Exception as error:
        return type(error), str(error)
    details = [
        (
            e.ids,
            e.tokens,
            e.offsets,
            e.attention_mask,
            e.special_tokens_mask,
            e.word_ids,
            e.type_ids,
        )
        for e in encoding.encodings
    ]
    return (
        [(key, as_plain(value)) for key, value in encoding.items()],
        details,
        encoding.n_sequences,
    )


def assert_paths_agree(tokenizer, *args, **options):
    assert outcome(tokenizer, *args, **options) == outcome(
        call_backend, tokenizer, *args, **options
    )
