"""Classify time series of any lengths and numbers of channels, next to a quick strong baseline.

Without arguments it trains a MrsFormer with the supplement's settings on the vowels that come with
the package (270 utterances of nine speakers; 370 for testing):

    python examples/time_series.py --output_dir runs/vowels

Your own series: .ts files of the UEA and UCR archives, .npz files, or a set by name if aeon is
installed:

    python examples/time_series.py --data Heartbeat/ --preset heartbeat --output_dir runs/heartbeat
    python examples/time_series.py --aeon BasicMotions --family chordmixer --output_dir runs/motions

Channels are brought to mean 0 and deviation 1 of the training part. The best epoch is chosen on a
part of the training series; `--validation_fraction 0` trains on all of them and keeps the last one.
All numbers are of the test part, which is looked at once, at the end; with `--report_on validation`
it is not looked at at all.
"""

import sys
from dataclasses import dataclass, field

import numpy as np
from datasets import DatasetDict
from transformers import HfArgumentParser, PreTrainedModel, set_seed

from hf_mixers.baselines import RandomKernelRidge
from hf_mixers.data import (
    FlatCollator,
    SeriesScaler,
    describe_classes,
    fix_lengths,
    format_classes,
    load_aeon_series,
    load_embedded_series,
    load_time_series,
    subset_stratified,
)
from hf_mixers.runs import RunArguments
from hf_mixers.supervised import (
    Classes,
    ModelOptions,
    SupervisedOptions,
    build_model,
    choose_parts,
    judge_model,
    name_source,
    train_model,
)


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
class Arguments(RunArguments):
    """Arguments of the Trainer, with defaults for this script."""

    output_dir: str | None = field(default="runs/time_series")
    num_train_epochs: float = field(default=100)
    learning_rate: float = field(default=1e-3)
    train_token_budget: int | None = field(default=None)
    per_device_train_batch_size: int = field(default=16)
    load_best_model_at_end: bool = field(default=True)
    metric_for_best_model: str = field(default="loss")
    # the ids and lengths of series go as far as the collator
    remove_unused_columns: bool = field(default=False)


@dataclass
class RunOptions(SupervisedOptions):
    """How settings are chosen and results reported."""

    patience: int = field(
        default=20, metadata={"help": "Stop after so many evaluations without a better one."}
    )


def main(arguments: list[str] | None = None) -> dict:
    parser = HfArgumentParser((SeriesModelOptions, DataOptions, RunOptions, Arguments))
    parsed = parser.parse_args_into_dataclasses(arguments)
    model_options, data_options, run_options, training = parsed
    set_seed(training.seed)
    parts = choose_parts(load_parts(data_options), run_options, training.seed)
    if run_options.smoke:
        training.num_train_epochs = 1
        for part in parts:
            parts[part] = subset_stratified(parts[part], min(1, 40 / len(parts[part])))
    for name, part in parts.items():
        print(f"{name}:\n{format_classes(describe_classes(part))}", flush=True)
    goal = Classes(parts["train"].features["label"].names)
    scaler = SeriesScaler.fit(parts["train"])
    rows = scaler.apply(parts)
    model = make_model(model_options, data_options, parts, goal)
    inputs = rows
    if model.config.pooling == "flat":
        inputs = fix_lengths(rows, model.config.max_position_embeddings)
    trainer = train_model(
        model,
        training,
        inputs,
        goal,
        patience=run_options.patience,
        data_collator=FlatCollator(),
    )
    judged = run_options.report_on

    def random_kernels() -> np.ndarray:
        baseline = RandomKernelRidge(100 if run_options.smoke else 2000, seed=training.seed)
        baseline.fit(rows["train"][:]["input_values"], rows["train"]["labels"][:])
        return baseline.predict_scores(rows[judged][:]["input_values"])

    return judge_model(
        trainer,
        inputs[judged],
        goal,
        part=judged,
        baselines={"random kernels, ridge": random_kernels} if run_options.baseline else {},
        options=parsed[:3],
        dataset_name=data_options.name
        or data_options.aeon
        or name_source([data_options.data or "JapaneseVowels"]),
        task="tabular-classification",
        columns={name: rows[judged][name][:] for name in ("id", "length")},
        preparation=scaler,
    )


def load_parts(options: DataOptions) -> DatasetDict:
    """The parts that the data come in."""
    if options.data is not None and options.aeon is not None:
        raise SystemExit("--data and --aeon were given together: one of them is accepted.")
    if options.aeon is not None:
        return load_aeon_series(options.aeon)
    if options.data is not None:
        return load_time_series(options.data, options.name)
    return load_embedded_series()


def make_model(
    options: ModelOptions, data_options: DataOptions, parts: DatasetDict, goal: Classes
) -> PreTrainedModel:
    """A new model for the channels and lengths at hand."""
    is_embedded = data_options.data is None and data_options.aeon is None
    if options.family == "mrsformer" and is_embedded and not options.preset:
        options.preset = "japanese_vowels"
    channels = parts["train"].features["input_values"].shape[1]
    longest = max(max(part["length"]) for part in parts.values())
    return build_model(
        options,
        {"input_features": channels, **goal.config_fields()},
        suggestions={"max_position_embeddings": longest},
    )


if __name__ == "__main__":
    main(sys.argv[1:])
