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
from datasets import ClassLabel, Dataset, DatasetDict
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
    cut_sequences,
    describe_classes,
    draw_validation,
    filter_lengths,
    filter_letters,
    fix_lengths,
    format_classes,
    load_embedded,
    load_genbank_task,
    load_sequences,
    split_by_column,
    split_by_group,
    split_stratified,
    subset_stratified,
    tokenize_sequences,
)
from hf_mixers.goals import Classes
from hf_mixers.processes import begin_run, run_as_script
from hf_mixers.runs import RecordOptions, RunArguments
from hf_mixers.supervised import (
    JudgeOptions,
    ModelOptions,
    build_model,
    judge_model,
    name_source,
    train_model,
)

BASELINES = {"kmer": KmerLogisticRegression, "cnn": SmallCnn}
LABEL_SOURCES = ("label_from", "label_pattern", "label_table", "label_column")
# what is asked of files, and of no other data
FILE_OPTIONS = (*LABEL_SOURCES, "class_names", "taxonomy_dump", "id_column")
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
class DataOptions(RecordOptions):
    """Which data, how labelled, how split."""

    data: list[str] | None = field(
        default=None, metadata={"help": "Files, globs or folders; default: the embedded genes."}
    )
    genbank_task: str | None = field(
        default=None,
        metadata={"help": "A task of the ChordMixer paper, such as Carassius_Labeo, in --data."},
    )
    label_from: str | None = field(
        default=None,
        metadata={
            "help": "'folder', or of GenBank records 'organism', 'species', 'genus', 'taxonomy'"
            " (which of --class_names is in the lineage) or a rank of --taxonomy_dump."
        },
    )
    label_pattern: str | None = field(
        default=None, metadata={"help": "Regular expression with one group, on the description."}
    )
    label_table: str | None = field(default=None, metadata={"help": "TSV of id and label."})
    label_column: str | None = field(default=None, metadata={"help": "Column of a table."})
    class_names: list[str] | None = field(
        default=None, metadata={"help": "Classes in the order of their numbers; default: sorted."}
    )
    taxonomy_dump: str | None = field(
        default=None, metadata={"help": "Folder with NCBI's nodes.dmp and names.dmp."}
    )
    sequence_column: str = field(default="sequence", metadata={"help": "Column of a table."})
    id_column: str | None = field(default=None, metadata={"help": "Column of a table."})
    split_column: str | None = field(
        default=None, metadata={"help": "Column with train, val and test; embedded: 'split'."}
    )
    group_column: str | None = field(
        default=None,
        metadata={"help": "Split so that no group, such as a species, is in two parts."},
    )
    min_length: int = field(
        default=2, metadata={"help": "Shorter sequences are left out, counted."}
    )
    max_length: int | None = field(
        default=None, metadata={"help": "Longer sequences are left out, counted."}
    )
    cut_training: int | None = field(
        default=None,
        metadata={"help": "Cut longer training sequences into pieces of 100 to this many bases."},
    )
    cut_rounds: int = field(
        default=1,
        metadata={"help": "Show all training sequences so often in an epoch, cut otherwise."},
    )
    train_fraction: float = field(
        default=1.0, metadata={"help": "Share of the training part to use, stratified."}
    )
    reverse_complement: bool = field(
        default=False, metadata={"help": "Show half of the training sequences as the other strand."}
    )
    token_dropout: float = field(
        default=0.0,
        metadata={"help": "Share of the bases hidden in training, anew in every epoch."},
    )
    score_column: str | None = field(
        default=None, metadata={"help": "Score only test rows where this column is false."}
    )

    def __post_init__(self):
        if self.cut_rounds != 1 and self.cut_training is None:
            raise SystemExit("--cut_rounds needs --cut_training: nothing is cut without it.")
        given = [name for name in FILE_OPTIONS if getattr(self, name) is not None]
        if self.data is None and (self.genbank_task or given):
            name = "genbank_task" if self.genbank_task else given[0]
            raise SystemExit(f"--{name} is about files, which --data must name.")
        if self.genbank_task and given:
            raise SystemExit(f"--genbank_task knows its classes: it goes without --{given[0]}.")
        if self.split_column and self.group_column:
            raise SystemExit("--split_column and --group_column were given: one of them splits.")


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


def load_rows(options: DataOptions) -> Dataset:
    """All sequences with their classes; what is left out is printed."""
    if options.data is None:
        return load_embedded()
    if options.genbank_task:
        if len(options.data) > 1:
            raise SystemExit("--genbank_task is read from one file or folder in --data.")
        return load_genbank_task(options.genbank_task, options.data[0])
    columns = ("sequence_column", "id_column")
    rules = ("taxonomy_dump", "bad_records", "duplicate_ids")
    dataset = load_sequences(
        options.data,
        # shorter ones than asked for are left out below, and are no reason to stop
        min_length=1,
        label_names=options.class_names,
        **{name: getattr(options, name) for name in (*LABEL_SOURCES, *columns, *rules)},
    )
    if "label" not in dataset.column_names:
        raise SystemExit("Say where labels come from: --label_from, --label_pattern, ...")
    if "float" in dataset.features["label"].dtype:
        raise SystemExit("Labels must be classes, as text or whole numbers, got decimal numbers.")
    if not isinstance(dataset.features["label"], ClassLabel):
        dataset = dataset.class_encode_column("label")
    return dataset


def load_parts(
    options: DataOptions, seed: int, judged: str, smoke: bool, letters: str | None = None
) -> DatasetDict:
    """Training and validation part, and the one to judge the model on."""
    dataset = filter_lengths(load_rows(options), options.min_length, options.max_length)
    if letters:
        dataset = filter_letters(dataset, letters + "U", options.bad_records)
    split_column = options.split_column
    if options.data is None and not options.group_column:
        split_column = split_column or "split"
    if split_column:
        parts = split_by_column(dataset, split_column)
    elif options.group_column:
        parts = split_by_group(dataset, options.group_column, seed=seed)
    else:
        parts = split_stratified(dataset, seed=seed)
    if "train" not in parts or judged not in {*parts, "validation"}:
        raise SystemExit(f"{split_column!r} names no rows for training or none for {judged}.")
    if "validation" not in parts:
        print("No validation part: a tenth of the training part is drawn for it.", flush=True)
        parts = draw_validation(parts, 0.1, seed)
    if options.score_column and "test" in parts:
        parts["test"] = leave_out_seen(parts["test"], options.score_column)
    if options.train_fraction != 1:
        parts["train"] = subset_stratified(parts["train"], options.train_fraction, seed)
    if smoke:
        parts = DatasetDict({k: subset_stratified(v, 0.02, seed) for k, v in parts.items()})
    if options.cut_training:
        parts["train"] = cut_sequences(
            parts["train"], options.cut_training, seed=seed, rounds=options.cut_rounds
        )
    for name, part in parts.items():
        print(f"{name}:\n{format_classes(describe_classes(part))}", flush=True)
    return parts


def leave_out_seen(test: Dataset, column: str) -> Dataset:
    """Rows of the test part where a column is false; the others are counted."""
    kind = getattr(test.features.get(column), "dtype", None)
    if kind is None or kind.endswith("string"):
        raise SystemExit(
            f"--score_column must be a column of true and false, got {column!r}: there are"
            f" {', '.join(test.column_names)}."
        )
    kept = np.flatnonzero(~np.asarray(test[column][:], dtype=bool))
    print(f"{len(test) - len(kept)} of {len(test)} test rows are not scored: {column}.", flush=True)
    if len(kept) == 0:
        raise SystemExit(f"--score_column {column} leaves no test row to score.")
    return test.select(kept)


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
