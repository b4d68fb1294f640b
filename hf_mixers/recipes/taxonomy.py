"""Pre-training on genes whose species is known: masked tokens and taxonomy, learned together.

Every sequence is read once, with part of its tokens hidden. The tokens are guessed as in masked
language modelling, and the pooled vector of the sequence is classified at several ranks, such as
genus and species. What comes out is a masked language model whose pooled vector tells organisms
apart, species it has never seen included; the classifiers of the ranks are left behind.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset as Table
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase
from transformers.modeling_outputs import ModelOutput

from ..data.collators import FlatCollator, MaskedLMCollator
from ..data.encode import tokenize_sequences
from ..models.dna import reverse_complement
from ..models.heads import MaskedLMHead
from ..models.inputs import SequenceBatch
from ..models.losses import IGNORED
from ..models.packing import at_least_float32
from ..models.starts import start_as_output
from ..training import MixerTrainer


class TaxonomyPretraining(nn.Module):
    """A masked language model with a classifier of its pooled vector per rank.

    Args:
        masked_lm: The model to train, of any family.
        num_classes: Classes of every rank, by name.
        weights: How much the loss of every rank counts; that of masked tokens counts 1.
        label_smoothing: Of the ranks.

    Labels of ranks are -100 where they are not known.
    """

    def __init__(
        self,
        masked_lm: MaskedLMHead,
        num_classes: Mapping[str, int],
        weights: Mapping[str, float],
        label_smoothing: float = 0.0,
    ):
        super().__init__()
        if set(num_classes) != set(weights):
            raise ValueError(f"Ranks are {sorted(num_classes)}, but weights {sorted(weights)}.")
        self.masked_lm = masked_lm
        self.config = masked_lm.config
        self.weights, self.label_smoothing = dict(weights), label_smoothing
        self.ranks = nn.ModuleDict()
        for rank, count in num_classes.items():
            layer = start_as_output(nn.Linear(self.config.pooled_size, count), self.config)
            nn.init.normal_(layer.weight, 0, getattr(layer, "_start_deviation", 0.02))
            nn.init.zeros_(layer.bias)
            self.ranks[rank] = layer

    def forward(
        self,
        input_ids: Tensor,
        cu_seq_lens_q: Tensor,
        labels: Tensor,
        rank_labels: Tensor,
        max_length_q: int | None = None,
    ) -> ModelOutput:
        """`rank_labels` are `(B, ranks)` in the order of `num_classes`."""
        batch = SequenceBatch(input_ids, None, None, None, cu_seq_lens_q, max_length_q)
        encoded = self.masked_lm.model(batches=(batch,))
        masked_loss, _, _ = self.masked_lm.guess(encoded, labels)
        pooled = encoded.pool()
        loss, parts = masked_loss, {"masked_loss": masked_loss.detach()}
        for column, (rank, layer) in enumerate(self.ranks.items()):
            targets = rank_labels[:, column]
            logits = at_least_float32(layer(pooled))
            losses = functional.cross_entropy(
                logits,
                targets,
                ignore_index=IGNORED,
                reduction="sum",
                label_smoothing=self.label_smoothing,
            )
            known = targets != IGNORED
            count = known.sum().clamp(min=1)
            loss = loss + self.weights[rank] * losses / count
            right = ((logits.argmax(1) == targets) & known).sum() / count
            parts |= {f"{rank}_loss": (losses / count).detach(), f"{rank}_accuracy": right}
        return ModelOutput(loss=loss, **parts)


class RankedSequences(Dataset):
    """Token ids of sequences with a class per rank; long ones are cut at random places.

    Where a sequence is cut, and whether it is read from the other strand, depends on seed, epoch
    and index alone.

    Args:
        table: Columns `sequence`, and one of text per rank.
        ranks: Columns with the classes of every rank.
        classes: Names of the classes of every rank; others have the label -100.
        max_length: Most tokens of an example.
        strand_probability: How often a sequence of DNA is read from the other strand.
    """

    def __init__(
        self,
        table: Table,
        tokenizer: PreTrainedTokenizerBase,
        classes: Mapping[str, Sequence[str]],
        *,
        max_length: int,
        strand_probability: float = 0.0,
        seed: int = 0,
    ):
        self.tokens = tokenize_sequences(table, tokenizer)
        self.lengths = np.minimum(np.asarray(self.tokens["length"][:]), max_length)
        self.classes = {rank: list(names) for rank, names in classes.items()}
        self.labels = {}
        for rank, names in self.classes.items():
            numbers = {name: number for number, name in enumerate(names)}
            self.labels[rank] = np.array([numbers.get(n, IGNORED) for n in table[rank][:]])
        self.strand_probability, self.seed, self.epoch = strand_probability, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        index = int(index)
        ids, length = np.asarray(self.tokens[index]["input_ids"]), int(self.lengths[index])
        generator = np.random.default_rng((self.seed, self.epoch, index))
        start = int(generator.integers(len(ids) - length + 1))
        ids = ids[start : start + length]
        if generator.random() < self.strand_probability:
            ids = reverse_complement(ids)
        return {"input_ids": ids} | {rank: int(own[index]) for rank, own in self.labels.items()}


class TaxonomyCollator:
    """Flat batches with tokens hidden and labels of every rank.

    Args:
        ranks: Columns with the classes of every rank.
        mask_probability: Share of tokens to guess, or bounds between which every sequence draws
            its own.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        ranks: Sequence[str],
        mask_probability: float | tuple[float, float] = 0.3,
        seed: int = 0,
    ):
        self.masking = MaskedLMCollator(FlatCollator(), tokenizer, mask_probability, seed=seed)
        self.ranks = list(ranks)

    def set_epoch(self, epoch: int) -> None:
        self.masking.set_epoch(epoch)

    def for_evaluation(self) -> "TaxonomyCollator":
        fixed = TaxonomyCollator.__new__(TaxonomyCollator)
        fixed.masking, fixed.ranks = self.masking.for_evaluation(), self.ranks
        return fixed

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        batch = self.masking(examples)
        classes = np.array([[example[rank] for rank in self.ranks] for example in examples])
        return {**batch, "rank_labels": torch.from_numpy(classes.astype(np.int64))}


class TaxonomyTrainer(MixerTrainer):
    """`MixerTrainer` that logs the parts of the loss."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._seen: dict[str, list[Tensor]] = {}

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        output = model(**inputs)
        if model.training:
            for name, value in output.items():
                if name != "loss":
                    self._seen.setdefault(name, []).append(value)
        return (output.loss, output) if return_outputs else output.loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:
            logs = logs | {name: float(torch.stack(v).mean()) for name, v in self._seen.items()}
            self._seen = {}
        super().log(logs, start_time)


def list_classes(names: Sequence[str], unknown: Sequence[str] = ()) -> list[str]:
    """Sorted classes of a column, without those that say nothing."""
    return sorted(set(names) - set(unknown))
