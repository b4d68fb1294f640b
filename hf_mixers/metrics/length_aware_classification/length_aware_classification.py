"""The classification report of hf_mixers as a metric of `evaluate`."""

import datasets
import evaluate

from hf_mixers.metrics import classification_report

_DESCRIPTION = """
Accuracy, balanced accuracy, F1, Matthews correlation and ROC-AUC (from scores) of a classifier,
overall and by percentile of length, with bootstrap confidence intervals.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions: logits or probabilities, one list per row, or one score of class 1 per row.
    references: class numbers.
    lengths: optional, the length of each row, in the order of the predictions.
    Further arguments are those of hf_mixers.metrics.classification_report.
Returns:
    The value of each metric under its name, and the whole report: overall, by_length, count, ...
"""


class LengthAwareClassification(evaluate.Metric):
    """Scores of a classifier, overall and by length.

    >>> metric = LengthAwareClassification()
    >>> result = metric.compute(
    ...     predictions=[0.1, 0.9, 0.8], references=[0, 1, 0], lengths=[5, 5, 9], num_bootstrap=10
    ... )
    >>> result["roc_auc"], [part["count"] for part in result["by_length"]]
    (1.0, [2, 1])
    """

    def _info(self) -> evaluate.MetricInfo:
        number, label = datasets.Value("float64"), datasets.Value("int64")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="",
            inputs_description=_KWARGS_DESCRIPTION,
            features=[
                datasets.Features({"predictions": datasets.List(number), "references": label}),
                datasets.Features({"predictions": number, "references": label}),
            ],
        )

    def _compute(self, predictions, references, lengths=None, **settings) -> dict:
        report = classification_report(predictions, references, lengths, **settings)
        values = {name: metric["value"] for name, metric in report["overall"].items()}
        return values | report
