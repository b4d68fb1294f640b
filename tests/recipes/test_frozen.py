"""Vectors of frozen models: in the order of the rows, and scored next to k-mers."""

import numpy as np
import pytest
import torch

from examples import evaluate_embeddings
from hf_mixers import DnaTokenizer
from hf_mixers.data import tokenize_sequences
from hf_mixers.metrics.embeddings import embedding_report, vote
from hf_mixers.recipes.frozen import embed_rows
from tests.families import every_family, find_row
from tests.recipes.test_taxonomy import make_table


@every_family
def test_vectors_come_in_the_order_of_the_rows(row):
    model = row.build(max_position_embeddings=128)
    table = make_table(20)
    rows = tokenize_sequences(table, DnaTokenizer())
    found = embed_rows(model, rows, token_budget=150)
    with torch.no_grad():
        for number in (0, 7, 19):
            ids = torch.tensor(rows[number]["input_ids"].astype(np.int64))[None]
            alone = model(ids).pooler_output[0].numpy()
            np.testing.assert_allclose(found[number], alone, atol=1e-5)


def test_reports_tell_separated_classes_from_noise():
    generator = np.random.default_rng(0)
    labels = np.arange(200) % 2
    noise = generator.normal(size=(200, 8))
    apart = noise + 6 * (2 * labels[:, None] - 1)
    for vectors, low, high in ((apart, 0.98, 1.0), (noise, 0.2, 0.7)):
        report = embedding_report((vectors[:100], labels[:100]), (vectors[100:], labels[100:]))
        assert low <= report["neighbours_accuracy"] <= high
        assert low <= report["probe_accuracy"] <= high
    assert embedding_report((apart, labels), (apart, labels))["clusters_nmi"] > 0.9


def test_ties_go_to_the_more_similar_class():
    known = np.array([[1.0, 0.0], [0.6, 0.8]])
    assert vote(known, np.array([5, 9]), np.array([[0.7, 0.7]]), neighbours=2)[0] == 9


@pytest.mark.parametrize("part", ["test", "validation"])
def test_the_example_scores_one_part(part, tmp_path):
    model = find_row("chordmixer").build("masked_lm", max_position_embeddings=128)
    model.save_pretrained(tmp_path / "model")
    DnaTokenizer().save_pretrained(tmp_path / "model")
    table = make_table(80)
    table = table.add_column(
        "part", [("train", "val", "test", "train")[i // 2 % 4] for i in range(80)]
    )
    table.to_parquet(tmp_path / "genes.parquet")
    results = evaluate_embeddings.main(
        [
            *("--checkpoint", str(tmp_path / "model"), "--data", str(tmp_path / "genes.parquet")),
            *("--label_column", "genus", "--split_column", "part", "--report_on", part),
            *("--output_dir", str(tmp_path / "run"), "--kmer_sizes", "2"),
        ]
    )
    assert set(results[part]) == {"2-mers", "3-mers by codon position", "model"}
    assert results[part]["2-mers"]["probe_accuracy"] > 0.8
    assert (tmp_path / "run" / "metrics.json").exists()
