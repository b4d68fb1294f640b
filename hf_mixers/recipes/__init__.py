"""Trainings from data to report, as functions.

`finetune` and `pretrain` are whole recipes; `path` has the steps that they and the examples share.
"""

from .finetune import FinetuneArguments, FinetuneOptions, finetune
from .options import ModelOptions, RunArguments
from .pretrain import PretrainArguments, PretrainOptions, pretrain

__all__ = [
    "FinetuneArguments",
    "FinetuneOptions",
    "ModelOptions",
    "PretrainArguments",
    "PretrainOptions",
    "RunArguments",
    "finetune",
    "pretrain",
]
