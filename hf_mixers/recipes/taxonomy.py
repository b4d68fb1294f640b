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
from transformers.utils import logging

from ..data.collators import FlatCollator, MaskedLMCollator
from ..data.encode import tokenize_sequences
from ..models.configuration_mixer import MixerConfig
from ..models.dna import reverse_complement
from ..models.heads import MaskedLMHead
from ..models.inputs import SequenceBatch
from ..models.losses import IGNORED
from ..models.packing import at_least_float32
from ..models.starts import start_as_output
from ..training import MixerTrainer
from .profile_start import make_profiles

logger = logging.get_logger(__name__)


class TaxonomyPretraining(nn.Module):
    """A masked language model with a classifier of its pooled vector per rank.

    Args:
        masked_lm: The model to train, of any family.
        num_classes: Classes of every rank, by name.
        weights: How much the loss of every rank counts.
        label_smoothing: Of the ranks.
        masked_weight: How much the loss of masked tokens counts.

    Labels of ranks are -100 where they are not known.
    """

    def __init__(
        self,
        masked_lm: MaskedLMHead,
        num_classes: Mapping[str, int],
        weights: Mapping[str, float],
        label_smoothing: float = 0.0,
        masked_weight: float = 1.0,
    ):
        super().__init__()
        if set(num_classes) != set(weights):
            raise ValueError(f"Ranks are {sorted(num_classes)}, but weights {sorted(weights)}.")
        self.masked_lm = masked_lm
        self.config = masked_lm.config
        self.weights, self.label_smoothing = dict(weights), label_smoothing
        self.masked_weight = masked_weight
        self.ranks = nn.ModuleDict()
        for rank, count in num_classes.items():
            layer = start_as_output(nn.Linear(self.config.pooled_size, count), self.config)
            nn.init.normal_(layer.weight, 0, getattr(layer, "start_deviation", 0.02))
            nn.init.zeros_(layer.bias)
            self.ranks[rank] = layer

    def forward(
        self,
        input_ids: Tensor,
        cu_seq_lens_q: Tensor,
        labels: Tensor,
        rank_labels: Tensor,
        original_ids: Tensor | None = None,
        max_length_q: int | None = None,
    ) -> ModelOutput:
        """`rank_labels` are `(B, ranks)` in the order of `num_classes`.

        `original_ids` are `input_ids` before any were hidden: k-mer profiles are counted in them.
        """
        batch = SequenceBatch(input_ids, None, None, None, cu_seq_lens_q, max_length_q)
        encoded = self.masked_lm.model(batches=(batch,))
        if original_ids is not None and self.config.kmer_size is not None:
            encoded = encoded._replace(ids=encoded.pack.gather(original_ids.flatten()))
        masked_loss, _, _ = self.masked_lm.guess(encoded, labels)
        loss, parts = self.classify(encoded.pool(), rank_labels)
        loss = loss + self.masked_weight * masked_loss
        return ModelOutput(loss=loss, masked_loss=masked_loss.detach(), **parts)

    def classify(
        self, pooled: Tensor, rank_labels: Tensor, heads: nn.ModuleDict | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Weighted loss of the ranks, and loss and accuracy of each, from vectors of sequences.

        `heads` classify other vectors than the pooled ones.
        """
        loss = pooled.new_zeros(())
        parts: dict[str, Tensor] = {}
        for column, (rank, layer) in enumerate((heads or self.ranks).items()):
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
        return loss, parts


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

    def profiles(
        self, config: MixerConfig, lengths: tuple[int, int] | None = None, epoch: int = 0
    ) -> Tensor:
        """Square roots of k-mer frequencies of all sequences: `(N, words)`, float16.

        Args:
            lengths: Bounds of the length of the piece that is read of each, whose logarithm is
                uniform, from either strand; whole sequences by default.
            epoch: In others, other pieces are read.
        """
        if lengths is None:
            return make_profiles(self.tokens, config)
        generator = np.random.default_rng((self.seed, epoch))
        return make_profiles(
            self.tokens, config, change=lambda ids: draw_piece(ids, lengths, generator)
        )

    def __getitem__(self, index: int) -> dict[str, Any]:
        index = int(index)
        ids, length = np.asarray(self.tokens[index]["input_ids"]), int(self.lengths[index])
        generator = np.random.default_rng((self.seed, self.epoch, index))
        start = int(generator.integers(len(ids) - length + 1))
        ids = ids[start : start + length]
        if generator.random() < self.strand_probability:
            ids = reverse_complement(ids)
        return {"input_ids": ids} | {rank: int(own[index]) for rank, own in self.labels.items()}


def draw_piece(
    ids: np.ndarray, lengths: tuple[int, int], generator: np.random.Generator
) -> np.ndarray:
    """A piece of a sequence at a random place, read from either strand."""
    low, high = np.log(lengths)
    length = min(len(ids), round(np.exp(generator.uniform(low, high))))
    start = int(generator.integers(len(ids) - length + 1))
    piece = ids[start : start + length]
    return reverse_complement(piece) if generator.random() < 0.5 else piece


class TaxonomyCollator:
    """Flat batches with tokens hidden and labels of every rank.

    Args:
        ranks: Columns with the classes of every rank.
        options: See `MaskedLMCollator`.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        ranks: Sequence[str],
        **options: Any,
    ):
        self.masking = MaskedLMCollator(FlatCollator(), tokenizer, **options)
        self.ranks = list(ranks)

    def set_epoch(self, epoch: int) -> None:
        self.masking.set_epoch(epoch)

    def for_evaluation(self) -> "TaxonomyCollator":
        fixed = TaxonomyCollator.__new__(TaxonomyCollator)
        fixed.masking, fixed.ranks = self.masking.for_evaluation(), self.ranks
        return fixed

    def __call__(self, examples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        batch = self.masking(examples)
        ids = np.concatenate([np.asarray(example["input_ids"]) for example in examples])
        batch["original_ids"] = torch.from_numpy(ids.astype(np.int64))[None]
        classes = np.array([[example[rank] for rank in self.ranks] for example in examples])
        return {**batch, "rank_labels": torch.from_numpy(classes.astype(np.int64))}


class TaxonomyTrainer(MixerTrainer):
    """`MixerTrainer` that logs the parts of the loss.

    Args:
        rank_learning_rate: Of the classifiers of the ranks, and of the k-mer part. Examples of a
            class are rare, and want smaller steps than the model; `None`: `args.learning_rate`.
    """

    model: TaxonomyPretraining

    def __init__(self, *args, rank_learning_rate: float | None = None, **kwargs):
        super().__init__(*args, **kwargs)
        self.rank_learning_rate = rank_learning_rate
        self._seen: dict[str, list[Tensor]] = {}

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        optimizer = super().create_optimizer(model)
        if self.rank_learning_rate is not None:
            set_learning_rate(optimizer, self.model.ranks, self.rank_learning_rate)
            if (encoder := self.model.masked_lm.model.kmers) is not None:
                set_learning_rate(optimizer, encoder, self.rank_learning_rate)
        return optimizer

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


def set_learning_rate(optimizer: torch.optim.Optimizer, module: nn.Module, rate: float) -> None:
    """Give the parameters of a module, wherever they are in an optimizer, a learning rate."""
    chosen = {id(parameter) for parameter in module.parameters()}
    for group in list(optimizer.param_groups):
        own = [p for p in group["params"] if id(p) in chosen]
        if not own:
            continue
        group["params"] = [p for p in group["params"] if id(p) not in chosen]
        optimizer.add_param_group({**group, "params": own, "lr": rate})


def train_profiles(
    model: TaxonomyPretraining,
    data: RankedSequences,
    *,
    epochs: int,
    batch_size: int = 256,
    learning_rate: float = 1.5e-3,
    weight_decay: float = 0.05,
    seed: int = 0,
    lengths: tuple[int, int] | None = None,
) -> list[dict[str, float]]:
    """Train the k-mer part of the pooled vector alone, with classifiers of the ranks of its own.

    With `lengths` it reads pieces of the sequences, others in every epoch; see
    `RankedSequences.profiles`.

    The mixer is not run, so an epoch takes seconds where the mixer's takes an hour. Of several
    `config.kmer_encoders` every one has classifiers of its own, so that they learn independently.
    Returns the means of every epoch.
    """
    encoder, config = model.masked_lm.model.kmers, model.config
    if encoder is None:
        raise ValueError("Profiles are trained in models with config.kmer_size, got None.")
    torch.manual_seed(seed)
    for layer in (encoder.fc1, encoder.fc2):
        layer.reset_parameters()
    heads = nn.ModuleList(
        nn.ModuleDict(
            {
                rank: nn.Linear(config.kmer_hidden_size, own.out_features)  # type: ignore[arg-type]
                for rank, own in model.ranks.items()
            }
        )
        for _ in range(config.kmer_encoders)
    )
    profiles = data.profiles(config, lengths)
    labels = torch.stack([torch.from_numpy(data.labels[rank]) for rank in model.ranks], dim=1)
    parameters = [*encoder.parameters(), *heads.parameters()]
    optimizer = torch.optim.AdamW(parameters, learning_rate, weight_decay=weight_decay)
    per_epoch = max(1, len(profiles) // batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, learning_rate, epochs * per_epoch, pct_start=0.1
    )
    generator = torch.Generator().manual_seed(seed)
    history = []
    encoder.train()
    for epoch in range(epochs):
        if epoch and lengths is not None:
            profiles = data.profiles(config, lengths, epoch)
        sums: dict[str, float] = {}
        order = torch.randperm(len(profiles), generator=generator)
        for step in range(per_epoch):
            rows = order[step * batch_size : (step + 1) * batch_size]
            made = encoder(profiles[rows].float()).chunk(len(heads), 1)
            found = [
                model.classify(vectors, labels[rows], own)  # type: ignore[arg-type]
                for vectors, own in zip(made, heads, strict=True)
            ]
            optimizer.zero_grad()
            torch.stack([loss for loss, _ in found]).sum().backward()
            optimizer.step()
            schedule.step()
            for _, parts in found:
                for name, value in parts.items():
                    sums[name] = sums.get(name, 0.0) + float(value) / len(heads)
        history.append({name: value / per_epoch for name, value in sums.items()})
        logger.info(f"profiles: {history[-1]}")
    _standardize(model, profiles)
    return history


@torch.no_grad()
def _standardize(model: TaxonomyPretraining, profiles: Tensor, chunk: int = 4096) -> None:
    """Let the norm of pooled vectors know mean and variance of the k-mer part."""
    encoder, norm = model.masked_lm.model.kmers, model.masked_lm.model.pooled_norm
    if norm is None:
        return
    encoder.eval()
    made = torch.cat([encoder(part.float()) for part in profiles.split(chunk)])
    encoder.train()
    place = slice(model.config.pooled_size - model.config.kmer_width, None)
    norm.running_mean[place] = made.mean(0)
    norm.running_var[place] = made.var(0, correction=0)
