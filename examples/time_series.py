"""Classify time series of any lengths and numbers of channels, next to a quick strong baseline.

Without arguments it trains a MrsFormer with the supplement's settings, but in steps of 16 series
instead of 128, on the vowels that come with the package (270 utterances of nine speakers; 370 for
testing):

    python examples/time_series.py --output_dir runs/vowels

Variants of that model, such as another kind of attention in its heads:

    python examples/time_series.py --preset japanese_vowels --settings '{"attention_type": "fmm"}'

Your own series: .ts files of the UEA and UCR archives, .npz files, or a set by name if aeon is
installed:

    python examples/time_series.py --data Heartbeat/ --preset heartbeat --output_dir runs/heartbeat
    python examples/time_series.py --aeon BasicMotions --family chordmixer --output_dir runs/motions

Channels are brought to mean 0 and deviation 1 of the training part. The best epoch is chosen on a
part of the training series; `--validation_fraction 0` trains on all of them and keeps the last one.
Results are of the test part; with `--report_on validation` it is not read.
"""

from dataclasses import dataclass, field

import numpy as np
from datasets import DatasetDict
from transformers import HfArgumentParser, PreTrainedModel

from hf_mixers.baselines import RandomKernelRidge
from hf_mixers.cli import run_as_script
from hf_mixers.data import FlatCollator, SplitOptions, fix_lengths, load_embedded_series, make_parts
from hf_mixers.data.other import SeriesScaler, load_aeon_series, load_time_series
from hf_mixers.recipes.models import new_model
from hf_mixers.recipes.options import (
    ModelOptions,
    RowArguments,
    RowEvaluationOptions,
    change_arguments,
)
from hf_mixers.recipes.path import (
    Report,
    begin_run,
    longest_sequence,
    name_source,
    report_outputs,
    save_model,
    shrink,
    train_model,
)
from hf_mixers.recipes.targets import Classes


@dataclass
class SeriesModelOptions(ModelOptions):
    """Which model."""

    family: str = field(default="mrsformer", metadata={"help": "Family of the model."})


@dataclass
class DataOptions:
    """Which series."""

    data: str | None = field(
        default=None,
        metadata={"help": "A .ts or .npz file or a folder; default: the embedded vowels."},
    )
    name: str | None = field(
        default=None, metadata={"help": "Which set, where --data has several."}
    )
    aeon: str | None = field(
        default=None, metadata={"help": "A set by name, through aeon, in place of --data."}
    )


@dataclass
class Arguments(RowArguments):
    """Arguments of the Trainer, with defaults for this script."""

    output_dir: str | None = field(default="runs/time_series")
    num_train_epochs: float = field(default=100)
    learning_rate: float = field(default=1e-3)
    per_device_train_batch_size: int = field(default=16)
    eval_token_budget: int | None = field(default=65536)


def main(arguments: list[str] | None = None) -> dict:
    sections = (SeriesModelOptions, DataOptions, SplitOptions, RowEvaluationOptions, Arguments)
    *options, training = HfArgumentParser(sections).parse_args_into_dataclasses(arguments)
    model_options, data, split, evaluation = options
    begin_run(training, smoke=evaluation.smoke)
    parts = make_parts(load_parts(data), split, required=evaluation.report_on)
    if evaluation.smoke:
        parts, training = shrink(parts), change_arguments(training, num_train_epochs=1)
    target = Classes(parts["train"].features["label"].names)
    scaler = SeriesScaler.fit(parts["train"])
    series = scaler.apply(parts)
    model = make_model(model_options, data, parts, target)
    rows = series
    if model.config.pooling == "flat":
        rows = fix_lengths(series, model.config.max_position_embeddings)
    trainer = train_model(
        model, training, rows, target, patience=evaluation.patience, data_collator=FlatCollator()
    )
    part = evaluation.report_on
    predicted = trainer.predict(rows[part])
    if not save_model(trainer):
        return {}
    outputs = {"model": predicted.predictions}
    if evaluation.baseline:
        kernels = RandomKernelRidge(100 if evaluation.smoke else 2000, seed=training.seed)
        outputs["random kernels, ridge"] = fit_kernels(kernels, series, part, len(target.names))
    report = Report(
        part=part,
        dataset_name=data.name or data.aeon or name_source([data.data or "JapaneseVowels"]),
        task="tabular-classification",
        options=dict(zip(("model", "data", "split", "evaluation"), options, strict=True)),
        columns={name: series[part][name][:] for name in ("id", "length")},
        preparation=scaler,
    )
    return report_outputs(trainer, outputs, predicted.label_ids, target, report)


def load_parts(options: DataOptions) -> DatasetDict:
    """The parts that the data come in."""
    if options.data is not None and options.aeon is not None:
        raise ValueError("--data and --aeon were given together: one of them is accepted.")
    if options.aeon is not None:
        return load_aeon_series(options.aeon)
    if options.data is not None:
        return load_time_series(options.data, options.name)
    return load_embedded_series()


def make_model(
    options: ModelOptions, data: DataOptions, parts: DatasetDict, target: Classes
) -> PreTrainedModel:
    """A new model for the channels and lengths at hand."""
    is_embedded = data.data is None and data.aeon is None
    is_left_open = options.preset is None and not options.config_fields()
    if options.family == "mrsformer" and is_embedded and is_left_open:
        options = ModelOptions("mrsformer", preset="japanese_vowels")
    channels = parts["train"].features["input_values"].shape[1]
    return new_model(
        options,
        {"input_features": channels, **target.config_fields()},
        suggestions={"max_position_embeddings": longest_sequence(parts)},
    )


def fit_kernels(
    kernels: RandomKernelRidge, series: DatasetDict, part: str, num_labels: int
) -> np.ndarray:
    """Scores of the baseline for the series of a part."""
    train = series["train"]
    kernels.fit(train[:]["input_values"], train["labels"][:], num_labels=num_labels)
    return kernels.predict_scores(series[part][:]["input_values"])


if __name__ == "__main__":
    run_as_script(main)
