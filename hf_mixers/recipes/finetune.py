"""Train or fine-tune a model of labelled DNA sequences, from files to a card."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict
from transformers import AutoConfig, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from ..baselines import KmerLogisticRegression, SmallCnn
from ..baselines.average import average_classifiers
from ..baselines.kmer_models import BestKmerRegression, KmerNeighbours, KmerNetwork
from ..baselines.kmer_targets import KmerLabels, KmerRidge
from ..data.augment import StrandCollator, TokenDropoutCollator
from ..data.classes import balanced_class_weights
from ..data.collators import Collator, FlatCollator
from ..data.encode import fix_lengths, tokenize_sequences
from ..data.parts import SplitOptions
from ..data.problems import CLASSES, MULTI_LABEL, REGRESSION, find_problem
from ..models.tokenization_dna import DnaTokenizer
from ..models.tokenization_genome import GenomeTokenizer
from .adapt import adapt_arguments, adapt_fields, adapt_parts, warn_of_head_alone
from .head_start import StartedHead, find_resume, keep_better, start_head
from .labelled_dna import DataOptions, load_parts
from .models import load_checkpoint, new_model
from .options import (
    CheckpointOptions,
    EvaluationOptions,
    Left,
    LeftFloat,
    LeftInt,
    RunArguments,
    change_arguments,
    settle,
)
from .path import (
    Report,
    begin_run,
    longest_sequence,
    name_source,
    report_outputs,
    save_model,
    train_model,
)
from .profile_start import is_new_part, learn_profiles
from .targets import Amount, Classes, Labels, Target

logger = logging.get_logger(__name__)

BASELINES: dict[str, Callable[[], Any]] = {
    "kmer": KmerLogisticRegression,
    # words of three bases by their place in the codons of a gene
    "codon": partial(KmerLogisticRegression, 3, both_strands=False, phases=3),
    "cnn": SmallCnn,
    "kmer_best": BestKmerRegression,
    "kmer_network": KmerNetwork,
    "kmer_neighbours": KmerNeighbours,
}
# of the same names, for labels that are not one class each; they have `fit` and `predict`
OTHER_BASELINES: dict[str, dict[str, Any]] = {
    REGRESSION: {"kmer": KmerRidge},
    MULTI_LABEL: {"kmer": KmerLabels},
}
# what the first stage of a fine-tuning leaves in the folder of a run until the run ends
HEAD_START = "head_start"
# letters of published models with a vocabulary of their own, by family and preset
LETTERS = {("paramixer", "genome"): "AGCT", ("paramixer", "genome_with_n"): "AGCTN"}


@dataclass
class FinetuneEvaluation(EvaluationOptions):
    """How long to train, and what the model is compared with."""

    baselines: list[str] = field(
        default_factory=lambda: ["kmer", "cnn"],
        metadata={
            "help": "Baselines on the same split: 'kmer', 'codon', 'cnn', 'kmer_best',"
            " 'kmer_network', 'kmer_neighbours', 'average' (of the model and the others), or"
            " 'none'."
        },
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.baselines:
            if name not in (*BASELINES, "average", "none"):
                names = ", ".join((*BASELINES, "average"))
                raise ValueError(f"Baselines are {names} and none, got {name!r}.")
        if "average" in self.baselines and not set(self.baselines) & set(BASELINES):
            raise ValueError("The baseline average needs another one, got it alone.")


def _left(name: str, value: Left) -> Any:
    """A field of the Trainer's arguments with another default and its own description."""
    described = RunArguments.__dataclass_fields__[name].metadata
    return field(default=value, metadata=dict(described))


@dataclass
class FinetuneArguments(RunArguments):
    """Arguments of the Trainer, with defaults for classifiers of DNA."""

    output_dir: str | None = field(default="runs/classification")
    # those of new models; for others see `adapt`
    num_train_epochs: float = field(default=LeftFloat(6))
    learning_rate: float = field(default=LeftFloat(2e-3))
    muon_learning_rate: float | None = _left("muon_learning_rate", LeftFloat(0))
    weight_decay: float = _left("weight_decay", LeftFloat(0))
    label_smoothing_factor: float = _left("label_smoothing_factor", LeftFloat(0))
    train_token_budget: int | None = _left("train_token_budget", LeftInt(16384))
    warmup_steps: float = field(default=LeftFloat(0.05))
    load_best_model_at_end: bool = field(default=True)
    metric_for_best_model: str = field(default="balanced_accuracy")


@dataclass
class FinetuneOptions:
    """All settings of a fine-tuning but those of the Trainer."""

    model: CheckpointOptions = field(default_factory=CheckpointOptions)
    data: DataOptions = field(default_factory=DataOptions)
    split: SplitOptions = field(default_factory=SplitOptions)
    evaluation: FinetuneEvaluation = field(default_factory=FinetuneEvaluation)


