"""Pictures of a run as PNG files: scores by length, the course of training, predictions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .atomic import write_atomically

# Okabe and Ito's colours, which colour-blind readers can tell apart; their yellow is too pale here
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
NAMES = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "f1": "F1",
    "loss": "Loss",
    "mae": "Mean absolute error",
    "mcc": "Matthews correlation",
    "mse": "Mean squared error",
    "perplexity": "Perplexity",
    "r2": "R²",
    "rmse": "Root mean squared error",
    "rmse_standardized": "RMSE of the standardised target",
    "roc_auc": "ROC-AUC",
    "within_tolerance": "Fraction within tolerance",
}
# what Trainer logs about speed, beside the scores
NO_SCORES = ("runtime", "_per_second", "_time", "epoch", "step", "flos", "_rows", "_count")


def metric_name(metric: str) -> str:
    """The name of a metric for readers.

    >>> metric_name("roc_auc"), metric_name("top5_recall")
    ('ROC-AUC', 'Top5 recall')
    """
    return NAMES.get(metric, metric.replace("_", " ").capitalize())


def plot_by_length(
    reports: Mapping[str, dict],
    path: str | Path,
    metric: str = "roc_auc",
    title: str | None = None,
) -> Path:
    """Draw a metric over percentiles of length, a line and a confidence band per model.

    Args:
        reports: by name of the model, what `classification_report` or `regression_report` gave
            for the same rows, with lengths.
        path: the PNG file to write, which is returned.
        metric: its name in the reports; bins in which it is undefined are gaps.
    """
    path = _check_path(path)
    parts = {}
    for name, report in reports.items():
        for part in report.get("by_length", []):
            if metric not in part:
                raise ValueError(f"The report of {name} has no metric {metric!r} by length.")
            parts[part["from_percentile"], part["to_percentile"]] = part
    if not parts:
        raise ValueError("plot_by_length needs reports made with lengths, got none.")
    bins = sorted(parts)
    figure = new_figure(max(5.0, 2.2 + 0.72 * len(bins)), 4.6)
    axes = figure.subplots()
    for number, (name, report) in enumerate(reports.items()):
        look = line_look(number)
        found = {(p["from_percentile"], p["to_percentile"]): p for p in report["by_length"]}
        rows = [found.get(place, {}).get(metric, {}) for place in bins]
        value, low, high = (
            np.array([row.get(end) for row in rows], float) for end in ("value", "low", "high")
        )
        places = np.arange(len(bins))
        axes.fill_between(places, low, high, color=look["color"], alpha=0.13, linewidth=0)
        # a band of one bin has no width: its ends show where neighbours are undefined
        axes.vlines(places, low, high, color=look["color"], alpha=0.35, linewidth=1)
        axes.plot(places, value, label=name, **look)
    labels = [_bin_label(parts[place]) for place in bins]
    axes.set_xticks(range(len(bins)), labels, fontsize=7.5)
    axes.set_xlabel("Percentile of length, lengths in tokens, number of sequences")
    axes.set_ylabel(metric_name(metric))
    confidences = {report["confidence"] for report in reports.values() if "confidence" in report}
    intervals = f", {100 * confidences.pop():g} % intervals" if len(confidences) == 1 else ""
    axes.set_title(title or f"{metric_name(metric)} by sequence length{intervals}")
    # bins in which nothing is defined keep their place
    axes.set_xlim(-0.4, len(bins) - 0.6)
    axes.legend(frameon=False)
    return save_figure(figure, path)


def has_curves(log_history: Sequence[dict]) -> bool:
    """Whether a log has losses or scores to draw; that of a head that was fitted alone has none."""
    return any(_read_history(log_history))


def plot_history(log_history: Sequence[dict], path: str | Path) -> Path:
    """Draw losses, and the scores of evaluation beside them, over the steps of training.

    Args:
        log_history: `Trainer.state.log_history`, as it is or read from `trainer_state.json`.
        path: the PNG file to write, which is returned.
    """
    path = _check_path(path)
    losses, scores = _read_history(log_history)
    if not losses and not scores:
        raise ValueError("plot_history needs a log with losses or scores, got none.")
    panels = {"Loss": losses, "Score on evaluation rows": scores}
    panels = {label: curves for label, curves in panels.items() if curves}
    figure = new_figure(5.2 * len(panels), 3.9)
    all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (label, curves) in zip(all_axes, panels.items(), strict=True):
        for number, (name, points) in enumerate(curves.items()):
            look = line_look(number)
            if len(points) > 40:
                look |= {"marker": "", "linewidth": 1.2}
            axes.plot(*zip(*points, strict=True), label=name, **look)
        axes.set_xlabel("Training step")
        axes.set_ylabel(label)
        axes.legend(frameon=False)
    figure.suptitle("Course of training")
    return save_figure(figure, path)


def plot_scatter(
    predictions: Sequence[float] | np.ndarray,
    targets: Sequence[float] | np.ndarray,
    path: str | Path,
) -> Path:
    """Draw predicted over true numbers, with the line on which they are equal.

    Args:
        predictions: `(N,)` or `(N, 1)`.
        targets: as the predictions.
        path: the PNG file to write, which is returned.
    """
    from ..metrics import regression_report

    path = _check_path(path)
    overall = regression_report(predictions, targets, num_bootstrap=0)["overall"]
    guesses, truth = np.ravel(predictions), np.ravel(targets)
    figure = new_figure(4.9, 4.9)
    axes = figure.subplots()
    # many points: smaller and fainter, so that dense places stand out
    crowd = min(1.0, 300 / len(truth))
    axes.scatter(
        truth,
        guesses,
        s=6 + 14 * crowd,
        alpha=0.15 + 0.5 * crowd,
        color=COLOURS[0],
        linewidths=0,
        label=f"{len(truth):,} examples",
    )
    ends = [min(truth.min(), guesses.min()), max(truth.max(), guesses.max())]
    axes.plot(ends, ends, color=COLOURS[1], linewidth=1.2, label="equal")
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel("True value")
    axes.set_ylabel("Predicted value")
    r2 = overall["r2"]["value"]
    parts = [f"mean absolute error {overall['mae']['value']:.3g}"]
    if r2 is not None:
        parts.append(f"R² {r2:.3f}")
    axes.set_title("Predictions: " + ", ".join(parts), fontsize=10.5)
    axes.legend(frameon=False)
    return save_figure(figure, path)


def plot_confusion(report: Mapping, path: str | Path) -> Path:
    """Draw which classes are taken for which: a row per label, a column per prediction.

    Args:
        report: what `classification_report` gave.
        path: the PNG file to write, which is returned.
    """
    path = _check_path(path)
    if "confusion_matrix" not in report:
        raise ValueError(f"plot_confusion needs a report with a confusion_matrix, got {[*report]}.")
    counts, names = np.array(report["confusion_matrix"]), report["class_names"]
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    side = 2.4 + 0.45 * min(len(names), 30)
    figure = new_figure(side, side)
    axes = figure.subplots()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    # numbers in more cells could not be read
    if len(names) <= 20:
        for (row, column), count in np.ndenumerate(counts):
            if count:
                colour = "white" if shares[row, column] > 0.5 else "black"
                look = {"ha": "center", "va": "center", "color": colour, "fontsize": 8}
                axes.text(column, row, f"{count:,}", **look)
    axes.set_xlabel("Prediction")
    axes.set_ylabel("Label")
    axes.set_title("Rows by label and prediction", fontsize=10.5)
    return save_figure(figure, path)


def _read_history(log_history: Sequence[dict]) -> tuple[dict, dict]:
    """Points `(step, value)` of losses and of scores, by name."""
    losses: dict[str, list] = {}
    scores: dict[str, list] = {}
    for record in log_history:
        step = record.get("step")
        for key, value in record.items():
            if step is None or isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            if key in ("loss", "eval_loss"):
                name = "training" if key == "loss" else "evaluation"
                losses.setdefault(name, []).append((step, value))
            elif key.startswith("eval_") and not key.endswith(NO_SCORES):
                scores.setdefault(metric_name(key.removeprefix("eval_")), []).append((step, value))
    return losses, scores


def _bin_label(part: dict) -> str:
    low, high = part["min_length"], part["max_length"]
    lengths = f"{low:,}" if low == high else f"{low:,}–\n{high:,}"  # noqa: RUF001 (a range)
    percentiles = f"{part['from_percentile']:g}–{part['to_percentile']:g}"  # noqa: RUF001
    return f"{percentiles}\n{lengths}\nn={part['count']:,}"


def line_look(number: int) -> dict:
    """Colour and marker of the line with this number."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 4.5,
        "linewidth": 1.6,
    }


def new_figure(width: float, height: float) -> Any:
    """An empty figure, apart from pyplot and so from the windows and settings of the user."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install hf-mixers[plots].") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Any, path: Path) -> Path:
    """Write a figure, with the axes of all our pictures."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        # lines would cross the cells of an image
        if not axes.images:
            axes.grid(axis="y", alpha=0.25, linewidth=0.6)
    with write_atomically(path) as draft:
        figure.savefig(draft, dpi=150)
    return path


def _check_path(path: str | Path) -> Path:
    if Path(path).suffix.lower() != ".png":
        raise ValueError(f"Plots are written as .png, got {Path(path).name}.")
    return Path(path)
