"""Genes in their reading frame are told from everything else."""

import numpy as np
import pytest

from hf_mixers.data import load_embedded
from hf_mixers.data.reading_frame import is_in_frame
from hf_mixers.models.dna import reverse_complement


@pytest.fixture(scope="module")
def genes():
    return load_embedded().select(range(0, 9000, 45))["sequence"][:]


def test_genes_have_no_stop_codons_in_their_frame(genes):
    assert is_in_frame(genes) is True
    assert is_in_frame([gene.lower() for gene in genes]) is True
    assert is_in_frame([gene.replace("T", "U") for gene in genes]) is True


@pytest.mark.parametrize(
    "change",
    [
        lambda gene, number: gene[1:],
        lambda gene, number: reverse_complement(gene),
        # half of them on the other strand, as where genes are cut from a genome without annotation
        lambda gene, number: reverse_complement(gene) if number % 2 else gene,
        lambda gene, number: gene[number % 3 :],
    ],
)
def test_cut_or_turned_genes_have_no_frame(change, genes):
    assert is_in_frame([change(gene, number) for number, gene in enumerate(genes)]) is False


def test_what_is_too_little_or_has_no_stops_is_not_known(genes):
    assert is_in_frame([]) is None
    assert is_in_frame(["ACG" * 10]) is None
    assert is_in_frame(["ACGC" * 1000] * 50) is None


def test_random_sequences_have_no_frame():
    chance = np.random.default_rng(0)
    texts = ["".join(chance.choice(list("ACGT"), 300)) for _ in range(50)]
    assert is_in_frame(texts) is False


def test_genes_of_both_strands_have_no_frame_where_stop_codons_are_rare():
    # of many C and G, whose reverse complements have few stop codons in any frame
    chance = np.random.default_rng(0)
    letters, weights = list("ACGT"), [0.13, 0.37, 0.37, 0.13]
    stops = ("TAA", "TAG", "TGA")

    def draw_gene():
        codons = ("".join(chance.choice(letters, 3, p=weights)) for _ in range(300))
        return "".join(codon for codon in codons if codon not in stops)

    drawn = [draw_gene() for _ in range(200)]
    assert is_in_frame(drawn) is True
    mixed = [reverse_complement(gene) if n % 2 else gene for n, gene in enumerate(drawn)]
    assert is_in_frame(mixed) is False
