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
from functools import partial

from transformers import AutoModelForSequenceClassification, HfArgumentParser

from hf_mixers.data import adding_problem
from hf_mixers.recipes.options import RunArguments, parse_settings
from hf_mixers.recipes.supervised import find_family
from hf_mixers.recipes.synthetic import SyntheticOptions, run_synthetic
from hf_mixers.recipes.targets import Amount
from hf_mixers.training.processes import begin_run, run_as_script


@dataclass
class Options(SyntheticOptions):
    """Task and model."""

    base_length: int = field(
        default=200, metadata={"help": "200, 1000, 16000 or 128000 in the paper."}
    )
    longest: int | None = field(
        default=None, metadata={"help": "Longest sequence; default: the paper's cap."}
    )
    checkpoint: str | None = field(
        default=None,
        metadata={"help": "Folder of a model to go on from, such as one of shorter sequences."},
    )
    num_train: int = field(default=50_000, metadata={"help": "Training examples of an epoch."})
    num_test: int = field(default=5_000, metadata={"help": "Test examples."})

    def __post_init__(self):
        super().__post_init__()
        if self.checkpoint and self.settings != "{}":
            raise SystemExit("--settings are for new models, not for --checkpoint.")


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
        options.longest, training.num_train_epochs = 400, 1
    return run_synthetic(
        partial(adding_problem, base_length=options.base_length, longest=options.longest),
        partial(build_model, options),
        Amount(tolerance=0.04),
        options,
        training,
        guesses={"always 0.5": 0.5},
        dataset_name=f"adding problem, base length {options.base_length}",
        task="tabular-regression",
    )


def build_model(options: Options, longest: int):
    """A regression model for two features per step, new or from a checkpoint."""
    if options.checkpoint:
        return AutoModelForSequenceClassification.from_pretrained(options.checkpoint)
    family = find_family(options.family)
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


if __name__ == "__main__":
    run_as_script(main)
