"""A small masked language model, a reference and variants."""

import pytest
import torch

from hf_mixers import ChordMixerConfig, ChordMixerForMaskedLM
from tests.inference.conftest import save
from tests.inference.variants.made import (
    make_reference,
    make_variants,
    write_reference,
    write_vcf,
)


@pytest.fixture(scope="session")
def masked_lm(tmp_path_factory):
    """Of five blocks, as many windows are read one by one."""
    torch.manual_seed(2)
    config = ChordMixerConfig(track_size=4, intermediate_size=8, max_position_embeddings=32)
    return save(ChordMixerForMaskedLM(config), tmp_path_factory.mktemp("small_masked_lm"))


@pytest.fixture(scope="session")
def reference():
    return make_reference()


@pytest.fixture(scope="session")
def variants(reference):
    return make_variants(reference, 200)


@pytest.fixture(scope="session")
def genome(reference, tmp_path_factory):
    """The reference as a FASTA file."""
    return str(write_reference(tmp_path_factory.mktemp("genome") / "genome.fa", reference))


@pytest.fixture(scope="session")
def vcf(variants, tmp_path_factory):
    return str(write_vcf(tmp_path_factory.mktemp("vcf") / "variants.vcf", variants))
