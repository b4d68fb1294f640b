"""`Trainer` with batches by tokens: `MixerTrainer` and its arguments."""

from .arguments import MixerTrainingArguments
from .safe import SafeTrainer
from .trainer import EvaluatedPart, MixerTrainer, number_tokens, sequence_lengths

__all__ = [
    "EvaluatedPart",
    "MixerTrainer",
    "MixerTrainingArguments",
    "SafeTrainer",
    "number_tokens",
    "sequence_lengths",
]
