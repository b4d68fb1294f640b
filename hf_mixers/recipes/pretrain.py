"""Pre-train a model of DNA by masked language modelling, from FASTA files to a card."""

import math
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from accelerate.utils import gather_object
from transformers import (
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.trainer_utils import PredictionOutput
from transformers.utils import logging

from ..baselines import MarkovBaseline
from ..data.collators import FlatCollator, MaskedLMCollator
from ..data.windows import GenomeWindows
from ..metrics import masked_report
from ..models.losses import IGNORED
from ..models.tokenization_dna import DnaTokenizer
from ..reporting.files import write_table
from ..reporting.plots import plot_by_length
from ..training import MixerTrainer
from .both_strands import score_both_strands
from .held_out import find_genomes
from .models import load_masked_lm, new_model
from .options import RunArguments, StartOptions, change_arguments, find_checkpoint
from .path import Report, begin_run, finish_run, save_model

logger = logging.get_logger(__name__)


# the model's guesses from both strands, averaged
BOTH_STRANDS = "model, both strands"
HELD_OUT_SOURCES = ("held_out", "held_out_pattern", "held_out_table")


@dataclass
class GenomeOptions:
    """Which genomes, and how windows are cut from them and masked."""

    genomes: list[str] | None = field(
        default=None, metadata={"help": "FASTA files, folders or globs, plain or gzip."}
    )
    held_out: list[str] | None = field(
        default=None,
        metadata={
            "help": "Records for evaluation only, or parts of them as name:first-last; default:"
            " records with up to a tenth of the bases, or the end of a single one."
        },
    )
    held_out_pattern: str | None = field(
        default=None,
        metadata={"help": "Regular expression: records whose name matches are held out."},
    )
    held_out_table: str | None = field(
        default=None, metadata={"help": "File with the names of records to hold out, one a line."}
    )
    sample_by: str = field(
        default="bases",
        metadata={"help": "'bases' for genomes; 'records' for genes, contigs or transcripts."},
    )
    window: list[int] = field(
        default_factory=lambda: [200, 4000], metadata={"help": "Shortest and longest window."}
    )
    num_windows: int = field(default=10_000, metadata={"help": "Training windows of an epoch."})
    num_eval_windows: int = field(default=500, metadata={"help": "Windows for evaluation."})
    mask_probability: float = field(default=0.3, metadata={"help": "Share of bases to predict."})
    mask_span: list[int] = field(
        default_factory=lambda: [1, 1],
        metadata={"help": "Bounds of the length of hidden runs, which every window draws."},
    )
    reverse_complement: bool = field(
        default=True, metadata={"help": "Reverse-complement each window with probability 0.5."}
    )
    markov_order: int = field(
        default=5, metadata={"help": "Bases on either side that the Markov baseline looks at."}
    )
    smoke: bool = field(default=False, metadata={"help": "A run of seconds, to see that it works."})

    def __post_init__(self) -> None:
        given = [name for name in HELD_OUT_SOURCES if getattr(self, name) is not None]
        if given and self.genomes is None:
            raise ValueError(f"{given[0]} requires genomes: it names records of them.")
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} were given: one of them is accepted.")
        if len(self.window) != 2:
            raise ValueError(f"window is the shortest and the longest, got {self.window}.")

    def shrink(self) -> "GenomeOptions":
        """The same for a run of seconds."""
        return replace(self, num_windows=40, num_eval_windows=10, window=[100, 400], markov_order=2)


@dataclass
class PretrainArguments(RunArguments):
    """Arguments of the Trainer, with defaults for masked language models."""

    output_dir: str | None = field(default="runs/mlm")
    num_train_epochs: float = field(default=10)
    learning_rate: float = field(default=4e-3)
    muon_learning_rate: float | None = field(default=2e-2)


@dataclass
class PretrainOptions:
    """All settings of a pre-training but those of the Trainer."""

    model: StartOptions = field(default_factory=StartOptions)
    data: GenomeOptions = field(default_factory=GenomeOptions)


def pretrain(options: PretrainOptions, arguments: PretrainArguments) -> dict:
    """Cut windows, mask, train, evaluate next to baselines, report; return the results."""
    data = options.data
    begin_run(arguments, smoke=data.smoke)
    if data.smoke:
        data, arguments = data.shrink(), change_arguments(arguments, num_train_epochs=1)
    # before training, as they may be refused
    baselines = {
        "base frequency": MarkovBaseline(0),
        f"Markov, {data.markov_order} bases each side": MarkovBaseline(data.markov_order),
    }
    tokenizer = choose_tokenizer(options.model)
    with tempfile.TemporaryDirectory() as folder:
        genomes = find_genomes(
            data.genomes,
            data.window[0],
            Path(folder),
            names=data.held_out,
            pattern=data.held_out_pattern,
            table=data.held_out_table,
        )
        train, evaluation = cut_windows(genomes.files, genomes.held_out, tokenizer, data, arguments)
        model = make_model(options.model, tokenizer, longest=data.window[1])
        logger.info(f"{type(model).__name__}: {model.num_parameters():,} parameters")
        trainer = MixerTrainer(
            model,
            arguments,
            train_dataset=train,
            eval_dataset=evaluation,
            data_collator=MaskedLMCollator(
                FlatCollator(),
                tokenizer,
                data.mask_probability,
                seed=arguments.seed,
                mask_span=tuple(data.mask_span),  # type: ignore[arg-type]
            ),
            compute_metrics=lambda p: {"accuracy": float((p.predictions == p.label_ids).mean())},
            preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1),
            processing_class=tokenizer,
        )
        trainer.train(resume_from_checkpoint=find_checkpoint(arguments))
        predicted = trainer.predict(evaluation)
        masked = gather_masked(trainer)
        if not save_model(trainer):
            return {}
        reports = {"model": score_windows(predicted, masked, Path(arguments.output_dir))}
        reports[BOTH_STRANDS] = score_both_strands(model, tokenizer, masked, bf16=arguments.bf16)
        reports |= score_baselines(baselines, train, masked)
    report = Report(
        part="test",
        dataset_name=genomes.name,
        task="fill-mask",
        options=vars(options),
        base_model=options.model.checkpoint,
        processor=tokenizer,
        sizes={"train": len(train), "test": len(evaluation)},
    )
    return finish_run(trainer, reports, report, plots=["by_length.png"])


