"""What is looked at before a training starts, so that it does not end in its middle."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch.utils.data import Dataset
from transformers import default_data_collator

from ..data.collators import SequenceCollator
from ..models.heads import MaskedLMHead, TokenClassificationHead


def check_examples(name: str, dataset: Any) -> None:
    """Refuse data sets without examples, alone or by name."""
    if isinstance(dataset, Mapping):
        for part, examples in dataset.items():
            check_examples(f"{name}[{part!r}]", examples)
    elif hasattr(dataset, "__len__") and len(dataset) == 0:
        raise ValueError(f"{name} is empty: at least one example is needed.")


def check_collator(collator: Any) -> None:
    """Refuse the default collator, which cannot stack sequences of different lengths."""
    if collator is default_data_collator:
        raise ValueError(
            "MixerTrainer with token budgets needs a data_collator, such as FlatCollator(), got"
            " none."
        )


def check_token_labels(model: Any, collator: Any, dataset: Dataset) -> None:
    """Refuse labels per token where the collator takes them for labels of sequences."""
    model = model.get_base_model() if hasattr(model, "get_base_model") else model
    has_tokens = isinstance(model, (TokenClassificationHead, MaskedLMHead))
    if not has_tokens or not isinstance(collator, SequenceCollator) or collator.token_labels:
        return
    try:
        labels = dataset[0].get("labels")
    except (TypeError, NotImplementedError, AttributeError):
        # a stream, or examples that are not dictionaries
        return
    if labels is not None and np.ndim(labels) == 1:
        raise ValueError(
            f"{type(model).__name__} learns from one label per token: use"
            f" {type(collator).__name__}(token_labels=True)."
        )
