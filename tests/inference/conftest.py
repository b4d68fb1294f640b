"""A small classifier and a small masked language model in folders, and sequences to read."""

import numpy as np
import pytest
import torch

from hf_mixers import (
    ChordMixerConfig,
    ChordMixerForMaskedLM,
    ChordMixerForSequenceClassification,
    DnaTokenizer,
)
from tests.cli.conftest import kept_log, run  # noqa: F401  (fixtures)

SMALL = {"track_size": 4, "intermediate_size": 8, "max_position_embeddings": 512}


def save(model, folder):
    model.save_pretrained(folder)
    DnaTokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def classifier(tmp_path_factory):
    torch.manual_seed(1)
    config = ChordMixerConfig(**SMALL, id2label={0: "cat", 1: "dog", 2: "owl"})
    return save(ChordMixerForSequenceClassification(config), tmp_path_factory.mktemp("classifier"))


@pytest.fixture(scope="session")
def masked_lm(tmp_path_factory):
    torch.manual_seed(2)
    model = ChordMixerForMaskedLM(ChordMixerConfig(**SMALL))
    return save(model, tmp_path_factory.mktemp("masked_lm"))


@pytest.fixture(scope="session")
def sequences():
    """Names and sequences of many lengths, 1 among them."""
    generator = np.random.default_rng(0)
    lengths = [1, 2, 3, *generator.integers(4, 300, 60)]
    letters = np.array(list("ACGTN"))
    return [
        (f"s{number}", "".join(generator.choice(letters, length, p=[0.24] * 4 + [0.04])))
        for number, length in enumerate(lengths)
    ]


@pytest.fixture(scope="session")
def fasta(sequences, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "sequences.fa"
    path.write_text("".join(f">{name} a description\n{text}\n" for name, text in sequences))
    return str(path)
