"""Classify variants by both alleles' windows, from the weights of a masked language model.

    python examples/finetune_variants.py --checkpoint runs/pretrain --data variants.vcf \
        --fasta genome.fa --output_dir runs/variants
    python examples/finetune_variants.py --checkpoint runs/pretrain --genomes genomes.fa

Data are a table with the columns chr, pos, ref, alt, label and maybe tissue and split, or a VCF
whose INFO names them (`--label_column`, `--task_column`). Windows with the reference and with the
alternate allele go through one trunk; a head reads both, with one answer per tissue.

Without `--data`, motifs are planted in real sequence, that of `--genomes` or of the embedded genes:
a variant has an effect if it disrupts the motif of its tissue and a partner motif is in the window.
A known share of the labels is wrong, which is the ceiling that the report names.

Next to the model stand a regression on k-mers that a variant makes or breaks and, from a
checkpoint, one on the likelihood ratio of the masked language model alone.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from transformers import AutoConfig, HfArgumentParser, PreTrainedModel

from hf_mixers import AutoModelForSequencePairClassification
from hf_mixers.baselines.kmer_differences import KmerDifference
from hf_mixers.cli import run_as_script
from hf_mixers.data import load_embedded
from hf_mixers.inference import read_records, score_variants
from hf_mixers.recipes.models import new_model
from hf_mixers.recipes.options import (
    CheckpointOptions,
    EvaluationOptions,
    RunArguments,
    change_arguments,
)
from hf_mixers.recipes.path import (
    Report,
    begin_run,
    name_source,
    report_outputs,
    save_model,
    train_model,
)
from hf_mixers.recipes.targets import Classes
from hf_mixers.tasks import Task, load_arena_task
from hf_mixers.tasks.planted_variants import plant_variants

SMOKE_ROWS = 40


@dataclass
class VariantOptions:
    """Which variants, and windows around them."""

    data: str | None = field(default=None, metadata={"help": "Table or VCF with labels."})
    fasta: str | None = field(default=None, metadata={"help": "Reference genome of --data."})
    genomes: list[str] | None = field(
        default=None, metadata={"help": "FASTA files to plant motifs in; default: embedded genes."}
    )
    window: int = field(default=512, metadata={"help": "Bases of a window."})
    num_variants: int = field(default=4000, metadata={"help": "Variants that are planted."})
    num_tissues: int = field(default=2, metadata={"help": "Tissues of planted variants."})
    noise: float = field(default=0.05, metadata={"help": "Share of planted labels that is wrong."})
    label_column: str = field(default="label", metadata={"help": "Column or INFO key of labels."})
    task_column: str = field(default="tissue", metadata={"help": "Column or key of tissues."})
    mismatches: str = field(
        default="error", metadata={"help": "'error' or 'drop' where REF is not the reference's."}
    )
    split_seed: int = field(default=0, metadata={"help": "Seed of planting and of the split."})

    def __post_init__(self):
        if (self.data is None) != (self.fasta is None):
            raise ValueError("--data requires --fasta, and --fasta requires --data.")
        if self.data is not None and self.genomes is not None:
            raise ValueError("--genomes is for planted variants, not for --data.")


@dataclass
class VariantEvaluation(EvaluationOptions):
    """How results are reported."""

    ratio: bool = field(
        default=True, metadata={"help": "Score the variants with the checkpoint itself, too."}
    )
    passes: int = field(default=4, metadata={"help": "Of the pseudo-likelihood of indels."})


@dataclass
class Arguments(RunArguments):
    """Arguments of the Trainer, with defaults for this script."""

    output_dir: str | None = field(default="runs/variants")
    num_train_epochs: float = field(default=10)
    learning_rate: float = field(default=1e-3)
    train_token_budget: int | None = field(default=16384)
    load_best_model_at_end: bool = field(default=True)
    metric_for_best_model: str = field(default="loss")
    remove_unused_columns: bool = field(default=False)


def main(arguments: list[str] | None = None) -> dict:
    sections = (CheckpointOptions, VariantOptions, VariantEvaluation, Arguments)
    *options, training = HfArgumentParser(sections).parse_args_into_dataclasses(arguments)
    model_options, data, evaluation = options
    begin_run(training, smoke=evaluation.smoke)
    if evaluation.smoke:
        data = replace(data, num_variants=min(data.num_variants, 4 * SMOKE_ROWS))
        training = change_arguments(training, num_train_epochs=1)
    task, files = load_task(data, training)
    if evaluation.smoke:
        task = replace(
            task, parts={n: p.select(range(min(len(p), SMOKE_ROWS))) for n, p in task.parts.items()}
        )
    target = Classes(task.class_names)
    trainer = train_model(
        build_model(model_options, task, target),
        training,
        task.parts,
        target,
        patience=evaluation.patience,
        data_collator=task.collator(),
    )
    part = evaluation.report_on
    predicted = trainer.predict(task.parts[part])
    if not save_model(trainer):
        return {}
    outputs = {"model": predicted.predictions, "k-mer difference": compare_kmers(task, part)}
    if model_options.checkpoint and evaluation.ratio:
        outputs["likelihood ratio"] = regress_ratios(
            model_options.checkpoint, task, part, data.window, evaluation.passes
        )
    notes = list(task.notes)
    if data.data is None:
        outputs["ceiling"] = answer_cleanly(task, part, files["table"])
        notes.append(f"{data.noise:.0%} of the labels are wrong on purpose: see the ceiling.")
    variants = [task.parts[part].variants[row] for row in task.parts[part].rows]
    report = Report(
        part=part,
        dataset_name=name_source([data.data]) if data.data else "planted motifs",
        task="text-classification",
        options=dict(zip(("model", "data", "evaluation"), options, strict=True)),
        columns={
            "chrom": [one.chrom for one in variants],
            "pos": [one.start + 1 for one in variants],
            "ref": [one.ref for one in variants],
            "alt": [one.alt for one in variants],
        },
        processor=task.tokenizer,
        base_model=model_options.checkpoint,
        notes=notes,
    )
    return report_outputs(trainer, outputs, np.asarray(predicted.label_ids), target, report)


def load_task(data: VariantOptions, training: Arguments) -> tuple[Task, dict[str, Any]]:
    """Pairs of windows, and the files that they come from."""
    table, fasta = data.data, data.fasta
    if table is None:
        sequences = load_embedded()["sequence"]
        if data.genomes is not None:
            sequences = (record.sequence for record in read_records(data.genomes))
        table, fasta = plant_variants(
            sequences,
            Path(training.output_dir) / "planted",
            count=data.num_variants,
            window=data.window,
            num_tissues=data.num_tissues,
            noise=data.noise,
            seed=data.split_seed,
        )
    task = load_arena_task(
        "variants",
        table,
        fasta=fasta,
        window=data.window,
        label=data.label_column,
        task_column=data.task_column,
        mismatches=data.mismatches,
        data_seed=data.split_seed,
    )
    return task, {"table": table, "fasta": fasta}


def build_model(options: CheckpointOptions, task: Task, target: Classes) -> PreTrainedModel:
    """A new model for pairs, or one with the trunk of a checkpoint."""
    fields: dict[str, Any] = {**target.config_fields(), "num_tasks": task.num_tasks}
    if options.checkpoint is None:
        fields |= {"vocab_size": task.vocab_size, "max_position_embeddings": task.max_length}
        return new_model(options, fields, auto_class=AutoModelForSequencePairClassification)
    settings = options.config_fields()
    config = AutoConfig.from_pretrained(options.checkpoint, **{**settings, **fields})
    model = AutoModelForSequencePairClassification.from_pretrained(
        options.checkpoint, config=config
    )
    model.base_model.requires_grad_(not options.frozen)
    return model


def read_pairs(task: Task, part: str) -> tuple[list[tuple[str, str]], np.ndarray, np.ndarray]:
    """Windows, labels and tissues of a part."""
    rows = task.parts[part]
    pairs = [rows.windows(int(row)) for row in rows.rows]
    tissues = np.zeros(len(rows), int) if rows.task_ids is None else rows.task_ids[rows.rows]
    return pairs, rows.labels, tissues


def compare_kmers(task: Task, part: str) -> np.ndarray:
    """Log-probabilities of a regression on k-mers that variants make or break."""
    pairs, labels, tissues = read_pairs(task, "train")
    model = KmerDifference().fit(pairs, labels, tissues, num_labels=task.num_labels)
    asked, _, wanted = read_pairs(task, part)
    return take_logs(model.predict_proba(asked, wanted))


def regress_ratios(checkpoint: str, task: Task, part: str, window: int, passes: int) -> np.ndarray:
    """Log-probabilities of a regression on the ratio alone, one per tissue."""
    from sklearn.linear_model import LogisticRegression

    features = {
        name: find_ratios(checkpoint, task, name, window, passes) for name in {"train", part}
    }
    tissues = {name: read_pairs(task, name)[2] for name in features}
    labels = task.parts["train"].labels
    found = np.zeros((len(features[part]), task.num_labels))
    for tissue in np.unique(tissues[part]):
        rows = tissues["train"] == tissue
        model = LogisticRegression(max_iter=1000).fit(features["train"][rows], labels[rows])
        chosen = np.flatnonzero(tissues[part] == tissue)
        found[np.ix_(chosen, model.classes_)] = model.predict_proba(features[part][chosen])
    return take_logs(found)


def find_ratios(checkpoint: str, task: Task, part: str, window: int, passes: int) -> np.ndarray:
    """Ratio of one base, ratio of windows, and which of both there is: `(N, 3)`."""
    rows = task.parts[part]
    asked = [rows.variants[row] for row in rows.rows]
    scores = score_variants(
        checkpoint,
        [(one.chrom, one.start + 1, one.ref, one.alt) for one in asked],
        rows.fasta,
        window=window,
        scores=["llr", "pllr"],
        passes=passes,
    )
    found = []
    for one in scores:
        numbers: Mapping[str, float] = one.scores or {}
        # of all bases of a window, so that both are of one size
        found.append([numbers.get("llr", 0.0), window * numbers.get("pllr", 0.0), "llr" in numbers])
    return np.array(found, dtype=float)


def answer_cleanly(task: Task, part: str, table: str | os.PathLike) -> np.ndarray:
    """Log-probabilities of who knows the labels before some of them were flipped."""
    clean = pd.read_csv(table).set_index("chr")["clean"]
    rows = task.parts[part]
    names = [clean[rows.variants[row].chrom] for row in rows.rows]
    return take_logs(np.eye(task.num_labels)[[task.class_names.index(name) for name in names]])


def take_logs(probabilities: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(probabilities, 1e-6))


if __name__ == "__main__":
    run_as_script(main)
