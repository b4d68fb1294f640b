"""What a supervised model predicts, and how its outputs are scored, written and drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import expit, softmax
from transformers import PreTrainedModel

from ..metrics import classification_report, multi_label_report, regression_report
from ..reporting.plots import plot_by_length, plot_confusion, plot_scatter


class Classes:
    """The target of a classifier: one of several classes."""

    def __init__(self, names: Sequence[str]):
        self.names = list(names)

    def config_fields(self) -> dict:
        """What the config of a model must say."""
        return {
            "id2label": dict(enumerate(self.names)),
            "label2id": {name: number for number, name in enumerate(self.names)},
            "problem_type": "single_label_classification",
        }

    def notes(self) -> list[str]:
        """What users of a model must know about its answers."""
        return []

    def report(
        self,
        outputs: np.ndarray,
        labels: np.ndarray,
        lengths: Sequence[int] | np.ndarray | None = None,
        **options: Any,
    ) -> dict:
        return classification_report(outputs, labels, lengths, class_names=self.names, **options)

    def columns(self, outputs: np.ndarray, labels: np.ndarray) -> dict[str, Sequence]:
        """What is written about every row, given logits."""
        scores = softmax(outputs, axis=-1).round(6)
        columns = {
            "label": [self.names[label] for label in labels],
            "prediction": [self.names[number] for number in outputs.argmax(-1)],
        }
        return columns | {f"score_{n}": scores[:, i] for i, n in enumerate(self.names)}

    def draw(
        self, reports: Mapping[str, dict], outputs: np.ndarray, labels: np.ndarray, folder: Path
    ) -> list[str]:
        """Pictures of the results, by name."""
        plot_confusion(reports["model"], folder / "confusion.png")
        return ["confusion.png", *_draw_by_length(reports, folder, "accuracy")]


class Labels:
    """The target of a classifier whose rows have any number of labels."""

    def __init__(self, names: Sequence[str]):
        self.names = list(names)

    def config_fields(self) -> dict:
        fields = Classes(self.names).config_fields()
        return fields | {"problem_type": "multi_label_classification"}

    def notes(self) -> list[str]:
        return ["Every label has a probability of its own; those above 0.5 are predicted."]

    def report(
        self,
        outputs: np.ndarray,
        labels: np.ndarray,
        lengths: Sequence[int] | np.ndarray | None = None,
        **options: Any,
    ) -> dict:
        return multi_label_report(outputs, labels, lengths, class_names=self.names, **options)

    def columns(self, outputs: np.ndarray, labels: np.ndarray) -> dict[str, Sequence]:
        scores = expit(outputs).round(6)
        columns = {"label": self._join(labels > 0.5), "prediction": self._join(outputs > 0)}
        return columns | {f"score_{n}": scores[:, i] for i, n in enumerate(self.names)}

    def draw(
        self, reports: Mapping[str, dict], outputs: np.ndarray, labels: np.ndarray, folder: Path
    ) -> list[str]:
        return _draw_by_length(reports, folder, "f1")

    def _join(self, marks: np.ndarray) -> list[str]:
        return [";".join(np.array(self.names)[row]) for row in marks]


class Amount:
    """The target of a regression: a number, which models see as it is or standardised.

    Args:
        mean, std: Of the target in the training part, if models see it standardised; results are in
            the target's own units.
        tolerance: By how much an answer may be off and still count as right.
    """

    def __init__(self, mean: float = 0.0, std: float = 1.0, tolerance: float | None = None):
        self.mean, self.std, self.tolerance = mean, std, tolerance
        self.is_in_model = False

    def config_fields(self) -> dict:
        return {"num_labels": 1, "problem_type": "regression"}

    @property
    def is_standardized(self) -> bool:
        return (self.mean, self.std) != (0, 1)

    def scale(self, values: np.ndarray) -> np.ndarray:
        """What models see of amounts."""
        return (np.asarray(values, dtype=np.float64) - self.mean) / self.std

    def put_into(self, model: PreTrainedModel) -> None:
        """Let the last layers of a classifier answer in the target's own units."""
        last: Any = model.classifier
        words: Any = getattr(model, "kmer_classifier", None)
        with torch.no_grad():
            for layer in (last, words):
                if layer is not None:
                    layer.weight *= self.std
            last.bias.mul_(self.std).add_(self.mean)
        self.is_in_model = True

    def notes(self) -> list[str]:
        if not self.is_standardized or self.is_in_model:
            return []
        return [
            f"The model answers in standard deviations: its output times {self.std:.6g} plus"
            f" {self.mean:.6g} is the amount."
        ]

    def report(
        self,
        outputs: np.ndarray,
        labels: np.ndarray,
        lengths: Sequence[int] | np.ndarray | None = None,
        **options: Any,
    ) -> dict:
        values = self._unscale(outputs), self._unscale(labels)
        report = regression_report(*values, lengths, tolerance=self.tolerance, **options)
        if not self.is_standardized:
            return report
        rmse = report["overall"]["rmse"]
        report["overall"]["rmse_standardized"] = {
            name: None if value is None else value / self.std for name, value in rmse.items()
        }
        return report

    def columns(self, outputs: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
        return {"target": self._unscale(labels), "prediction": self._unscale(outputs)}

    def draw(
        self, reports: Mapping[str, dict], outputs: np.ndarray, labels: np.ndarray, folder: Path
    ) -> list[str]:
        plot_scatter(self._unscale(outputs), self._unscale(labels), folder / "scatter.png")
        metric = "rmse" if self.tolerance is None else "within_tolerance"
        return ["scatter.png", *_draw_by_length(reports, folder, metric)]

    def _unscale(self, values: np.ndarray) -> np.ndarray:
        return np.ravel(values).astype(np.float64) * self.std + self.mean


Target = Classes | Labels | Amount


def _draw_by_length(reports: Mapping[str, dict], folder: Path, metric: str) -> list[str]:
    """Results by length, where there is more than one."""
    lengths = {
        (part["min_length"], part["max_length"]) for part in reports["model"].get("by_length", [])
    }
    if len(lengths) < 2:
        return []
    plot_by_length(reports, folder / "by_length.png", metric=metric)
    return ["by_length.png"]
