"""Model cards made from a run: every number in a card comes from the reports it is given.

The text is that of `card_template.md`. What a family has to say about its inputs and limits comes
from its config, so that any model of transformers can have a card.
"""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from jinja2 import Environment, StrictUndefined
from transformers import PreTrainedModel

from ..auto import FAMILIES
from ..metrics.statistics import MIN_ROWS_OF_INTERVAL
from ..privacy import name_path, strip_text
from .environment import run_environment
from .markup import escape, format_number, show, table
from .plots import metric_name
from .usage import usage_code

# names of the Hub for metrics that have another one here
HUB_METRICS = {"mcc": "matthews_correlation", "r2": "r_squared"}
# entries of a flat report that are no metrics
NO_METRICS = ("count", "confidence", "num_bootstrap", "seed", "tolerance", "threshold")
# what the tokenizer of the card's code reads
EXAMPLES = ("ACGTACGTAC", "GATTACA")


def make_card(
    model: PreTrainedModel,
    *,
    report: Mapping,
    dataset_name: str,
    task: str,
    base_model: str | None = None,
    training: Mapping | None = None,
    baselines: Mapping[str, Mapping] | None = None,
    plots: Mapping[str, str | Path] | Sequence[str | Path] | None = None,
    notes: Sequence[str] = (),
    license: str | None = None,
    versions: Mapping | None = None,
    has_tokenizer: bool = True,
    examples: Sequence[str] = EXAMPLES,
    sizes: Mapping[str, int] | None = None,
    smoke: bool = False,
) -> ModelCard:
    """The card of a trained model, with its results in the text and in the metadata.

    Names are escaped, and are base names where they are paths.

    Args:
        model: Any model of transformers.
        report: What `classification_report` or `regression_report` gave on the test rows, or
            plain numbers by name of the metric.
        dataset_name: Name of the data; `owner/name` is taken for that of a data set on the Hub.
        task: Pipeline tag of the Hub, such as `text-classification` or `fill-mask`.
        base_model: What the model was fine-tuned from, a name on the Hub or a folder.
        training: Settings of the run by name.
        baselines: Reports of other models on the same rows, by name.
        plots: Pictures that lie next to the card, as files or as files by caption.
        notes: What users must know, as sentences in Markdown.
        license: That of the model, as the Hub names it; None: the card claims none.
        versions: What `run_environment` gave where the model was trained, by default here.
        has_tokenizer: A model that reads tokens lies next to its tokenizer.
        examples: Texts that the code of the card hands to the tokenizer.
        sizes: Rows of every part of the data.
        smoke: A run of seconds; the card says so and has no results in its metadata.
    """
    training, baselines = dict(training or {}), dict(baselines or {})
    versions = run_environment(training.get("seed")) if versions is None else versions
    if not _metrics(report):
        raise ValueError(f"A card needs a report with metrics, got the keys {sorted(report)}.")
    name = " ".join(strip_text(dataset_name).split())
    data = _metadata(model, name, task, base_model, license, {} if smoke else report)
    text = _template().render(
        metadata=data.to_yaml(),
        title=f"{type(model).__name__} on {escape(name)}",
        smoke=smoke,
        description=_describe(model, name, base_model),
        sizes=", ".join(f"{part} {count:,}" for part, count in _sizes(report, sizes).items()),
        intervals=_explain_intervals(report),
        results=_results(report, baselines),
        by_class=_by_class(report),
        by_length=_by_length(report),
        few_rows=MIN_ROWS_OF_INTERVAL if _has_small_bins(report) else None,
        plots=_pictures(plots),
        code=usage_code(model, examples, has_tokenizer),
        notes=notes,
        settings=_settings(model, training, versions),
        limits=_limits(model, report),
    )
    return ModelCard(text)


def _template():
    """The template; blocks of it leave no empty lines behind."""
    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.globals["table"] = table
    text = files(__package__).joinpath("card_template.md").read_text(encoding="utf-8")
    return environment.from_string(text)


