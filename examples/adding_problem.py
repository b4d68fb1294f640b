"""The adding problem with sequences of very different lengths (ChordMixer paper, section 4.1).

    python examples/adding_problem.py --base_length 200 --output_dir runs/adding_200

Two numbers of a sequence are marked; the model must give their sum. An answer is right if it is off
by less than 0.04; always answering 0.5 is right in 15.4% of cases. Training can be stopped at any
time and taken up again with --resume_from_checkpoint true. Data are made on the fly, from the seed.

A model of shorter sequences is a good start for longer ones, if it is built for them:

    python examples/adding_problem.py --base_length 200 --output_dir runs/adding_200 \
        --settings '{"max_position_embeddings": 31800}'
    python examples/adding_problem.py --base_length 1000 --output_dir runs/adding_1000 \
        --checkpoint runs/adding_200
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from transformers import AutoModelForSequenceClassification, HfArgumentParser

from hf_mixers import FAMILIES
from hf_mixers.data import FlatCollator, adding_problem
from hf_mixers.metrics import overall_values, regression_report
from hf_mixers.plots import plot_by_length, plot_scatter
from hf_mixers.processes import begin_run, hand_over, run_as_script
from hf_mixers.runs import (
    RunArguments,
    parse_resume,
    parse_settings,
    print_overall,
    write_run,
    write_table,
)
from hf_mixers.training import MixerTrainer


@dataclass
class Options:
    """Task and model."""

    base_length: int = field(
        default=200, metadata={"help": "200, 1000, 16000 or 128000 in the paper."}
    )
    longest: int | None = field(
        default=None, metadata={"help": "Longest sequence; default: the paper's cap."}
    )
    family: str = field(default="chordmixer", metadata={"help": "Family of the model."})
    settings: str = field(
        default="{}",
        metadata={"help": "JSON of config fields that differ from the published ones."},
    )
    checkpoint: str | None = field(
        default=None,
        metadata={"help": "Folder of a model to go on from, such as one of shorter sequences."},
    )
    num_train: int = field(default=50_000, metadata={"help": "Training examples of an epoch."})
    num_eval: int = field(default=1_000, metadata={"help": "Validation examples."})
    num_test: int = field(default=5_000, metadata={"help": "Test examples."})
    smoke: bool = field(default=False, metadata={"help": "A run of seconds, to see that it works."})


@dataclass
class Arguments(RunArguments):
    """Arguments of the Trainer, with defaults for this script."""

    output_dir: str | None = field(default="runs/adding")
    num_train_epochs: float = field(default=20)
    learning_rate: float = field(default=1e-3)
    load_best_model_at_end: bool = field(default=True)
    metric_for_best_model: str = field(default="within_tolerance")


def main(arguments: list[str] | None = None) -> dict:
    options, training = HfArgumentParser((Options, Arguments)).parse_args_into_dataclasses(
        arguments
    )
    begin_run(training)
    if options.smoke:
        options.num_train, options.num_eval, options.num_test = 64, 16, 16
        options.longest, training.num_train_epochs = 400, 1
    train, validation, test = (
        adding_problem(count, options.base_length, options.longest, 3 * training.seed + part)
        for part, count in enumerate((options.num_train, options.num_eval, options.num_test))
    )
    model = build_model(options, train.longest)
    print(f"{type(model).__name__}: {model.num_parameters():,} parameters", flush=True)
    trainer = MixerTrainer(
        model,
        training,
        train_dataset=train,
        eval_dataset=validation,
        data_collator=FlatCollator(),
        compute_metrics=lambda p: headline(p.predictions, p.label_ids),
    )
    trainer.train(resume_from_checkpoint=parse_resume(training))

    folder = Path(training.output_dir)
    predicted = trainer.predict(test)
    if not hand_over(trainer):
        return {}
    predictions, targets = predicted.predictions[:, 0], predicted.label_ids
    reports = {
        "model": regression_report(predictions, targets, test.lengths),
        "always 0.5": regression_report(np.full_like(targets, 0.5), targets, test.lengths),
    }
    plot_by_length(reports, folder / "by_length.png", metric="within_tolerance")
    plot_scatter(predictions, targets, folder / "scatter.png")
    columns = {"length": test.lengths, "target": targets, "prediction": predictions}
    write_table(folder / "predictions.csv", columns)
    results = write_run(
        trainer,
        reports,
        options=[options],
        dataset_name=f"adding problem, base length {options.base_length}",
        task="tabular-regression",
        plots=["by_length.png", "scatter.png"],
    )
    print_overall(reports)
    print(f"Everything is in {folder}/", flush=True)
    return results


def build_model(options: Options, longest: int):
    """A regression model for two features per step, new or from a checkpoint."""
    if options.checkpoint:
        return AutoModelForSequenceClassification.from_pretrained(options.checkpoint)
    family = FAMILIES[options.family]
    settings = {
        "input_features": 2,
        "num_labels": 1,
        "problem_type": "regression",
        "max_position_embeddings": longest,
        **parse_settings(options.settings),
    }
    if options.family != "chordmixer":
        return family.sequence_classification(family.config(**settings))
    published = f"adding_{options.base_length}"
    if published not in family.config.presets:
        published = "adding_200"
    config = family.config.preset(published, **{"block_order": "rotate_mix", **settings})
    return family.sequence_classification(config)


def headline(predictions: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """The metrics without intervals, for evaluation while training."""
    return overall_values(regression_report(predictions, targets, num_bootstrap=0))


if __name__ == "__main__":
    run_as_script(main)
