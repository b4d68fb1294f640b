"""Pictures are written, show what they are given and ask for matplotlib in words."""

import builtins

import numpy as np
import pytest

from hf_mixers.metrics import classification_report, regression_report
from hf_mixers.reporting.plots import plot_by_length, plot_confusion, plot_history, plot_scatter

HISTORY = [
    {"loss": 0.7, "grad_norm": 1.0, "learning_rate": 1e-3, "epoch": 0.5, "step": 10},
    {"eval_loss": 0.6, "eval_accuracy": 0.8, "eval_runtime": 3.1, "epoch": 0.5, "step": 10},
    {"loss": 0.5, "grad_norm": 1.0, "learning_rate": 1e-3, "epoch": 1.0, "step": 20},
    {"eval_loss": 0.5, "eval_accuracy": 0.9, "eval_by_length": [], "epoch": 1.0, "step": 20},
    {"train_runtime": 10.0, "train_loss": 0.6, "epoch": 1.0, "step": 20},
]


@pytest.fixture
def reports():
    chance = np.random.default_rng(0)
    labels, lengths = chance.integers(2, size=300), chance.integers(9, 999, size=300)
    # the longest rows are of one class: no area there
    labels[lengths > 900] = 1
    return {
        name: classification_report(
            labels + chance.normal(size=300), labels, lengths, num_bootstrap=20
        )
        for name in ("one", "two")
    }


@pytest.fixture
def figures(monkeypatch):
    """Figures as they are saved."""
    from matplotlib.figure import Figure

    kept, save = [], Figure.savefig

    def keep(figure, *args, **kwargs):
        kept.append(figure)
        return save(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", keep)
    return kept


def lines(figure):
    return {
        line.get_label(): np.array(line.get_ydata(), float)
        for axes in figure.axes
        for line in axes.get_lines()
    }


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5000


def test_by_length_draws_every_model_and_bin(reports, figures, tmp_path):
    path = plot_by_length(reports, tmp_path / "new" / "by_length.png", title="Title")
    assert is_png(path)
    (figure,) = figures
    drawn = lines(figure)
    for name, report in reports.items():
        expected = [part["roc_auc"]["value"] for part in report["by_length"]]
        assert None in expected
        np.testing.assert_array_equal(drawn[name], np.array(expected, float))
    axes = figure.axes[0]
    assert axes.get_title() == "Title"
    assert len(axes.get_xticklabels()) == len(reports["one"]["by_length"])
    assert axes.get_xlim()[1] > len(expected) - 1


def test_by_length_draws_models_without_intervals(tmp_path):
    report = regression_report([1.0, 2.0, 3.0], [1.0, 2.5, 3.0], [5, 6, 7], num_bootstrap=0)
    assert is_png(plot_by_length({"plain": report}, tmp_path / "a.png", metric="mae"))


def test_history_draws_losses_and_scores_only(figures, tmp_path):
    assert is_png(plot_history(HISTORY, tmp_path / "history.png"))
    drawn = {name: list(values) for name, values in lines(figures[0]).items()}
    assert drawn == {"training": [0.7, 0.5], "evaluation": [0.6, 0.5], "Accuracy": [0.8, 0.9]}


def test_history_without_evaluation_is_one_panel(figures, tmp_path):
    plot_history(HISTORY[:1], tmp_path / "history.png")
    assert len(figures[0].axes) == 1


def test_scatter_draws_every_row(figures, tmp_path):
    targets = np.linspace(0, 1, 50)
    assert is_png(plot_scatter(targets[:, None] + 0.1, targets, tmp_path / "scatter.png"))
    points = figures[0].axes[0].collections[0].get_offsets()
    np.testing.assert_allclose(points, np.stack([targets, targets + 0.1], 1))


def test_plots_leave_the_backend_of_the_user_alone(reports, tmp_path):
    import matplotlib

    before = matplotlib.get_backend(auto_select=False)
    plot_by_length(reports, tmp_path / "a.png")
    assert matplotlib.get_backend(auto_select=False) == before


def test_missing_matplotlib_is_said_in_one_sentence(monkeypatch, tmp_path):
    real_import = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"pip install hf-mixers\[plots\]\.$"):
        plot_history(HISTORY, tmp_path / "history.png")


def test_wrong_input_is_one_sentence(reports, tmp_path):
    path = tmp_path / "a.png"
    with pytest.raises(ValueError, match="made with lengths"):
        plot_by_length({"one": {**reports["one"], "by_length": []}}, path)
    with pytest.raises(ValueError, match="no metric 'r2'"):
        plot_by_length(reports, path, metric="r2")
    with pytest.raises(ValueError, match="got none"):
        plot_history([{"learning_rate": 1.0, "step": 1}], path)
    with pytest.raises(ValueError, match=r"written as \.png, got a\.pdf"):
        plot_history(HISTORY, tmp_path / "a.pdf")
    assert not path.exists()


def test_confusion_has_a_row_per_label(figures, tmp_path):
    report = classification_report(np.eye(3)[[0, 1, 1, 2]], [0, 0, 1, 2], class_names=list("abc"))
    assert is_png(plot_confusion(report, tmp_path / "confusion.png"))
    (axes,) = figures[0].axes
    expected = [[0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]]
    np.testing.assert_array_equal(axes.images[0].get_array(), expected)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c"]
    assert len(axes.texts) == 4
    with pytest.raises(ValueError, match="needs a report with a confusion_matrix"):
        plot_confusion({"mse": 1.0}, tmp_path / "confusion.png")