def _metadata(
    model: PreTrainedModel,
    dataset_name: str,
    task: str,
    base_model: str | None,
    license: str | None,
    report: Mapping,
) -> ModelCardData:
    model_type = model.config.model_type
    is_ours = model_type in FAMILIES
    slug = _slug(dataset_name.rpartition("/")[2])
    overall = _metrics(report)
    return ModelCardData(
        library_name="transformers",
        pipeline_tag=task,
        license=license,
        tags=[model_type, "hf_mixers", *(["long-sequences"] if is_ours else [])],
        datasets=[dataset_name] if _is_on_hub(dataset_name) else None,
        base_model=base_model if _is_on_hub(base_model) else None,
        metrics=[HUB_METRICS.get(name, name) for name in overall] or None,
        model_name=f"{model_type}-{slug}",
        eval_results=[
            EvalResult(
                task_type=task,
                dataset_type=slug,
                dataset_name=dataset_name,
                dataset_split="test",
                metric_type=HUB_METRICS.get(name, name),
                metric_name=_label(name, report),
                metric_value=metric["value"],
            )
            for name, metric in overall.items()
            if metric["value"] is not None
        ]
        or None,
    )


def _describe(model: PreTrainedModel, dataset_name: str, base_model: str | None) -> str:
    config = model.config
    blocks, width = (getattr(config, name, None) for name in ("num_hidden_layers", "hidden_size"))
    parts = [f"{model.num_parameters():,} parameters"]
    if isinstance(blocks, int) and isinstance(width, int):
        parts.append(f"{blocks} blocks of width {width}")
    is_ours = type(model).__module__.startswith("hf_mixers.")
    package = " of the package hf_mixers" if is_ours else ""
    sentences = [
        f"A `{config.model_type}` model{package} with {', '.join(parts)}, built for"
        f" {_describe_input(model)}, trained on {escape(dataset_name)}."
    ]
    if base_model:
        is_folder = not _is_on_hub(base_model)
        start = name_path(base_model) if is_folder else base_model
        sentences.append(f"It started from {escape(start)}.")
    if hasattr(config, "describe_answers"):
        sentences.append(config.describe_answers())
    return " ".join(sentences)


def _describe_input(model: PreTrainedModel) -> str:
    config, name = model.config, model.main_input_name
    if hasattr(config, "describe_input"):
        return config.describe_input()
    longest, size = (getattr(config, n, None) for n in ("max_position_embeddings", "image_size"))
    if name == "input_ids":
        return f"sequences of up to {longest:,} tokens" if longest else "sequences of tokens"
    if name == "pixel_values":
        return f"images of {size} x {size} pixels" if isinstance(size, int) else "images"
    return f"inputs called `{name}`"


def _label(name: str, report: Mapping) -> str:
    """The name of a metric, with the class that F1 is of."""
    of = f" ({report['f1_of']})" if name == "f1" and "f1_of" in report else ""
    return metric_name(name) + of


def _results(report: Mapping, baselines: Mapping[str, Mapping]) -> list[list[str]]:
    overall = _metrics(report)
    models = {"this model": overall} | {
        escape(name): _metrics(one) for name, one in baselines.items()
    }
    return [
        ["", *(escape(_label(name, report)) for name in overall)],
        *(
            [model, *(_cell(metrics.get(name)) for name in overall)]
            for model, metrics in models.items()
        ),
    ]


def _sizes(report: Mapping, sizes: Mapping[str, int] | None) -> Mapping[str, int]:
    return sizes or ({"test": report["count"]} if "count" in report else {})


def _explain_intervals(report: Mapping) -> str:
    if not report.get("num_bootstrap"):
        return ""
    return (
        f"In brackets: {100 * report['confidence']:g} % confidence intervals,"
        f" {report['num_bootstrap']:,} bootstrap draws of the test rows."
    )


