"""Train or fine-tune a classifier of DNA sequences of any lengths, and compare it with baselines.

Without arguments it trains a ChordMixer on the genes that come with the package:

    python examples/finetune_classification.py --output_dir runs/genes

Your own data (FASTA, FASTQ, GenBank, parquet or CSV; files, globs or folders):

    python examples/finetune_classification.py --output_dir runs/mine --data genomes/ \
        --label_from folder --family chordmixer --num_train_epochs 10

A published configuration, such as the genome classifier of the Paramixer paper, which reads exactly
16,384 bases (flat pooling; sequences are cut or padded to that length, and counted):

    python examples/finetune_classification.py --output_dir runs/genome --data genomes/ \
        --label_from folder --family paramixer --preset genome --min_length 5001 \
        --learning_rate 1e-4 --lr_scheduler_type constant --train_token_budget 262144

It writes the model and its card, metrics.json, predictions.csv and plots to the output folder. All
numbers are of the test part, which is looked at once, at the end; choices are made on the
validation part, and with `--report_on validation` the test part is not looked at at all.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from datasets import DatasetDict
from scipy.special import softmax
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    EarlyStoppingCallback,
    HfArgumentParser,
    set_seed,
)

from hf_mixers import FAMILIES, DnaTokenizer
from hf_mixers.baselines import KmerLogisticRegression, SmallCnn
from hf_mixers.data import (
    FlatCollator,
    StrandCollator,
    balanced_class_weights,
    describe_classes,
    filter_lengths,
    fix_lengths,
    format_classes,
    load_embedded,
    load_sequences,
    split_by_column,
    split_by_group,
    split_stratified,
    subset_stratified,
    tokenize_sequences,
)
from hf_mixers.metrics import classification_report
from hf_mixers.plots import plot_by_length
from hf_mixers.runs import (
    RunArguments,
    choose_settings,
    parse_resume,
    parse_settings,
    print_overall,
    write_run,
    write_table,
)
from hf_mixers.training import MixerTrainer


@dataclass
class ModelOptions:
    """Which model, and from where."""

    family: str = field(default="chordmixer", metadata={"help": "Family of a new model."})
    settings: str | None = field(
        default=None, metadata={"help": "JSON of config fields of a new model."}
    )
    preset: str | None = field(
        default=None,
        metadata={"help": "Published settings of the family, which --settings may change."},
    )
    checkpoint: str | None = field(
        default=None, metadata={"help": "Folder or Hub name of a pre-trained model to start from."}
    )
    frozen: bool = field(
        default=False, metadata={"help": "Train the head only (a probe) on top of the checkpoint."}
    )
    class_weights: bool = field(
        default=False, metadata={"help": "Weigh classes by n / (C n_c) of the training part."}
    )


@dataclass
class DataOptions:
    """Which data, how labelled, how split."""

    data: list[str] | None = field(
        default=None, metadata={"help": "Files, globs or folders; default: the embedded genes."}
    )
    label_from: str | None = field(
        default=None, metadata={"help": "'folder', or a rank such as 'genus' of GenBank records."}
    )
    label_pattern: str | None = field(
        default=None, metadata={"help": "Regular expression with one group, on the description."}
    )
    label_table: str | None = field(default=None, metadata={"help": "TSV of id and label."})
    label_column: str | None = field(default=None, metadata={"help": "Column of a table."})
    sequence_column: str = field(default="sequence", metadata={"help": "Column of a table."})
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
    train_fraction: float = field(
        default=1.0, metadata={"help": "Share of the training part to use, stratified."}
    )
    reverse_complement: bool = field(
        default=False, metadata={"help": "Show half of the training sequences as the other strand."}
    )
    score_column: str | None = field(
        default=None, metadata={"help": "Score only test rows where this column is false."}
    )


@dataclass
class RunOptions:
    """What else to do."""

    baselines: list[str] = field(
        default_factory=lambda: ["kmer", "cnn"],
        metadata={"help": "Baselines on the same split: 'kmer', 'cnn', or 'none'."},
    )
    report_on: str = field(
        default="test",
        metadata={"help": "'test', or 'validation' as long as settings are being chosen."},
    )
    patience: int = field(
        default=3, metadata={"help": "Stop after so many evaluations without a better one."}
    )
    smoke: bool = field(default=False, metadata={"help": "A run of seconds, to see that it works."})


@dataclass
class Arguments(RunArguments):
    """Arguments of the Trainer, with defaults for this script."""

    output_dir: str | None = field(default="runs/classification")
    num_train_epochs: float = field(default=6)
    learning_rate: float = field(default=2e-3)
    load_best_model_at_end: bool = field(default=True)
    metric_for_best_model: str = field(default="balanced_accuracy")


def main(arguments: list[str] | None = None) -> dict:
    parser = HfArgumentParser((ModelOptions, DataOptions, RunOptions, Arguments))
    parsed = parser.parse_args_into_dataclasses(arguments)
    model_options, data_options, run_options, training = parsed
    if run_options.report_on not in ("test", "validation"):
        raise SystemExit(f"--report_on must be test or validation, got {run_options.report_on}.")
    set_seed(training.seed)
    parts = load_parts(data_options, training.seed, run_options.smoke)
    if run_options.smoke:
        training.num_train_epochs = 1
        run_options.baselines = ["kmer"]
    names = parts["train"].features["label"].names
    tokenizer = DnaTokenizer()
    tokens = tokenize_sequences(parts, tokenizer)
    model = build_model(model_options, parts, names, tokenizer)
    print(f"{type(model).__name__}: {model.num_parameters():,} parameters", flush=True)
    if model.config.pooling == "flat":
        tokens = fix_lengths(tokens, model.config.max_position_embeddings, tokenizer.pad_token_id)

    collator = FlatCollator()
    if data_options.reverse_complement:
        if model.config.pooling == "flat":
            raise SystemExit("--reverse_complement would move the padding of flat pooling.")
        collator = StrandCollator(collator, seed=training.seed)
    trainer = MixerTrainer(
        model,
        training,
        train_dataset=tokens["train"],
        eval_dataset=tokens["validation"],
        data_collator=collator,
        compute_metrics=lambda p: headline(p.predictions, p.label_ids),
        callbacks=[EarlyStoppingCallback(run_options.patience)],
        processing_class=tokenizer,
    )
    trainer.train(resume_from_checkpoint=parse_resume(training))
    judged = run_options.report_on
    scores = softmax(trainer.predict(tokens[judged]).predictions, axis=-1)
    all_scores = {"model": scores} | run_baselines(run_options.baselines, parts, judged)
    return report_results(trainer, tokenizer, parts[judged], all_scores, parsed[:3])


def load_parts(options: DataOptions, seed: int, smoke: bool) -> DatasetDict:
    """Training, validation and test part; what is left out is printed."""
    if options.data is None:
        dataset = load_embedded()
        split_column = options.split_column or (None if options.group_column else "split")
    else:
        dataset = load_sequences(
            options.data,
            label_from=options.label_from,
            label_pattern=options.label_pattern,
            label_table=options.label_table,
            label_column=options.label_column,
            sequence_column=options.sequence_column,
        )
        split_column = options.split_column
    if "label" not in dataset.column_names:
        raise SystemExit("Say where labels come from: --label_from, --label_pattern, ...")
    dataset = filter_lengths(dataset, options.min_length, options.max_length)
    if split_column:
        parts = split_by_column(dataset, split_column)
    elif options.group_column:
        parts = split_by_group(dataset, options.group_column, seed=seed)
    else:
        parts = split_stratified(dataset, seed=seed)
    if options.score_column:
        parts["test"] = parts["test"].filter(lambda row: not row[options.score_column])
    if options.train_fraction < 1:
        parts["train"] = subset_stratified(parts["train"], options.train_fraction, seed)
    if smoke:
        parts = DatasetDict({k: subset_stratified(v, 0.02, seed) for k, v in parts.items()})
    for name, part in parts.items():
        print(f"{name}:\n{format_classes(describe_classes(part))}", flush=True)
    return parts


def build_model(
    options: ModelOptions, parts: DatasetDict, names: list[str], tokenizer: DnaTokenizer
) -> torch.nn.Module:
    """A new model for sequences as long as the longest, or a checkpoint with a new head."""
    labels = {
        "id2label": dict(enumerate(names)),
        "label2id": {name: number for number, name in enumerate(names)},
        "problem_type": "single_label_classification",
    }
    if options.class_weights:
        labels["class_weights"] = balanced_class_weights(parts["train"])
    if options.checkpoint:
        config = AutoConfig.from_pretrained(options.checkpoint, **labels)
        model = AutoModelForSequenceClassification.from_pretrained(
            options.checkpoint, config=config
        )
        model.base_model.requires_grad_(not options.frozen)
        return model
    family = FAMILIES[options.family]
    if options.preset:
        # ids of the tokenizer instead of the published ones; those that do not occur change nothing
        settings = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
        settings |= parse_settings(options.settings or "{}")
        config = family.config.preset(options.preset, **settings, **labels)
    else:
        longest = max(max(part["length"]) for part in parts.values())
        settings = choose_settings(options.family, options.settings)
        config = family.config(**{"max_position_embeddings": longest, **settings}, **labels)
    return family.sequence_classification(config)


def headline(scores: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The metrics without intervals, for evaluation while training."""
    report = classification_report(scores, labels, num_bootstrap=0)
    return {name: metric["value"] for name, metric in report["overall"].items()}


