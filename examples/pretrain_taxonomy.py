"""Pre-train a model of DNA on genes of known species: masked bases and taxonomy together.

    python examples/pretrain_taxonomy.py --data genes.parquet --output_dir runs/microbes

The table has the columns `sequence` and one per rank (`genus`, `species`). Part of the bases of
every gene is hidden and guessed, and the pooled vector is classified at every rank. With rank
weights of 0 it is plain masked language modelling on genes. What is saved is a masked language
model; `finetune_classification.py --checkpoint` takes it.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from transformers import AutoModelForMaskedLM, HfArgumentParser

from hf_mixers import DnaTokenizer
from hf_mixers.cli import run_as_script
from hf_mixers.data import load_sequences
from hf_mixers.recipes.models import find_family, load_masked_lm
from hf_mixers.recipes.options import (
    RunArguments,
    StartOptions,
    find_checkpoint,
    parse_settings,
)
from hf_mixers.recipes.path import begin_run
from hf_mixers.recipes.taxonomy import (
    RankedSequences,
    TaxonomyCollator,
    TaxonomyPretraining,
    TaxonomyTrainer,
    list_classes,
    train_profiles,
)
from hf_mixers.reporting.environment import run_environment
from hf_mixers.reporting.files import write_json


@dataclass
class Options:
    """Genes, ranks, masking and model."""

    data: list[str] = field(metadata={"help": "Tables with sequences and ranks."})
    ranks: list[str] = field(default_factory=lambda: ["genus", "species"])
    rank_weights: list[float] = field(
        default_factory=lambda: [0.25, 0.1],
        metadata={"help": "How much the loss of every rank counts."},
    )
    rank_learning_rate: float = field(
        default=3e-4, metadata={"help": "Of the classifiers of the ranks and the k-mer part."}
    )
    unknown_classes: list[str] = field(
        default_factory=lambda: ["Candidatus"], metadata={"help": "Names that are no class."}
    )
    label_smoothing: float = field(default=0.0, metadata={"help": "Of the ranks."})
    masked_weight: float = field(
        default=1.0, metadata={"help": "How much the loss of masked bases counts."}
    )
    mask_probability: list[float] = field(
        default_factory=lambda: [0.05, 0.45],
        metadata={"help": "Bounds of the share of bases to guess, which every gene draws."},
    )
    mask_span: list[int] = field(
        default_factory=lambda: [1, 1],
        metadata={"help": "Bounds of the length of hidden runs, which every gene draws."},
    )
    mask_frame: int = field(
        default=1, metadata={"help": "Hidden runs begin at multiples of this, codons at 3."}
    )
    profile_epochs: int = field(
        default=0,
        metadata={"help": "First train the k-mer part of the pooled vector alone (kmer_size)."},
    )
    profile_lengths: list[int] | None = field(
        default=None,
        metadata={
            "help": "Bounds of the lengths of pieces, of either strand, that it learns from then;"
            " default: whole genes."
        },
    )
    profiles_only: bool = field(
        default=False, metadata={"help": "Train nothing but the k-mer part, of a checkpoint."}
    )
    max_length: int = field(default=4096, metadata={"help": "Longer genes are cut, at random."})
    strand_probability: float = field(
        default=0.25, metadata={"help": "How often a gene is read from the other strand."}
    )
    held_out_share: float = field(default=0.005, metadata={"help": "Of genes, for evaluation."})
    max_records: int | None = field(default=None, metadata={"help": "Use so many genes only."})
    family: str = field(default="chordmixer", metadata={"help": "Family of the model."})
    settings: str = field(
        default="{}",
        metadata={"help": "JSON of config fields, which change those of a checkpoint."},
    )
    checkpoint: str | None = field(
        default=None, metadata={"help": "Masked language model to start from."}
    )


@dataclass
class Arguments(RunArguments):
    """Arguments of the Trainer, with defaults for this script."""

    output_dir: str | None = field(default="runs/taxonomy")
    num_train_epochs: float = field(default=1)
    learning_rate: float = field(default=4e-3)
    muon_learning_rate: float | None = field(default=2e-2)
    train_token_budget: int | None = field(default=8192)
    eval_strategy: str = field(default="steps")
    eval_steps: float = field(default=0.1)
    save_strategy: str = field(default="steps")
    save_steps: float = field(default=500)
    remove_unused_columns: bool = field(default=False)
    prediction_loss_only: bool = field(default=True)


def main(arguments: list[str] | None = None) -> dict:
    options, training = HfArgumentParser((Options, Arguments)).parse_args_into_dataclasses(
        arguments
    )
    begin_run(training)
    tokenizer = DnaTokenizer()
    table = load_sequences(options.data, duplicate_ids="keep")
    if options.max_records is not None:
        table = table.select(range(min(options.max_records, len(table))))
    classes = {
        rank: list_classes(table[rank][:], options.unknown_classes) for rank in options.ranks
    }
    drawn = np.random.default_rng(0).random(len(table)) < options.held_out_share
    parts = {
        name: RankedSequences(
            table.select(np.flatnonzero(rows)),
            tokenizer,
            classes,
            max_length=options.max_length,
            strand_probability=strands,
            seed=training.seed,
        )
        for name, rows, strands in (
            ("train", ~drawn, options.strand_probability),
            ("evaluation", drawn, 0.0),
        )
    }
    print(", ".join(f"{name}: {len(part):,} genes" for name, part in parts.items()), flush=True)
    family = find_family(options.family)
    settings = parse_settings(options.settings)
    if options.checkpoint:
        # a k-mer part of other words starts anew
        masked_lm = load_masked_lm(
            StartOptions(settings=options.settings, checkpoint=options.checkpoint)
        )
    else:
        config = family.config(vocab_size=len(tokenizer), **settings)
        masked_lm = family.model_class(AutoModelForMaskedLM)(config)
    weights = dict(zip(options.ranks, options.rank_weights, strict=True))
    model = TaxonomyPretraining(
        masked_lm,
        {rank: len(names) for rank, names in classes.items() if weights[rank] > 0},
        {rank: weight for rank, weight in weights.items() if weight > 0},
        options.label_smoothing,
        options.masked_weight,
    )
    print(f"{type(masked_lm).__name__}: {masked_lm.num_parameters():,} parameters", flush=True)
    profile_history = []
    resume = find_checkpoint(training)
    if options.profile_epochs and not resume:
        profile_history = train_profiles(
            model,
            parts["train"],
            epochs=options.profile_epochs,
            seed=training.seed,
            lengths=_read_bounds(options.profile_lengths),
        )
        for entry in profile_history:
            print(f"profiles: {entry}", flush=True)
    trainer = TaxonomyTrainer(
        model,
        training,
        train_dataset=parts["train"],
        eval_dataset=parts["evaluation"],
        data_collator=TaxonomyCollator(
            tokenizer,
            list(model.ranks),
            mask_probability=tuple(options.mask_probability),
            mask_span=tuple(options.mask_span),
            mask_frame=options.mask_frame,
            seed=training.seed,
        ),
        rank_learning_rate=options.rank_learning_rate,
    )
    if not options.profiles_only:
        trainer.train(resume_from_checkpoint=resume)
    masked_lm.save_pretrained(training.output_dir)
    tokenizer.save_pretrained(training.output_dir)
    results = {
        # classifiers of ranks that were not trained have nothing to say
        "validation": {} if options.profiles_only else {"loss": trainer.evaluate()["eval_loss"]},
        "history": trainer.state.log_history,
        "profile_history": profile_history,
        "config": masked_lm.config.to_diff_dict(),
        "parameters": masked_lm.num_parameters(),
        "environment": run_environment(training.seed),
    }
    write_json(Path(training.output_dir) / "metrics.json", results)
    return results


def _read_bounds(given: list[int] | None) -> tuple[int, int] | None:
    if given is None:
        return None
    if len(given) != 2 or not 1 <= given[0] <= given[1]:
        raise ValueError(f"profile_lengths are the shortest and the longest piece, got {given}.")
    return given[0], given[1]


if __name__ == "__main__":
    run_as_script(main)
