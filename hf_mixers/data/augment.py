"""Training examples that are changed by chance, anew in every epoch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from ..models.dna import reverse_complement
from .collators import Collator, Example, default_maskable_ids, generator_for


class AugmentingCollator:
    """Another collator's batches of examples that a subclass may change.

    What happens depends on `seed`, epoch and content, as in `MaskedLMCollator`. `MixerTrainer`
    evaluates with the plain collator inside; the stock `Trainer` knows one collator only.

    Args:
        collator: Makes the batches; it may be another `AugmentingCollator`.
        probability: How often an example, or a token of it, is changed.
    """

    def __init__(self, collator: Collator, probability: float, seed: int = 0):
        if not 0 <= probability <= 1:
            raise ValueError(f"probability must lie in [0, 1], got {probability}.")
        self.collator, self.probability, self.seed = collator, probability, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        if hasattr(self.collator, "set_epoch"):
            self.collator.set_epoch(epoch)

    def for_evaluation(self) -> Collator:
        """The collator that leaves sequences as they are."""
        inner = self.collator
        return inner.for_evaluation() if hasattr(inner, "for_evaluation") else inner

    def __call__(self, examples: Sequence[Example]) -> dict[str, Any]:
        changed = []
        for example in examples:
            ids = np.asarray(example["input_ids"])
            ids = self.change(ids, generator_for(self.seed, self.epoch, ids))
            changed.append({**example, "input_ids": ids})
        return self.collator(changed)

    def change(self, ids: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Ids of an example, or others instead; `ids` itself stays as it is."""
        raise NotImplementedError


class StrandCollator(AugmentingCollator):
    """Another collator's batches with some sequences of DNA read from the other strand.

    >>> from hf_mixers.data import FlatCollator
    >>> collator = StrandCollator(FlatCollator(), probability=1)
    >>> collator([{"input_ids": [5, 5, 6]}])["input_ids"]  # AAC
    tensor([[7, 8, 8]])
    """

    def __init__(self, collator: Collator, probability: float = 0.5, seed: int = 0):
        super().__init__(collator, probability, seed)

    def change(self, ids: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return ids if generator.random() >= self.probability else reverse_complement(ids)


class TokenDropoutCollator(AugmentingCollator):
    """Another collator's batches with some tokens hidden behind the mask token.

    A model that cannot count on any single token does not learn sequences by heart. Unlike
    dropout inside a network it costs nothing.

    Args:
        tokenizer: Names the mask token, and the special tokens, which are not hidden.
        probability: Share of tokens to hide.
    """

    def __init__(
        self,
        collator: Collator,
        tokenizer: PreTrainedTokenizerBase,
        probability: float = 0.1,
        seed: int = 0,
    ):
        super().__init__(collator, probability, seed)
        if tokenizer.mask_token_id is None:
            raise ValueError(f"{type(tokenizer).__name__} has no mask token to hide tokens with.")
        self.mask_token_id = tokenizer.mask_token_id
        self.maskable_ids = default_maskable_ids(tokenizer)

    def change(self, ids: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        hidden = np.isin(ids, self.maskable_ids) & (generator.random(len(ids)) < self.probability)
        return np.where(hidden, np.array(self.mask_token_id, ids.dtype), ids)