def finetune(options: FinetuneOptions, arguments: FinetuneArguments) -> dict:
    """Load, split, encode, train, evaluate next to baselines, report; return the results."""
    evaluation = options.evaluation
    begin_run(arguments, smoke=evaluation.smoke)
    if evaluation.smoke:
        arguments = change_arguments(arguments, num_train_epochs=1)
        evaluation = replace(evaluation, baselines=["kmer"])
    part = evaluation.report_on
    tokenizer = choose_tokenizer(options.model)
    parts = load_parts(
        options.data,
        options.split,
        part,
        seed=arguments.seed,
        smoke=evaluation.smoke,
        letters=getattr(tokenizer, "letters", None),
    )
    stored = stored_fields(options.model)
    adapted = adapt_fields(options.model, stored, parts["train"]["sequence"]) if stored else {}
    if stored and not options.model.frozen:
        parts = adapt_parts(options.data, {**stored, **adapted}, parts, seed=arguments.seed)
    target = make_target(parts["train"])
    if isinstance(target, Amount):
        parts = scale_labels(parts, target)
    if not isinstance(target, Classes):
        arguments = judge_by_loss(arguments)
    if not evaluation.smoke:
        arguments = adapt_arguments(
            arguments,
            options.model,
            sum(parts["train"]["length"]),
            stored,
            classes=isinstance(target, Classes),
        )
        warn_of_head_alone(arguments, options.data)
    arguments = settle(arguments)
    model = make_model(options.model, adapted, parts, target, tokenizer)
    tokens = encode(parts, model, tokenizer)
    arguments, started = start(options.model, model, arguments, tokens)
    trainer = train_model(
        model,
        arguments,
        tokens,
        target,
        patience=evaluation.patience,
        data_collator=make_collator(options.data, model, tokenizer, arguments.seed),
        processing_class=tokenizer,
    )
    if started is not None:
        keep_better(trainer, started)
        shutil.rmtree(Path(arguments.output_dir) / HEAD_START, ignore_errors=True)
    predicted = trainer.predict(tokens[part])
    if isinstance(target, Amount):
        target.put_into(model)
    if not save_model(trainer):
        return {}
    outputs: dict[str, Any] = {"model": predicted.predictions}
    for name in evaluation.baselines:
        if name not in ("none", "average") and has_baseline(name, target):
            outputs[name] = fit_baseline(name, parts, part, target)
    if "average" in evaluation.baselines and has_baseline("average", target):
        others = [found for name, found in outputs.items() if name != "model"]
        outputs["average"] = average_classifiers(outputs["model"], others)
    return report_outputs(
        trainer,
        outputs,
        np.asarray(predicted.label_ids),
        target,
        Report(
            part=part,
            dataset_name=name_source(options.data.data or ["clostridium_mycoplasma"]),
            task="text-classification",
            options=vars(options),
            columns={name: parts[part][name][:] for name in ("id", "length")},
            base_model=options.model.checkpoint,
            processor=tokenizer,
        ),
    )


def start(
    options: CheckpointOptions,
    model: PreTrainedModel,
    arguments: FinetuneArguments,
    tokens: DatasetDict,
) -> tuple[FinetuneArguments, StartedHead | None]:
    """Fit the head of a checkpoint to its vectors; arguments that also score what it has learned.

    A k-mer part that is not the checkpoint's learns before.

    Not for heads of frozen models, which the trainer trains, nor in several processes. A run that
    goes on takes the stage from its folder.
    """
    is_trained = options.checkpoint is not None and not options.frozen
    has_classes = model.config.problem_type == "single_label_classification"
    is_flat = model.config.pooling == "flat"
    is_wanted = is_trained and options.head_start and not is_flat
    if not is_wanted or arguments.world_size > 1:
        return arguments, None
    folder = Path(arguments.output_dir) / HEAD_START
    arguments, goes_on = find_resume(arguments, folder)
    if goes_on:
        return arguments, StartedHead.load(folder)
    is_new = has_classes and is_new_part(model.config, stored_fields(options))
    first = learn_profiles(model, tokens, seed=arguments.seed) if is_new else []
    started = start_head(
        model, tokens, bf16=arguments.bf16, seed=arguments.seed, knows_classes=is_new
    )
    started.history[:0] = first
    if "validation" in tokens:
        arguments = change_arguments(arguments, eval_on_start=True)
    if arguments.num_train_epochs > 0 or arguments.max_steps > 0:
        started.save(folder)
    return arguments, started


def choose_tokenizer(options: CheckpointOptions) -> PreTrainedTokenizerBase:
    """The tokenizer of a checkpoint or of a published model, or that of all DNA."""
    if options.checkpoint:
        return AutoTokenizer.from_pretrained(options.checkpoint)
    letters = LETTERS.get((options.family, options.preset or ""))
    return GenomeTokenizer(letters) if letters else DnaTokenizer()


def make_target(train: Dataset) -> Target:
    """What the labels of the training part ask for."""
    problem = find_problem(train)
    if problem == CLASSES:
        return Classes(train.features["label"].names)
    if problem == MULTI_LABEL:
        return Labels(train.features["label"].feature.names)
    values = np.asarray(train["label"][:])
    if values.min() == values.max():
        raise ValueError(f"All training records have the label {values[0]}: nothing is learned.")
    return Amount(float(values.mean()), float(values.std()))


