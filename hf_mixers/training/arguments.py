"""Arguments of `MixerTrainer`."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import TrainingArguments


@dataclass
class MixerTrainingArguments(TrainingArguments):
    """`TrainingArguments` with budgets of tokens, which take the place of the batch sizes.

    Training stops at numbers that are not finite, and goes on from complete checkpoints only. The
    Hub token is not saved: `training_args.bin` of a checkpoint has none.
    """

    train_token_budget: int | None = field(
        default=16384,
        metadata={"help": "Most tokens in a training batch of one process; none: batch sizes."},
    )
    eval_token_budget: int | None = field(
        default=65536,
        metadata={"help": "Most tokens in an evaluation batch of one process; none: batch sizes."},
    )
    stop_on_nonfinite: bool = field(
        default=True,
        metadata={"help": "Stop where loss, labels or weights are infinite or not a number."},
    )
    resume_without_optimizer: bool = field(
        default=False,
        metadata={
            "help": "Go on from a checkpoint without state of the optimizer, with a new one."
        },
    )
    context_parallel_size: int = field(
        default=1,
        metadata={
            "help": "Share each batch over this many processes, each with a part of its tokens;"
            " their number must divide that of all processes."
        },
    )
    muon_learning_rate: float | None = field(
        default=None,
        metadata={
            "help": "Train the matrices of the blocks with Muon at this learning rate, and all else"
            " with AdamW at --learning_rate; none or 0: AdamW for all."
        },
    )
    layer_learning_rate_decay: float | None = field(
        default=None,
        metadata={
            "help": "Multiply the learning rates of each block by this, such as 0.8, compared with"
            " the block above it; the head keeps its own, and embeddings have the lowest."
        },
    )
    weight_average_decay: float | None = field(
        default=None,
        metadata={
            "help": "Evaluate and save exponential moving averages of the weights with this decay,"
            " such as 0.999; none: the weights of the last step."
        },
    )

    def __post_init__(self) -> None:
        decay = self.weight_average_decay
        if decay is not None and not 0 < decay < 1:
            raise ValueError(f"weight_average_decay must lie between 0 and 1, got {decay}.")
        decay = self.layer_learning_rate_decay
        if decay is not None and not 0 < decay <= 1:
            raise ValueError(f"layer_learning_rate_decay must lie in (0, 1], got {decay}.")
        # transformers takes bf16 on a processor only if it is told that there is nothing else
        if self.bf16 and not torch.accelerator.is_available():
            self.use_cpu = True
        super().__post_init__()
        size = self.context_parallel_size
        if size < 1 or self.world_size % size:
            raise ValueError(
                f"context_parallel_size must divide the number of processes {self.world_size}, got"
                f" {size}."
            )
        # without an accelerator there is nothing to pin memory for, and torch warns
        if self.device.type == "cpu":
            self.dataloader_pin_memory = False
        elif self.stop_on_nonfinite:
            # looks at every loss, and hides those that are to stop the training
            self.logging_nan_inf_filter = False

    def __getstate__(self) -> dict[str, Any]:
        # what is pickled ends in a file
        return {**self.__dict__, "hub_token": None}

    def __deepcopy__(self, memo: dict[int, Any]) -> "MixerTrainingArguments":
        # a copy in memory keeps the token
        copy = object.__new__(type(self))
        copy.__dict__.update(deepcopy(self.__dict__, memo))
        return copy
