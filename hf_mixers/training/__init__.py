"""`Trainer` with batches by tokens: `MixerTrainer` and its arguments."""

from .arguments import MixerTrainingArguments
from .trainer import EvaluatedPart, MixerTrainer, number_tokens, sequence_lengths

__all__ = [
    "EvaluatedPart",
    "MixerTrainer",
    "MixerTrainingArguments",
    "number_tokens",
    "sequence_lengths",
]