def run_baselines(names: list[str], parts: DatasetDict, judged: str) -> dict[str, np.ndarray]:
    """Scores of the baselines on one part, trained as the model is."""
    known = {"kmer": KmerLogisticRegression, "cnn": SmallCnn}
    scores = {}
    for name in names:
        if name == "none":
            continue
        if name not in known:
            raise SystemExit(f"Baselines are {', '.join(known)} and none, got {name!r}.")
        train, validation = (
            (list(parts[part]["sequence"]), np.asarray(parts[part]["label"]))
            for part in ("train", "validation")
        )
        baseline = known[name]().fit(*train, validation=validation)
        scores[name] = baseline.predict_proba(list(parts[judged]["sequence"]))
    return scores


def report_results(trainer, tokenizer, judged, all_scores, options) -> dict:
    """Write what the run found to its folder, print the headline, return the metrics."""
    folder = Path(trainer.args.output_dir)
    names = judged.features["label"].names
    labels, lengths = np.asarray(judged["label"]), np.asarray(judged["length"])
    reports = {
        name: classification_report(scores, labels, lengths, class_names=names)
        for name, scores in all_scores.items()
    }
    plot_by_length(reports, folder / "by_length.png")
    columns = {"id": judged["id"], "length": lengths, "label": [names[label] for label in labels]}
    columns |= {f"score_{n}": all_scores["model"][:, i].round(6) for i, n in enumerate(names)}
    write_table(folder / "predictions.csv", columns)
    model_options, data_options, run_options = options
    results = write_run(
        trainer,
        reports,
        part=run_options.report_on,
        options=options,
        dataset_name=", ".join(data_options.data or ["clostridium_mycoplasma"]),
        task="text-classification",
        tokenizer=tokenizer,
        base_model=model_options.checkpoint,
        plots=["by_length.png"],
    )
    print_overall(reports)
    print(f"Everything is in {folder}/", flush=True)
    return results


if __name__ == "__main__":
    main(sys.argv[1:])
