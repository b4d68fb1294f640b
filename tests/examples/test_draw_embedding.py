"""The picture of an embedding, from files as the commands leave them."""

import numpy as np
import pandas as pd
import pytest

from examples import draw_embedding
from hf_mixers.reporting.embedding_plot import plot_embedding, principal_components


def test_vectors_are_drawn_by_class(tmp_path, capsys):
    generator = np.random.default_rng(0)
    ids = [f"gene {number}" for number in range(9)]
    vectors = [*generator.normal(size=(8, 5)).astype(np.float32), None]
    table = pd.DataFrame({"id": ids, "length": 30, "vector": vectors, "note": ""})
    table.to_parquet(tmp_path / "vectors.parquet")
    answers = pd.DataFrame({"id": ids[::-1], "label": ["a", "b", "c"] * 3})
    answers.to_csv(tmp_path / "answers.tsv", sep="\t", index=False)
    path = draw_embedding.main(
        [
            *("--vectors", str(tmp_path / "vectors.parquet")),
            *("--answers", str(tmp_path / "answers.tsv")),
            *("--output", str(tmp_path / "embedding.png")),
        ]
    )
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "8 sequences" in capsys.readouterr().out


def test_components_are_those_of_the_covariance():
    values = np.random.default_rng(0).normal(size=(50, 4)) * [5, 3, 1, 0.1]
    points, shares = principal_components(values)
    variances = np.linalg.eigvalsh(np.cov(values.T))[::-1]
    np.testing.assert_allclose(points.var(0, ddof=1), variances[:2])
    np.testing.assert_allclose(shares, variances[:2] / variances.sum())


def test_what_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(ValueError, match="two or more"):
        principal_components(np.zeros((1, 4)))
    with pytest.raises(ValueError, match="Every vector needs a class"):
        plot_embedding(np.zeros((2, 4)), ["a"], tmp_path / "some.png")
