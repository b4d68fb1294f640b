"""Tokenizers of one token per letter, from text to tensor.

One sequence of 1.5M bases, and 10,000 of 1,000 in a padded batch: ours, the look-up in a numpy
table that it stands on, ByT5's tokenizer, and a vocabulary of letters built with `tokenizers`.
"""

from collections.abc import Callable

import numpy as np
import tokenizers as rust
import torch
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from hf_mixers import ByteTokenizer, CharTokenizer, DnaTokenizer

from ..interleaved import Case, Group
from ..isolated import Built
from ..options import Options

# sequences and letters of each
SHAPES = ((1, 1_500_000), (10_000, 1000))
NAMES = ("numpy table", "DnaTokenizer", "CharTokenizer", "ByteTokenizer", "tokenizers", "ByT5")


def make_groups(options: Options) -> list[Group]:
    shapes = ((1, 2000), (4, 100)) if options.smoke else SHAPES
    return [
        Group(
            [
                Case(
                    {"tokenizer": name, "sequences": count, "letters": letters},
                    build,
                    {"name": name, "count": count, "letters": letters, "seed": options.seed},
                )
                for name in NAMES
            ]
        )
        for count, letters in shapes
    ]


def build(name: str, count: int, letters: int, seed: int) -> Built:
    """A tokenizer on `count` texts of as many letters."""
    picks = np.random.default_rng(seed).integers(4, size=count * letters)
    text = np.frombuffer(b"ACGT", np.uint8)[picks].tobytes().decode()
    texts = [text[start : start + letters] for start in range(0, len(text), letters)]
    tokenize = look_up if name == "numpy table" else _make_tokenizer(name)
    tokenize(["ACGT"])
    return Built(lambda: tokenize(texts), {})


def look_up(texts: list[str]) -> None:
    """Ids in the fewest operations that give a tensor of them."""
    table = np.arange(256)
    ids = np.empty((len(texts), len(texts[0])), np.int64)
    for row, text in zip(ids, texts, strict=True):
        row[:] = table[np.frombuffer(text.encode("ascii"), np.uint8)]
    torch.from_numpy(ids)


def _make_tokenizer(name: str) -> Callable[[list[str]], None]:
    if name == "tokenizers":
        vocabulary = {letter: number for number, letter in enumerate(["[PAD]", "[UNK]", *"ACGTN"])}
        backend = rust.Tokenizer(rust.models.WordLevel(vocabulary, unk_token="[UNK]"))
        backend.pre_tokenizer = rust.pre_tokenizers.Split(rust.Regex("."), "isolated")
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]"
        )
    else:
        tokenizer = {
            "DnaTokenizer": DnaTokenizer,
            "CharTokenizer": lambda: CharTokenizer("ACGT"),
            "ByteTokenizer": ByteTokenizer,
            "ByT5": ByT5Tokenizer,
        }[name]()

    def tokenize(texts: list[str]) -> None:
        tokenizer(texts, padding=True, return_tensors="pt")

    return tokenize
