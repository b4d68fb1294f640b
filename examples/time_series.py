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
All numbers are of the test part, which is looked at once, at the end; with `--report_on validation`
it is not looked at at all.
"""

from dataclasses import dataclass, field

import numpy as np
from datasets import DatasetDict
from transformers import HfArgumentParser, PreTrainedModel

from hf_mixers.baselines import RandomKernelRidge
from hf_mixers.data import (
    FlatCollator,
    describe_classes,
    fix_lengths,
    format_classes,
    load_embedded_series,
)
from hf_mixers.data.other import SeriesScaler, load_aeon_series, load_time_series
from hf_mixers.recipes.supervised import (
    ModelOptions,
    SupervisedArguments,
    SupervisedOptions,
    build_model,
    choose_parts,
    name_source,
    run_supervised,
)
from hf_mixers.recipes.targets import Classes
from hf_mixers.training.processes import begin_run, run_as_script


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
class Arguments(SupervisedArguments):
    """Arguments of the Trainer, with defaults for this script."""

    output_dir: str | None = field(default="runs/time_series")
    num_train_epochs: float = field(default=100)
    learning_rate: float = field(default=1e-3)
    per_device_train_batch_size: int = field(default=16)
    eval_token_budget: int | None = field(default=65536)


def main(arguments: list[str] | None = None) -> dict:
    parser = HfArgumentParser((SeriesModelOptions, DataOptions, SupervisedOptions, Arguments))
    *options, training = parser.parse_args_into_dataclasses(arguments)
    model_options, data_options, run_options = options
    begin_run(training)
    parts = choose_parts(load_parts(data_options), run_options, training)
    for name, part in parts.items():
        print(f"{name}:\n{format_classes(describe_classes(part))}", flush=True)
    goal = Classes(parts["train"].features["label"].names)
    scaler = SeriesScaler.fit(parts["train"])
    rows = scaler.apply(parts)
    judged = rows[run_options.report_on]
    model = make_model(model_options, data_options, parts, goal)

    def random_kernels() -> np.ndarray:
        baseline = RandomKernelRidge(100 if run_options.smoke else 2000, seed=training.seed)
        train = rows["train"]
        labels = train["labels"][:]
        baseline.fit(train[:]["input_values"], labels, num_labels=len(goal.names))
        return baseline.predict_scores(judged[:]["input_values"])

    inputs = rows
    if model.config.pooling == "flat":
        inputs = fix_lengths(rows, model.config.max_position_embeddings)
    return run_supervised(
        model,
        training,
        inputs,
        goal,
        options=options,
        collator=FlatCollator(),
        baselines={"random kernels, ridge": random_kernels},
        dataset_name=data_options.name
        or data_options.aeon
        or name_source([data_options.data or "JapaneseVowels"]),
        task="tabular-classification",
        columns={name: judged[name][:] for name in ("id", "length")},
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
    is_left_open = options.preset is None and options.settings is None
    if options.family == "mrsformer" and is_embedded and is_left_open:
        options.preset = "japanese_vowels"
    channels = parts["train"].features["input_values"].shape[1]
    longest = max(max(part["length"]) for part in parts.values())
    return build_model(
        options,
        {"input_features": channels, **goal.config_fields()},
        suggestions={"max_position_embeddings": longest},
    )


if __name__ == "__main__":
    run_as_script(main)
