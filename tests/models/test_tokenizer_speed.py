"""Tokenizing costs little more than the look-up in a numpy table that it stands on."""

import time

import numpy as np
import pytest
import torch

from hf_mixers.models.tokenization_byte import ByteTokenizer
from hf_mixers.models.tokenization_char import CharTokenizer
from hf_mixers.models.tokenization_dna import DnaTokenizer

pytestmark = pytest.mark.timing

LIMIT = 4.0
REPEATS = 9
TABLE = np.arange(256)
TOKENIZERS = {
    "dna": DnaTokenizer(),
    "dna_special": DnaTokenizer(add_cls=True, add_sep=True),
    "byte": ByteTokenizer(),
    "char": CharTokenizer("ACGT"),
}
every_tokenizer = pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS.keys())


def draw_bases(count):
    picks = np.random.default_rng(0).integers(4, size=count)
    return np.frombuffer(b"ACGT", np.uint8)[picks].tobytes().decode()


def measure(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(call, bare):
    """Best time of `call` over that of `bare`, taken in turns so that both see the same noise."""
    times = [(measure(call), measure(bare)) for _ in range(REPEATS)]
    return min(t for t, _ in times) / min(t for _, t in times)


@every_tokenizer
def test_long_sequence_is_as_quick_as_the_table(tokenizer):
    text = draw_bases(1_500_000)

    def look_up():
        return torch.from_numpy(TABLE[np.frombuffer(text.encode("ascii"), np.uint8)])

    assert compare(lambda: tokenizer(text, return_tensors="pt"), look_up) <= LIMIT


@every_tokenizer
def test_large_batch_is_as_quick_as_the_table(tokenizer):
    joined = draw_bases(10_000_000)
    texts = [joined[start : start + 1000] for start in range(0, len(joined), 1000)]

    def look_up():
        rows = np.empty((10_000, 1000), np.int64)
        for row, text in zip(rows, texts, strict=True):
            row[:] = TABLE[np.frombuffer(text.encode("ascii"), np.uint8)]
        return torch.from_numpy(rows)

    ratio = compare(lambda: tokenizer(texts, padding=True, return_tensors="pt"), look_up)
    assert ratio <= LIMIT
