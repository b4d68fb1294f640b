"""Train or fine-tune a classifier of DNA sequences of any lengths, and compare it with baselines.

Without arguments it trains a ChordMixer on the genes that come with the package:

    python examples/finetune_classification.py --output_dir runs/genes

Your own data (FASTA, FASTQ, GenBank, parquet or CSV; files, globs or folders):

    python examples/finetune_classification.py --output_dir runs/mine --data genomes/ \
        --label_from folder --family chordmixer --num_train_epochs 10

A published configuration, such as the genome classifier of the Paramixer paper, which reads exactly
16,384 bases (flat pooling; sequences are cut or padded to that length, and counted) and knows A, G,
C and T only (with others, `--bad_records drop` or `--preset genome_with_n`):

    python examples/finetune_classification.py --output_dir runs/genome --data genomes/ \
        --label_from folder --family paramixer --preset genome --min_length 5001 \
        --learning_rate 1e-4 --lr_scheduler_type constant --train_token_budget 262144

It writes the model and its card, metrics.json, predictions.csv and plots to the output folder. All
numbers are of the test part, which is looked at once, at the end; choices are made on the
validation part, and with `--report_on validation` the test part is not looked at at all.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from datasets import DatasetDict
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    HfArgumentParser,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from hf_mixers import DnaTokenizer, GenomeTokenizer
from hf_mixers.baselines import KmerLogisticRegression, SmallCnn
from hf_mixers.data import (
    FlatCollator,
    StrandCollator,
    TokenDropoutCollator,
    balanced_class_weights,
    fix_lengths,
    tokenize_sequences,
)
from hf_mixers.recipes.labelled_dna import DataOptions, load_parts
from hf_mixers.recipes.options import RunArguments
from hf_mixers.recipes.supervised import (
    JudgeOptions,
    ModelOptions,
    build_model,
    judge_model,
    name_source,
    train_model,
)
from hf_mixers.recipes.targets import Classes
from hf_mixers.training.processes import begin_run, run_as_script

BASELINES = {"kmer": KmerLogisticRegression, "cnn": SmallCnn}
# letters of published models with a vocabulary of their own, by family and preset
LETTERS = {("paramixer", "genome"): "AGCT", ("paramixer", "genome_with_n"): "AGCTN"}


@dataclass
class CheckpointOptions(ModelOptions):
    """Which model, and from where."""

    checkpoint: str | None = field(
        default=None, metadata={"help": "Folder or Hub name of a pre-trained model to start from."}
    )
    frozen: bool = field(
        default=False, metadata={"help": "Train the head only (a probe) on top of the checkpoint."}
    )
    class_weights: bool = field(
        default=False, metadata={"help": "Weigh classes by n / (C n_c) of the training part."}
    )

    def __post_init__(self):
        if self.checkpoint and (self.settings or self.preset):
            raise SystemExit("--settings and --preset are for new models, not for --checkpoint.")
        if self.frozen and not self.checkpoint:
            raise SystemExit("--frozen needs --checkpoint: a new model has learned nothing yet.")


@dataclass
class RunOptions(JudgeOptions):
    """What else to do."""

    baselines: list[str] = field(
        default_factory=lambda: ["kmer", "cnn"],
        metadata={"help": "Baselines on the same split: 'kmer', 'cnn', or 'none'."},
    )

    def __post_init__(self):
        super().__post_init__()
        for name in self.baselines:
            if name not in (*BASELINES, "none"):
                raise SystemExit(f"Baselines are {', '.join(BASELINES)} and none, got {name!r}.")


@dataclass
class Arguments(RunArguments):
    """Arguments of the Trainer, with defaults for this script."""

    output_dir: str | None = field(default="runs/classification")
    num_train_epochs: float = field(default=6)
    learning_rate: float = field(default=2e-3)
    load_best_model_at_end: bool = field(default=True)
    metric_for_best_model: str = field(default="balanced_accuracy")


def main(arguments: list[str] | None = None) -> dict:
    parser = HfArgumentParser((CheckpointOptions, DataOptions, RunOptions, Arguments))
    parsed = parser.parse_args_into_dataclasses(arguments)
    model_options, data_options, run_options, training = parsed
    begin_run(training)
    judged = run_options.report_on
    tokenizer = choose_tokenizer(model_options)
    letters = getattr(tokenizer, "letters", None)
    parts = load_parts(data_options, training.seed, judged, run_options.smoke, letters)
    if run_options.smoke:
        training.num_train_epochs = 1
        run_options.baselines = ["kmer"]
    goal = Classes(parts["train"].features["label"].names)
    model = make_model(model_options, parts, goal, tokenizer)
    if model.config.pooling == "flat":
        length = model.config.max_position_embeddings
        tokens = tokenize_sequences(parts, tokenizer)
        tokens = fix_lengths(tokens, length, tokenizer.pad_token_id)
        # so that pipelines pad as here, and mask nothing
        tokenizer.model_max_length, tokenizer.model_input_names = length, ["input_ids"]
    else:
        tokens = tokenize_sequences(parts, tokenizer, max_length=model.config.length_limit)

    collator = FlatCollator()
    if data_options.token_dropout:
        share = data_options.token_dropout
        collator = TokenDropoutCollator(collator, tokenizer, share, seed=training.seed)
    if data_options.reverse_complement:
        if model.config.pooling == "flat":
            raise SystemExit("--reverse_complement would move the padding of flat pooling.")
        if not isinstance(tokenizer, DnaTokenizer):
            name = type(tokenizer).__name__
            raise SystemExit(f"--reverse_complement needs ids of DnaTokenizer, not of {name}.")
        collator = StrandCollator(collator, seed=training.seed)
    trainer = train_model(
        model,
        training,
        tokens,
        goal,
        patience=run_options.patience,
        data_collator=collator,
        processing_class=tokenizer,
    )
    return judge_model(
        trainer,
        tokens[judged],
        goal,
        part=judged,
        baselines=choose_baselines(run_options.baselines, parts, judged, len(goal.names)),
        options=parsed[:3],
        dataset_name=name_source(data_options.data or ["clostridium_mycoplasma"]),
        task="text-classification",
        columns={name: parts[judged][name][:] for name in ("id", "length")},
        base_model=model_options.checkpoint,
        processor=tokenizer,
    )


def choose_tokenizer(options: CheckpointOptions) -> PreTrainedTokenizerBase:
    """The tokenizer of a checkpoint or of a published model, or that of all DNA."""
    if options.checkpoint:
        return AutoTokenizer.from_pretrained(options.checkpoint)
    letters = LETTERS.get((options.family, options.preset))
    return GenomeTokenizer(letters) if letters else DnaTokenizer()


def make_model(
    options: CheckpointOptions,
    parts: DatasetDict,
    goal: Classes,
    tokenizer: PreTrainedTokenizerBase,
) -> PreTrainedModel:
    """A new model for sequences as long as the longest, or one from a checkpoint."""
    fields = goal.config_fields()
    if options.class_weights:
        fields["class_weights"] = balanced_class_weights(parts["train"])
    if options.checkpoint:
        return load_checkpoint(options, fields)
    if options.preset:
        # a published vocabulary, or ids of DnaTokenizer: those that do not occur change nothing
        fields |= {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    longest = max(max(part["length"]) for part in parts.values())
    return build_model(options, fields, suggestions={"max_position_embeddings": longest})


def load_checkpoint(options: CheckpointOptions, fields: dict) -> PreTrainedModel:
    """A checkpoint with a new head, or with its own if that has the same classes."""
    before = AutoConfig.from_pretrained(options.checkpoint).id2label
    config = AutoConfig.from_pretrained(options.checkpoint, **fields)
    model = AutoModelForSequenceClassification.from_pretrained(
        options.checkpoint, config=config, ignore_mismatched_sizes=True
    )
    if before != config.id2label:
        # as many classes as before may be others
        model.classifier = type(model)(config).to(model.dtype).classifier
    model.base_model.requires_grad_(not options.frozen)
    return model


def choose_baselines(
    names: list[str], parts: DatasetDict, judged: str, num_classes: int
) -> dict[str, Callable[[], np.ndarray]]:
    """What gives the scores of the baselines on one part, trained as the model is."""

    def score(name: str) -> np.ndarray:
        train, validation = (
            (list(parts[part]["sequence"]), np.asarray(parts[part]["label"]))
            for part in ("train", "validation")
        )
        baseline = BASELINES[name]().fit(*train, validation=validation, num_labels=num_classes)
        return baseline.predict_proba(list(parts[judged]["sequence"]))

    return {name: partial(score, name) for name in names if name != "none"}


if __name__ == "__main__":
    run_as_script(main)
