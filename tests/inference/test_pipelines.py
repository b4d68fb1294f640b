"""`dna-embedding`, `variant-effect` and sentence-transformers give what the functions give."""

import numpy as np
import pytest
from transformers import pipeline

from hf_mixers.inference import embed, score_variants
from hf_mixers.pipelines import register_pipelines

TEXTS = ["ACGTACGTTGCA", "GG", "A" * 70]


def test_dna_embedding_gives_what_embed_gives(masked_lm):
    register_pipelines()  # a second time changes nothing
    extract = pipeline("dna-embedding", masked_lm, pooling="max")
    expected = [one.vector for one in embed(masked_lm, TEXTS, pooling="max")]
    assert np.abs(np.stack(extract(TEXTS)) - np.stack(expected)).max() < 1e-5
    # one sequence is one vector, an iterator stays one, options of a call come before those above
    assert np.abs(extract(TEXTS[0]) - expected[0]).max() < 1e-5
    found = extract(({"sequence": text} for text in TEXTS), pooling="first", token_budget=1)
    first = [one.vector for one in embed(masked_lm, TEXTS, pooling="first")]
    assert np.abs(next(found) - first[0]).max() < 1e-5
    assert len(list(found)) == 2


def test_what_is_not_dna_is_refused(masked_lm):
    extract = pipeline("dna-embedding", masked_lm)
    with pytest.raises(ValueError, match=r"Record 'record_1' cannot be read: letter '\.'"):
        extract("/a/file.fa")
    with pytest.raises(ValueError, match="Input 1 is int: text is accepted"):
        extract([7])


def test_variant_effect_gives_what_score_variants_gives(masked_lm):
    reference = {"x": "ACGTTGCAACGTGGCA" * 3}
    variants = [("x", 3, "G", "T"), ("x", 7, "CA", "C")]
    score = pipeline("variant-effect", masked_lm, reference=reference, window=32)
    expected = [one._asdict() for one in score_variants(masked_lm, variants, reference, window=32)]
    for found, one in zip(score(variants), expected, strict=True):
        assert found["scores"] == pytest.approx(one["scores"], abs=1e-5)
        assert {**found, "scores": None} == {**one, "scores": None}
    # one variant is one result, an iterator stays one
    assert score(variants[0])["kind"] == "snv"
    named = dict(zip(("chrom", "pos", "ref", "alt"), variants[1], strict=True))
    assert score(named, scores=["distance"])["scores"].keys() == {"distance"}
    assert next(score(iter(variants)))["pos"] == 3
    with pytest.raises(ValueError, match="requires reference: a FASTA file"):
        pipeline("variant-effect", masked_lm)(variants)
    with pytest.raises(ValueError, match="Variants are tuples or mappings, got text"):
        score("variants.vcf")


def test_sentence_transformers_loads_a_folder(masked_lm, tmp_path):
    package = pytest.importorskip("sentence_transformers")
    model = package.SentenceTransformer(masked_lm, device="cpu")
    expected = np.stack([one.vector for one in embed(masked_lm, TEXTS)])
    assert np.abs(model.encode(TEXTS, show_progress_bar=False) - expected).max() < 1e-5
    model.save(str(tmp_path))
    again = package.SentenceTransformer(str(tmp_path), device="cpu")
    assert np.abs(again.encode(TEXTS, show_progress_bar=False) - expected).max() < 1e-5
