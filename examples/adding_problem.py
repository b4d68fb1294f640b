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

from transformers import AutoModelForSequenceClassification, HfArgumentParser, PreTrainedModel

from hf_mixers.cli import run_as_script
from hf_mixers.recipes.models import find_family
from hf_mixers.recipes.options import RunArguments, change_arguments, parse_settings
from hf_mixers.recipes.path import begin_run
from hf_mixers.recipes.synthetic import SyntheticOptions, make_rows, train_synthetic
from hf_mixers.recipes.targets import Amount
from hf_mixers.tasks import adding_problem


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
        if self.smoke:
            self.longest = 400
        if self.checkpoint and self.settings != "{}":
            raise ValueError("--settings are for new models, not for --checkpoint.")


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
    begin_run(training, smoke=options.smoke)
    if options.smoke:
        training = change_arguments(training, num_train_epochs=1)
    task = {"base_length": options.base_length, "longest": options.longest}
    rows = make_rows(adding_problem, options.counts(), training.seed, **task)
    return train_synthetic(
        build_model(options, rows["train"].longest),
        training,
        rows,
        Amount(tolerance=0.04),
        guesses={"always 0.5": 0.5},
        options=options,
        dataset_name=f"adding problem, base length {options.base_length}",
        task="tabular-regression",
    )


def build_model(options: Options, longest: int) -> PreTrainedModel:
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
    model_class = family.model_class(AutoModelForSequenceClassification)
    if options.family != "chordmixer":
        return model_class(family.config(**settings))
    published = f"adding_{options.base_length}"
    if published not in family.config.presets:
        published = "adding_200"
    return model_class(family.config.preset(published, **{"block_order": "rotate_mix", **settings}))


if __name__ == "__main__":
    run_as_script(main)
