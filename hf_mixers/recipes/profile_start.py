"""A stage of fine-tuning for models whose k-mer part is new: it learns the classes first, alone.

A checkpoint can be fine-tuned with another k-mer part than it was trained with, such as words of
both strands for sequences that have no reading frame. That part then knows nothing, and training
it with the mixer would take hours where profiles alone take seconds. So it is trained on the
profiles of the labelled sequences, with a linear layer that becomes part of the head.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.utils import logging

from ..models.configuration_mixer import MixerConfig
from ..models.packing import Boundaries, pack_ragged
from ..models.words import kmer_profile

logger = logging.get_logger(__name__)

# config fields that decide what the k-mer part reads, and its weights
KMER_FIELDS = ("kmer_size", "kmer_phases", "kmer_strands", "kmer_hidden_size", "kmer_encoders")
# sequences that the stage reads, in as many epochs as that makes within bounds
SEQUENCES = 400_000
EPOCHS = (4, 40)


def is_new_part(config: PreTrainedConfig, stored: Mapping[str, Any]) -> bool:
    """Whether the k-mer part of a model is another than that of the checkpoint it came from."""
    if getattr(config, "kmer_size", None) is None:
        return False
    defaults = {name: getattr(MixerConfig, name) for name in KMER_FIELDS}
    return any(getattr(config, n) != stored.get(n, defaults[n]) for n in KMER_FIELDS)


def make_profiles(
    rows: Dataset,
    config: MixerConfig,
    dtype: torch.dtype = torch.float16,
    chunk: int = 512,
    change: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Tensor:
    """Square roots of k-mer frequencies of tokenized sequences: `(N, words)`.

    `change` gives what is read of the ids of a sequence, such as a piece of it.
    """
    parts = []
    for start in range(0, len(rows), chunk):
        found = rows[start : start + chunk]["input_ids"]
        arrays = [np.asarray(row, np.int64) for row in found]
        ids = [torch.from_numpy(row if change is None else change(row)) for row in arrays]
        ends = torch.tensor([0, *map(len, ids)]).cumsum(0)
        boundaries = Boundaries((1, int(ends[-1])), ids[0].device, cu_seq_lens=ends)
        pack = pack_ragged([boundaries])
        profile = kmer_profile(pack.gather(torch.cat(ids)), pack, config)
        parts.append(pack.restore(profile).to(dtype))
    return torch.cat(parts)


def learn_profiles(
    model: PreTrainedModel,
    rows: Mapping[str, Dataset],
    *,
    batch_size: int = 256,
    learning_rate: float = 1.5e-3,
    weight_decay: float = 0.05,
    seed: int = 0,
) -> list[dict[str, float]]:
    """Train the k-mer part of a sequence classifier on its classes; the head reads that part.

    Returns the losses of every epoch. Of `validation` rows, if there are some, the epoch with the
    lowest loss is kept.

    Args:
        rows: Tokenized `train`, and `validation`.
    """
    config: Any = model.config
    encoder: Any = model.base_model.kmers
    weights = None if config.class_weights is None else torch.tensor(config.class_weights).float()
    profiles = {name: make_profiles(rows[name], config) for name in rows if name != "test"}
    labels = {name: torch.tensor(rows[name]["labels"][:]) for name in profiles}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for layer in (encoder.fc1, encoder.fc2):
            layer.reset_parameters()
        heads = nn.ModuleList(
            nn.Linear(config.kmer_hidden_size, config.num_labels)
            for _ in range(config.kmer_encoders)
        )
        both = nn.ModuleDict({"encoder": encoder, "heads": heads})
        epochs = round(min(EPOCHS[1], max(EPOCHS[0], SEQUENCES / len(profiles["train"]))))
        per_epoch = max(1, len(profiles["train"]) // batch_size)
        optimizer = torch.optim.AdamW(both.parameters(), learning_rate, weight_decay=weight_decay)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, learning_rate, epochs * per_epoch, pct_start=0.1
        )
        history: list[dict[str, float]] = []
        best, kept = float("inf"), None
        for _ in range(epochs):
            both.train()
            total = 0.0
            order = torch.randperm(len(profiles["train"]))
            for step in range(per_epoch):
                chosen = order[step * batch_size : (step + 1) * batch_size]
                loss = torch.stack(
                    [
                        functional.cross_entropy(logits, labels["train"][chosen], weights)
                        for logits in _classify(both, profiles["train"][chosen])
                    ]
                ).mean()
                optimizer.zero_grad()
                (loss * len(heads)).backward()
                optimizer.step()
                schedule.step()
                total += loss.item()
            entry = {"profile_loss": total / per_epoch}
            if "validation" in profiles:
                entry |= _score(both, profiles["validation"], labels["validation"], weights)
                if entry["profile_validation_loss"] < best:
                    best, kept = entry["profile_validation_loss"], copy.deepcopy(both.state_dict())
            history.append(entry)
            logger.info(f"profiles: {entry}")
    if kept is not None:
        both.load_state_dict(kept)
    _put_into(model, heads, profiles["train"])
    return history


def _classify(both: nn.ModuleDict, profiles: Tensor) -> list[Tensor]:
    """Logits of every encoder's own layer."""
    heads: Any = both["heads"]
    made = both["encoder"](profiles.float()).chunk(len(heads), 1)
    return [head(part) for head, part in zip(heads, made, strict=True)]


@torch.no_grad()
def _score(
    both: nn.ModuleDict, profiles: Tensor, labels: Tensor, weights: Tensor | None
) -> dict[str, float]:
    """Loss and accuracy of the mean of all encoders."""
    both.eval()
    logits = torch.stack(_classify(both, profiles)).mean(0)
    return {
        "profile_validation_loss": functional.cross_entropy(logits, labels, weights).item(),
        "profile_validation_accuracy": (logits.argmax(1) == labels).float().mean().item(),
    }


@torch.no_grad()
def _put_into(model: PreTrainedModel, heads: Any, profiles: Tensor) -> None:
    """Let the classifier read the k-mer part as the layers did, and nothing else."""
    config: Any = model.config
    trunk: Any = model.base_model
    classifier: Any = model.classifier
    place = slice(config.pooled_size - config.kmer_width, None)
    matrix = torch.cat([head.weight for head in heads], dim=1) / len(heads)
    bias = torch.stack([head.bias for head in heads]).mean(0)
    if trunk.pooled_norm is not None:
        trunk.kmers.eval()
        made = torch.cat([trunk.kmers(part.float()) for part in profiles.split(4096)])
        mean, variance = made.mean(0), made.var(0, correction=0)
        trunk.pooled_norm.running_mean[place] = mean
        trunk.pooled_norm.running_var[place] = variance
        bias = bias + matrix @ mean
        matrix = matrix * (variance + trunk.pooled_norm.eps).sqrt()
    trunk.kmers.train(model.training)
    classifier.weight.zero_()
    classifier.weight[:, place] = matrix
    classifier.bias.copy_(bias)