def _by_class(report: Mapping) -> list[list[str]]:
    """Precision and recall of every class, if the report has them."""
    if not report.get("by_class"):
        return []
    metrics = ("precision", "recall", "f1")
    rows = [
        [escape(one["name"]), f"{one['count']:,}", *(format_number(one[name]) for name in metrics)]
        for one in report["by_class"]
    ]
    return [["class", "rows", *map(metric_name, metrics)], *rows]


def _by_length(report: Mapping) -> list[list[str]]:
    bins = report.get("by_length")
    if not bins:
        return []
    names = [name for name in _metrics(report) if name in bins[0]]
    rows = [
        [
            f"{part['from_percentile']:g} to {part['to_percentile']:g}",
            f"{part['min_length']:,} to {part['max_length']:,}",
            f"{part['count']:,}",
            *(_cell(part[name]) for name in names),
        ]
        for part in bins
    ]
    return [["percentile", "length", "rows", *(escape(_label(n, report)) for n in names)], *rows]


def _has_small_bins(report: Mapping) -> bool:
    counts = [part["count"] for part in report.get("by_length") or []]
    return bool(report.get("num_bootstrap")) and min(counts, default=10**9) < MIN_ROWS_OF_INTERVAL


def _pictures(plots: Mapping | Sequence | None) -> list[tuple[str, str]]:
    if not isinstance(plots, Mapping):
        plots = {Path(path).stem.replace("_", " "): path for path in plots or ()}
    # a card is read far from the folders of the run
    places = {
        caption: Path(path).name if Path(path).is_absolute() else Path(path).as_posix()
        for caption, path in plots.items()
    }
    return [(escape(caption), place) for caption, place in places.items()]


def _settings(model: PreTrainedModel, training: Mapping, versions: Mapping) -> list[list[str]]:
    rows = [["setting", "value"], ["parameters", f"{model.num_parameters():,}"]]
    rows += [[escape(name.replace("_", " ")), show(value)] for name, value in training.items()]
    if "seed" not in training and versions.get("seed") is not None:
        rows.append(["seed", show(versions["seed"])])
    for kind in ("machine", "versions"):
        rows += [[name, show(value)] for name, value in versions.get(kind, {}).items()]
    return rows


def _limits(model: PreTrainedModel, report: Mapping) -> list[str]:
    points = []
    if report.get("by_length"):
        low = min(part["min_length"] for part in report["by_length"])
        high = max(part["max_length"] for part in report["by_length"])
        points.append(f"Evaluated on lengths of {low:,} to {high:,}; nothing is known beyond.")
    if hasattr(model.config, "describe_limits"):
        points += model.config.describe_limits()
    if report.get("by_class"):
        points.append("It always answers with one of the classes it was trained on.")
    if report.get("num_bootstrap"):
        points.append(
            "Intervals show the uncertainty from the choice of test rows, not that of another"
            " training run or of data from elsewhere; without a wrong row they have no width,"
            " however few the rows."
        )
    return points


def _metrics(report: Mapping) -> dict[str, dict]:
    """Metrics by name, each with a value and maybe an interval."""
    found = {}
    for name, metric in report.get("overall", report).items():
        if isinstance(metric, Mapping):
            found[name] = dict(metric)
        elif isinstance(metric, (int, float)) and name not in NO_METRICS:
            found[name] = {"value": metric}
    return found


def _cell(metric: Mapping | None) -> str:
    if metric is None:
        return ""
    value = format_number(metric["value"])
    if metric.get("low") is None:
        return value
    return f"{value} [{format_number(metric['low'])}, {format_number(metric['high'])}]"


def _is_on_hub(name: str | None) -> bool:
    """Whether a name can be that of a repository `owner/name`, and is no file or folder here."""
    is_id = name is not None and re.fullmatch(r"[\w.-]+/[\w.-]+", name) is not None
    return is_id and not Path(name).exists()


def _slug(name: str) -> str:
    return re.sub(r"[^\w./-]+", "-", name).strip("-") or "data"