def scale_labels(parts: DatasetDict, target: Amount) -> DatasetDict:
    """Labels as the model sees them: of mean 0 and deviation 1 in the training part."""
    return DatasetDict(
        {
            name: rows.remove_columns("label").add_column(
                "label", target.scale(np.asarray(rows["label"][:]))
            )
            for name, rows in parts.items()
        }
    )


def judge_by_loss(arguments: FinetuneArguments) -> FinetuneArguments:
    """Arguments that keep the epoch of the lowest loss where the default is a metric of classes."""
    default = FinetuneArguments.metric_for_best_model
    if arguments.metric_for_best_model != default:
        return arguments
    return change_arguments(arguments, metric_for_best_model="loss", greater_is_better=False)


def stored_fields(options: CheckpointOptions) -> dict[str, Any]:
    """Config fields of the checkpoint, if there is one."""
    if options.checkpoint is None:
        return {}
    return AutoConfig.from_pretrained(options.checkpoint).to_dict()


def make_model(
    options: CheckpointOptions,
    adapted: Mapping[str, Any],
    parts: DatasetDict,
    target: Target,
    tokenizer: PreTrainedTokenizerBase,
) -> PreTrainedModel:
    """A new model for sequences as long as the longest, or one from a checkpoint.

    Args:
        adapted: Fields of the model of a checkpoint, which fields of the target come before.
    """
    fields = target.config_fields()
    if options.class_weights and not isinstance(target, Classes):
        raise ValueError("class_weights are for problem=classes.")
    if options.class_weights:
        fields["class_weights"] = balanced_class_weights(parts["train"])
    if options.checkpoint:
        return load_checkpoint(options, {**adapted, **fields})
    if options.preset:
        # a published vocabulary, or ids of DnaTokenizer: those that do not occur change nothing
        fields |= {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    longest = longest_sequence(parts)
    return new_model(options, fields, suggestions={"max_position_embeddings": longest})


def encode(
    parts: DatasetDict, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> DatasetDict:
    """Token ids of the sequences; for flat pooling all are cut or padded to one length."""
    if model.config.pooling != "flat":
        return tokenize_sequences(parts, tokenizer, max_length=model.config.length_limit)
    length = model.config.max_position_embeddings
    # so that pipelines pad as here, and mask nothing
    tokenizer.model_max_length, tokenizer.model_input_names = length, ["input_ids"]
    return fix_lengths(tokenize_sequences(parts, tokenizer), length, tokenizer.pad_token_id)


def make_collator(
    options: DataOptions, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, seed: int
) -> Collator:
    """What makes batches of training sequences, some of them changed at random."""
    collator: Collator = FlatCollator()
    if options.token_dropout:
        collator = TokenDropoutCollator(collator, tokenizer, options.token_dropout, seed=seed)
    if options.reverse_complement:
        if model.config.pooling == "flat":
            raise ValueError("reverse_complement would move the padding of flat pooling.")
        if not isinstance(tokenizer, DnaTokenizer):
            name = type(tokenizer).__name__
            raise ValueError(f"reverse_complement requires ids of DnaTokenizer, got {name}.")
        collator = StrandCollator(collator, seed=seed)
    return collator


def has_baseline(name: str, target: Target) -> bool:
    """Whether a baseline predicts such a target; if not, that is logged."""
    if isinstance(target, Classes) or name in OTHER_BASELINES[_problem_of(target)]:
        return True
    logger.warning(f"The baseline {name} is left out: it predicts one class per sequence.")
    return False


def fit_baseline(name: str, parts: DatasetDict, part: str, target: Target) -> np.ndarray:
    """Outputs of a baseline on one part, fitted on the rows that the model is trained on."""
    logger.info(f"Fitting a baseline: {name}")
    train, validation = (
        (list(parts[which]["sequence"]), read_targets(parts[which], target))
        if which in parts
        else None
        for which in ("train", "validation")
    )
    sequences = list(parts[part]["sequence"])
    if isinstance(target, Classes):
        baseline = BASELINES[name]()
        baseline.fit(*train, validation=validation, num_labels=len(target.names))
        return baseline.predict_proba(sequences)
    other = OTHER_BASELINES[_problem_of(target)][name]()
    return other.fit(*train, validation=validation).predict(sequences)


def read_targets(rows: Dataset, target: Target) -> np.ndarray:
    """Labels of rows as an array: classes, numbers, or 0 and 1 for every label."""
    values = rows["label"][:]
    if not isinstance(target, Labels):
        return np.asarray(values)
    marks = np.zeros((len(values), len(target.names)))
    for row, classes in enumerate(values):
        marks[row, classes] = 1
    return marks


def _problem_of(target: Target) -> str:
    return REGRESSION if isinstance(target, Amount) else MULTI_LABEL
