"""Model cards made from a run: every number in a card comes from the reports it is given."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from transformers import PreTrainedConfig, PreTrainedModel

from ..auto import FAMILIES, AutoModelForSequencePairClassification
from .environment import run_environment
from .plots import metric_name

# names of the Hub for metrics that have another one here
HUB_METRICS = {"mcc": "matthews_correlation", "r2": "r_squared"}
# entries of a flat report that are no metrics
NO_METRICS = ("count", "confidence", "num_bootstrap", "seed", "tolerance", "threshold")


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
    license: str = "apache-2.0",
    versions: Mapping | None = None,
    has_tokenizer: bool = True,
) -> ModelCard:
    """The card of a trained model, with its results in the text and in the metadata.

    Args:
        report: what `classification_report` or `regression_report` gave on the test rows, or
            plain numbers by name of the metric.
        dataset_name: name of the data; `owner/name` is taken for that of a data set on the Hub.
        task: pipeline tag of the Hub, such as `text-classification` or `fill-mask`.
        base_model: what the model was fine-tuned from, a name on the Hub or a folder.
        training: settings of the run by name.
        baselines: reports of other models on the same rows, by name.
        plots: pictures that lie beside the card, as files or as files by caption.
        notes: what users must know, as sentences.
        versions: what `run_environment` gave where the model was trained, by default here.
        has_tokenizer: a model that reads tokens lies beside its tokenizer.
    """
    training, baselines = dict(training or {}), dict(baselines or {})
    versions = run_environment(training.get("seed")) if versions is None else versions
    overall = _metrics(report)
    if not overall:
        raise ValueError(f"A card needs a report with metrics, got the keys {sorted(report)}.")
    model_type = model.config.model_type
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag=task,
        license=license,
        tags=[model_type, "hf_mixers", "long-sequences"],
        datasets=[dataset_name] if _is_on_hub(dataset_name) else None,
        base_model=base_model if _is_on_hub(base_model) else None,
        metrics=[HUB_METRICS.get(name, name) for name in overall],
        model_name=f"{model_type}-{_slug(dataset_name.rpartition('/')[2])}",
        eval_results=[
            EvalResult(
                task_type=task,
                dataset_type=_slug(dataset_name.rpartition("/")[2]),
                dataset_name=dataset_name,
                dataset_split="test",
                metric_type=HUB_METRICS.get(name, name),
                metric_name=metric_name(name),
                metric_value=metric["value"],
            )
            for name, metric in overall.items()
            if metric["value"] is not None
        ],
    )
    sections = [
        f"# {type(model).__name__} on {dataset_name}",
        _describe(model, dataset_name, base_model),
        "## Results",
        _results(report, baselines),
        *_by_length(report),
        *_pictures(plots),
        "## How to use",
        _usage(model, has_tokenizer),
        *notes,
        "## Training",
        _settings(model, training, versions),
        "## Limits",
        _limits(model, report),
    ]
    return ModelCard(f"---\n{data.to_yaml()}\n---\n\n" + "\n\n".join(sections) + "\n")


def format_number(value: float | None) -> str:
    """A number with three digits after the point, or three that count if it is small.

    >>> format_number(0.93614), format_number(0.0012345), format_number(3), format_number(None)
    ('0.936', '0.00123', '3', 'undefined')
    """
    if value is None:
        return "undefined"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3f}" if value == 0 or abs(value) >= 0.1 else f"{value:.3g}"


def _describe(model: PreTrainedModel, dataset_name: str, base_model: str | None) -> str:
    config = model.config
    start = f" It started from `{base_model}`." if base_model else ""
    return (
        f"A `{config.model_type}` model of the package hf_mixers with"
        f" {model.num_parameters():,} parameters, {config.num_hidden_layers} blocks of width"
        f" {config.hidden_size}, built for {_describe_input(config)}, trained on"
        f" {dataset_name}.{start} An example gets the same answer alone, padded or batched with"
        " others."
    )


def _describe_input(config: PreTrainedConfig) -> str:
    if config.main_input == "pixel_values":
        size = config.image_size
        return f"images of {size} x {size} pixels in {config.num_channels} channels"
    if config.main_input == "numeric_values":
        numbers, categories = config.num_numeric_features or 0, len(config.category_sizes or ())
        return f"tables with {numbers} columns of numbers and {categories} of categories"
    return f"sequences of up to {config.max_position_embeddings:,} tokens"


def _results(report: Mapping, baselines: Mapping[str, Mapping]) -> str:
    overall = _metrics(report)
    columns = {"this model": overall} | {name: _metrics(r) for name, r in baselines.items()}
    names = list(overall)
    table = _table(
        ["", *(metric_name(name) for name in names)],
        [
            [model, *(_cell(metrics.get(name)) for name in names)]
            for model, metrics in columns.items()
        ],
    )
    count = f"Test rows: {report['count']:,}. " if "count" in report else ""
    return f"{count}{_explain_intervals(report)}\n\n{table}".lstrip()


def _explain_intervals(report: Mapping) -> str:
    if not report.get("num_bootstrap"):
        return ""
    return (
        f"In brackets: {100 * report['confidence']:g} % confidence intervals,"
        f" {report['num_bootstrap']:,} bootstrap draws of the test rows."
    )


def _by_length(report: Mapping) -> Iterator[str]:
    if not report.get("by_length"):
        return
    yield "### By length"
    names = [name for name in _metrics(report) if name in report["by_length"][0]]
    rows = [
        [
            f"{part['from_percentile']:g} to {part['to_percentile']:g}",
            f"{part['min_length']:,} to {part['max_length']:,}",
            f"{part['count']:,}",
            *(_cell(part[name]) for name in names),
        ]
        for part in report["by_length"]
    ]
    yield _table(["percentile", "length", "rows", *(metric_name(name) for name in names)], rows)


def _pictures(plots: Mapping | Sequence | None) -> Iterator[str]:
    if not plots:
        return
    if not isinstance(plots, Mapping):
        plots = {Path(path).stem.replace("_", " "): path for path in plots}
    for caption, path in plots.items():
        # a card is read far from the folders of the run
        place = Path(path).name if Path(path).is_absolute() else Path(path).as_posix()
        yield f"![{caption}]({place})"


def _usage(model: PreTrainedModel, has_tokenizer: bool) -> str:
    auto, is_pair = _auto_class(model)
    config = model.config
    has_tokenizer = has_tokenizer and config.main_input == "input_ids"
    of_transformers = [auto] * (not is_pair) + ["AutoTokenizer"] * has_tokenizer
    lines = ["import torch"]
    if of_transformers:
        lines.append(f"from transformers import {', '.join(of_transformers)}")
    lines += ["", "import hf_mixers  # registers the Auto classes"]
    if is_pair:
        lines.append(f"from hf_mixers import {auto}")
    lines += [
        "",
        'checkpoint = "."  # the folder of this card, or the name of its repository',
        f"model = {auto}.from_pretrained(checkpoint).eval()",
    ]
    if has_tokenizer:
        # padding of flat models is read as a token
        padding = "padding=True"
        if config.pooling == "flat":
            padding = f'padding="max_length", max_length={config.max_position_embeddings}, '
            padding += "return_attention_mask=False"
        lines += [
            "tokenizer = AutoTokenizer.from_pretrained(checkpoint)",
            'texts = ["ACGTACGTAC", "GATTACA"]',
            f'inputs = tokenizer(texts, {padding}, return_tensors="pt")',
        ]
    else:
        lines.append(f"inputs = {{{', '.join(_made_up_inputs(config))}}}")
    if is_pair:
        lines.append('inputs |= {f"{name}_2": value for name, value in inputs.items()}')
        if config.num_tasks is not None:
            lines.append('inputs["task_ids"] = torch.tensor([0, 0])')
    field = "last_hidden_state" if auto == "AutoModel" else "logits"
    lines += [
        "with torch.no_grad():",
        f"    output = model(**inputs).{field}",
        "print(output.shape)",
    ]
    return "```python\n" + "\n".join(lines) + "\n```"


def _made_up_inputs(config: PreTrainedConfig) -> Iterator[str]:
    """Code for two examples of what a model without a tokenizer reads."""
    length = config.max_position_embeddings if config.pooling == "flat" else 10
    if config.main_input == "input_ids":
        yield f'"input_ids": torch.randint({config.vocab_size}, (2, {length}))'
    elif config.main_input == "input_values":
        yield f'"input_values": torch.randn(2, {length}, {config.input_features})'
    elif config.main_input == "pixel_values":
        shape = f"2, {config.num_channels}, {config.image_size}, {config.image_size}"
        yield f'"pixel_values": torch.randn({shape})'
    else:
        if config.num_numeric_features:
            yield f'"numeric_values": torch.randn(2, {config.num_numeric_features})'
        if config.category_sizes:
            size = f"2, {len(config.category_sizes)}"
            yield f'"category_ids": torch.zeros({size}, dtype=torch.long)'


def _auto_class(model: PreTrainedModel) -> tuple[str, bool]:
    """The Auto class that loads a model, and whether it is one of this package."""
    family = FAMILIES.get(model.config.model_type)
    if family is None:
        raise ValueError(
            f"Cards are for {', '.join(FAMILIES)}, got model_type={model.config.model_type!r}."
        )
    found = [auto for auto, kind in family.models.items() if type(model) is kind]
    if not found:
        raise ValueError(f"Cards are for models with an Auto class, got {type(model).__name__}.")
    return found[0].__name__, found[0] is AutoModelForSequencePairClassification


def _settings(model: PreTrainedModel, training: Mapping, versions: Mapping) -> str:
    rows = [["parameters", f"{model.num_parameters():,}"]]
    rows += [[name.replace("_", " "), _show(value)] for name, value in training.items()]
    if "seed" not in training and versions.get("seed") is not None:
        rows.append(["seed", _show(versions["seed"])])
    rows += [[name, _show(value)] for name, value in versions.get("machine", {}).items()]
    rows += [[name, _show(value)] for name, value in versions.get("versions", {}).items()]
    return _table(["setting", "value"], rows)


def _limits(model: PreTrainedModel, report: Mapping) -> str:
    points = []
    if report.get("by_length"):
        low = min(part["min_length"] for part in report["by_length"])
        high = max(part["max_length"] for part in report["by_length"])
        points.append(
            f"Measured on sequences of {low:,} to {high:,} tokens; nothing is known beyond."
        )
    if model.config.main_input in ("input_ids", "input_values"):
        points.append(_limit_length(model.config))
    if report.get("confusion_matrix"):
        counts = [sum(row) for row in report["confusion_matrix"]]
        names = report.get("class_names") or range(len(counts))
        shares = ", ".join(f"{name} {n:,}" for name, n in zip(names, counts, strict=True))
        points.append(
            f"It always answers with one of the classes it was trained on (test rows: {shares})."
        )
    if report.get("num_bootstrap"):
        points.append(
            "Intervals tell the chance in the choice of test rows, not that of another training"
            " run, nor of data from elsewhere; without a wrong row they have no width, however few"
            " the rows."
        )
    return "\n".join(f"- {point}" for point in points)


def _limit_length(config: PreTrainedConfig) -> str:
    longest = f"{config.max_position_embeddings:,}"
    if config.pooling == "flat":
        return f"Reads sequences of exactly {longest} tokens; others are refused."
    if config.length_limit is not None:
        return f"Reads up to {longest} tokens; longer sequences are refused."
    if hasattr(config, "attention_type"):
        return f"Built for up to {longest} tokens; longer sequences are read as well."
    return f"Built for up to {longest} tokens; the ends of longer ones may not hear each other."


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


def _show(value) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_show, value))
    # a bar would end the cell of the table
    return str(value).replace("|", "\\|").replace("\n", " ")


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _is_on_hub(name: str | None) -> bool:
    """Whether a name can be that of a repository `owner/name`, and is no file or folder here."""
    is_id = name is not None and re.fullmatch(r"[\w.-]+/[\w.-]+", name) is not None
    return is_id and not Path(name).exists()


def _slug(name: str) -> str:
    return re.sub(r"[^\w./-]+", "-", name).strip("-")
