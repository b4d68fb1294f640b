"""Settings of a fine-tuning that follow from the data and from what is fine-tuned.

What a user sets stays; what is left at its default is chosen here for pre-trained models. Rates,
decay and dropout come from short runs on genes of twelve genera with another pre-trained model, and
were not compared again with this one; the number of tokens was set by the time at hand.

Models whose pooled vectors have learned classes before (`pooled_norm="running"`, as the taxonomy
stage leaves them) get a head and no more, unless epochs are asked for: training all afterwards
lowered accuracy on validation rows (twelve genera: 0.829 from the head alone, 0.811 after an
epoch).

Models whose k-mer part counts words by codon position know genes in their reading frame. For other
sequences, such as contigs or reads, they get a new k-mer part, which counts words of both strands.
For models with such a part long sequences are cut into a few pieces each: so they learn from
profiles as noisy as those of short sequences, and sequences count about alike (`choice_contigs_*`
in the recorded trainings).
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from datasets import DatasetDict
from transformers import TrainingArguments
from transformers.utils import logging

from ..data.pieces import cut_sequences
from ..data.reading_frame import is_in_frame
from .labelled_dna import DataOptions
from .options import CheckpointOptions, Left, change_arguments
from .profile_start import KMER_FIELDS

logger = logging.get_logger(__name__)

Arguments = TypeVar("Arguments", bound=TrainingArguments)

# of the Trainer, for pre-trained models
TRAINING: dict[str, Any] = {
    "learning_rate": 1e-3,
    "muon_learning_rate": 6e-3,
    "weight_decay": 0.05,
    "label_smoothing_factor": 0.05,
    "train_token_budget": 8192,
    "warmup_steps": 0.1,
}
# settings that act while a model is trained, besides these
_FURTHER = ("layer_learning_rate_decay", "weight_average_decay")
# config fields of pre-trained models
FIELDS: dict[str, Any] = {"classifier_dropout": 0.2, "token_dropout": 0.1}
# the k-mer part for sequences without a reading frame
WITHOUT_FRAME: dict[str, Any] = {
    "kmer_size": 5,
    "kmer_phases": 1,
    "kmer_strands": "both",
    "kmer_encoders": 3,
}
# of training sequences without a reading frame, if some are longer: longest piece, most of each
PIECES = (2048, 5)
# tokens that a fine-tuning reads, in as many epochs as that makes within bounds
TOKENS = 14_000_000
EPOCHS = (1.0, 12.0)


def choose_epochs(num_tokens: int) -> float:
    """Passes over training data of that many tokens.

    >>> choose_epochs(5_000_000), choose_epochs(10_000), choose_epochs(10**9)
    (2.8, 12.0, 1.0)
    """
    low, high = EPOCHS
    return round(min(high, max(low, TOKENS / max(1, num_tokens))), 1)


def adapt_arguments(
    arguments: Arguments,
    model: CheckpointOptions,
    num_tokens: int,
    stored: Mapping[str, Any] | None = None,
    *,
    classes: bool = True,
) -> Arguments:
    """Arguments for fine-tuning a checkpoint on so many tokens; those of new models stay.

    Args:
        stored: The checkpoint's own config fields.
        classes: Whether every example has one class: others are not smoothed, and train all layers.
    """
    if model.checkpoint is None or model.frozen:
        return arguments
    stored = stored or {}
    has_classes = stored.get("pooled_norm") == "running"
    is_ready = classes and has_classes and model.head_start and arguments.world_size == 1
    # parts that are new must learn
    is_ready &= model.config_fields().get("pooling") in (None, stored.get("pooling"))
    epochs = 0.0 if is_ready else choose_epochs(num_tokens)
    chosen = {**TRAINING, "num_train_epochs": epochs}
    if model.class_weights or not classes:
        # smoothed losses of transformers know no weights
        del chosen["label_smoothing_factor"]
    changes = {
        name: value for name, value in chosen.items() if isinstance(getattr(arguments, name), Left)
    }
    return change_arguments(arguments, **changes)


def warn_of_head_alone(arguments: TrainingArguments, data: DataOptions) -> None:
    """Say that no more than a head is fitted, and which settings that were given have no effect."""
    if arguments.num_train_epochs > 0 or arguments.max_steps > 0:
        return
    logger.warning(
        "The model stays as it is but for a new head, fitted to its vectors: --epochs 1 trains all"
        " of it after that."
    )
    given = [
        name
        for name, chosen in TRAINING.items()
        if not isinstance(value := getattr(arguments, name), Left) and value != chosen
    ]
    given += [name for name in _FURTHER if getattr(arguments, name, None) is not None]
    given += [name for name in ("reverse_complement", "token_dropout") if getattr(data, name)]
    if given:
        logger.warning(f"Without epochs there is no use for {', '.join(given)}.")


def adapt_fields(
    model: CheckpointOptions, stored: dict[str, Any], sequences: Sequence[str] = ()
) -> dict[str, Any]:
    """Config fields for fine-tuning a checkpoint that its settings do not name.

    Args:
        stored: The checkpoint's own config fields.
        sequences: Those of the training part.
    """
    if model.frozen:
        return {}
    given = model.config_fields()
    fields_of = {name: value for name, value in FIELDS.items() if name not in given}
    if stored.get("mask_token_id") is None or stored.get("input_features") is not None:
        fields_of.pop("token_dropout", None)
    if lacks_frame(model, stored, sequences):
        logger.warning(
            "The training sequences are no genes in their reading frame: the model gets a new k-mer"
            " part, which counts words of both strands."
        )
        fields_of |= WITHOUT_FRAME
    return fields_of


def adapt_parts(
    data: DataOptions, fields: Mapping[str, Any], parts: DatasetDict, *, seed: int
) -> DatasetDict:
    """Parts whose long training sequences are cut, for pre-trained models that count words of both
    strands.

    `data.cut_training`, if given, says it instead.

    Args:
        fields: Config fields of the checkpoint, and above them what `adapt_fields` chose.
    """
    train = parts["train"]
    longest, most = PIECES
    counts_both = fields.get("kmer_size") is not None and fields.get("kmer_strands") == "both"
    if not counts_both or data.cut_training is not None or max(train["length"]) <= longest:
        return parts
    logger.warning(
        f"Training sequences longer than {longest:,} are cut into pieces, of which at most {most}"
        " of each are learned from: cut_training and cut_pieces set this."
    )
    return DatasetDict({**parts, "train": cut_sequences(train, longest, seed=seed, most=most)})


def lacks_frame(
    model: CheckpointOptions, stored: Mapping[str, Any], sequences: Sequence[str]
) -> bool:
    """Whether the checkpoint counts words by codon position, and the sequences are no genes that
    begin with their first codon. Settings of the k-mer part are taken as they are."""
    if model.frozen or set(model.config_fields()) & set(KMER_FIELDS):
        return False
    is_phased = (stored.get("kmer_phases") or 1) > 1 and stored.get("kmer_size") is not None
    return is_phased and is_in_frame(sequences) is False