def choose_tokenizer(options: StartOptions) -> PreTrainedTokenizerBase:
    """That of all DNA, or the checkpoint's own, which must be of this kind."""
    if options.checkpoint is None:
        return DnaTokenizer()
    tokenizer = AutoTokenizer.from_pretrained(options.checkpoint)
    if not isinstance(tokenizer, DnaTokenizer):
        raise ValueError(
            f"{options.checkpoint} has a {type(tokenizer).__name__}: a model with a DnaTokenizer is"
            " accepted."
        )
    return tokenizer


def make_model(
    options: StartOptions, tokenizer: PreTrainedTokenizerBase, *, longest: int
) -> PreTrainedModel:
    """A new model for windows of at most `longest` bases, or a checkpoint to go on from."""
    if options.checkpoint is None:
        return new_model(
            options,
            {"vocab_size": len(tokenizer)},
            suggestions={"max_position_embeddings": longest},
            auto_class=AutoModelForMaskedLM,
        )
    model = load_masked_lm(options)
    limit = model.config.length_limit
    if limit is not None and longest > limit:
        raise ValueError(
            f"{options.checkpoint} reads at most {limit:,} bases: windows of up to {longest:,} were"
            " asked for."
        )
    return model


def cut_windows(
    files: list[str],
    held_out: list[str],
    tokenizer: PreTrainedTokenizerBase,
    options: GenomeOptions,
    arguments: PretrainArguments,
) -> tuple[GenomeWindows, GenomeWindows]:
    """Windows for training and, from what is held out, for evaluation."""
    common: dict[str, Any] = {
        "length": (options.window[0], options.window[1]),
        "max_unknown": 0.1,
        "sample_by": options.sample_by,
    }
    train = GenomeWindows(
        files,
        tokenizer,
        num_windows=options.num_windows,
        exclude=held_out,
        seed=arguments.seed,
        reverse_complement=options.reverse_complement,
        **common,
    )
    evaluation = GenomeWindows(
        files,
        tokenizer,
        num_windows=options.num_eval_windows,
        records=held_out,
        seed=arguments.seed + 1,
        **common,
    )
    return train, evaluation


# ids and labels of a window
Window = tuple[np.ndarray, np.ndarray]


def gather_masked(trainer: MixerTrainer) -> list[Window]:
    """The windows that the model was evaluated on, in all processes."""
    windows: dict[int, Window] = {}
    loader = trainer.get_eval_dataloader()
    batches: Any = loader.batch_sampler
    for indices, batch in zip(list(batches), loader, strict=True):
        boundaries = batch["cu_seq_lens_q"][1:-1].tolist()
        rows = (batch[name][0].cpu().numpy() for name in ("input_ids", "labels"))
        parts = zip(*(np.split(row, boundaries) for row in rows), strict=True)
        windows |= dict(zip(indices, parts, strict=True))
    for others in gather_object([windows]):
        windows |= others
    return [windows[index] for index in sorted(windows)]


def score_windows(predicted: PredictionOutput, masked: list[Window], folder: Path) -> dict:
    """Accuracy at masked bases, overall and by length of the window, also as table and plot."""
    counts = np.array([(labels != IGNORED).sum() for _, labels in masked])
    hits = np.split(predicted.predictions == predicted.label_ids, np.cumsum(counts)[:-1])
    correct, lengths = [part.sum() for part in hits], [len(ids) for ids, _ in masked]
    columns: dict[str, Any] = {"length": lengths, "masked": counts, "correct": correct}
    write_table(folder / "predictions.csv", columns)
    report = masked_report(correct, counts, lengths)
    plot_by_length({"model": report}, folder / "by_length.png", metric="accuracy")
    report["overall"]["perplexity"] = {"value": math.exp(predicted.metrics["test_loss"])}
    return report


def score_baselines(
    baselines: dict[str, MarkovBaseline], train: GenomeWindows, masked: list[Window]
) -> dict:
    """Base frequency and two-sided Markov model at the positions that the model predicted."""
    windows = [train[i]["input_ids"] for i in range(len(train))]
    ids, labels = zip(*masked, strict=True)
    return {name: baseline.fit(windows).score(ids, labels) for name, baseline in baselines.items()}
