"""A small convolutional network on bases: local patterns, anywhere in the sequence."""

import copy
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from .bases import UNKNOWN, check_examples, check_sequences, count_classes, encode

# padding gets a letter of its own, which the one-hot coding turns into zeros
PADDING = UNKNOWN + 1
POOL = 4


class SmallCnn:
    """Three convolutions over one-hot bases and pooling over the length; 160,000 weights.

    Padding takes part in nothing, so a sequence's answer does not depend on its batch. Batches
    hold sequences of similar length and at most `batch_tokens` bases, padding included (a longer
    sequence is a batch by itself); nothing is truncated.

    Args:
        epochs: passes over the training rows at the most.
        patience: stop after so many epochs without a lower log loss on the validation rows; the
            weights of the best epoch are kept.
        seed: decides weights, dropout and order; the random state outside is left as it was.

    >>> model = SmallCnn(epochs=2).fit(["ACAC", "GGTGG"], [0, 1], progress=False)
    >>> model.predict_proba(["ACACAC"]).shape
    (1, 2)
    """

    def __init__(
        self,
        *,
        epochs: int = 12,
        patience: int = 3,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.01,
        dropout: float = 0.2,
        batch_tokens: int = 32_768,
        max_batch_size: int = 64,
        seed: int = 0,
        device: str | torch.device = "cpu",
    ):
        sizes = {"epochs": epochs, "patience": patience, "batch_tokens": batch_tokens}
        for name, value in {**sizes, "max_batch_size": max_batch_size}.items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}.")
        self.epochs = epochs
        self.patience = patience
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.batch_tokens = batch_tokens
        self.max_batch_size = max_batch_size
        self.seed = seed
        self.device = torch.device(device)

    def fit(
        self,
        sequences: Sequence[str],
        labels: Sequence[int],
        validation: tuple[Sequence[str], Sequence[int]] | None = None,
        *,
        num_labels: int | None = None,
        progress: bool = True,
    ) -> "SmallCnn":
        """Learn from texts and integer labels; `validation` holds texts and labels as well.

        Args:
            num_labels: number of classes, up to the largest label by default; those without rows
                in training have probability 0.
        """
        classes = torch.from_numpy(check_examples(sequences, labels))
        bases = [encode(sequence) for sequence in sequences]
        held_out = classes
        if validation is not None:
            held_out = torch.from_numpy(check_examples(*validation))
            held_out_bases = [encode(sequence) for sequence in validation[0]]
        num_labels = count_classes(num_labels, classes, held_out)
        self._is_absent = torch.bincount(classes, minlength=num_labels) == 0
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(self.seed)
            shuffle = np.random.default_rng(self.seed)
            self.network = _Network(num_labels, self.dropout).to(self.device)
            optimizer = torch.optim.AdamW(
                self.network.parameters(), self.learning_rate, weight_decay=self.weight_decay
            )
            self.history = []
            best, best_epoch, best_weights = float("inf"), -1, None
            with tqdm(
                total=self.epochs, desc="SmallCnn", unit="epoch", disable=not progress
            ) as bar:
                for epoch in range(self.epochs):
                    record = {"train_loss": self._train(bases, classes, optimizer, shuffle, bar)}
                    if validation is not None:
                        logits = self._predict(held_out_bases)
                        record["validation_loss"] = _loss(logits, held_out).item()
                        if record["validation_loss"] < best:
                            best, best_epoch = record["validation_loss"], epoch
                            best_weights = copy.deepcopy(self.network.state_dict())
                    self.history.append(record)
                    bar.set_postfix({name: f"{value:.4f}" for name, value in record.items()})
                    if validation is not None and epoch - best_epoch >= self.patience:
                        break
        if best_weights is not None:
            self.network.load_state_dict(best_weights)
        return self

    def predict_proba(self, sequences: Sequence[str]) -> np.ndarray:
        """Probabilities in `(N, classes)`, column c for label c."""
        if not hasattr(self, "network"):
            raise ValueError("SmallCnn predicts after fit, which was not called.")
        check_sequences(sequences)
        logits = self._predict([encode(sequence) for sequence in sequences])
        return logits.masked_fill(self._is_absent, -torch.inf).softmax(-1).numpy()

    def _train(self, bases, classes, optimizer, shuffle, bar) -> float:
        """One epoch; its mean loss per sequence."""
        self.network.train()
        total = 0.0
        for rows in self._batches(bases, shuffle):
            loss = _loss(self.network(*self._collate(bases, rows)), classes[rows].to(self.device))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * len(rows)
            bar.update(len(rows) / len(bases))
        return total / len(bases)

    @torch.no_grad()
    def _predict(self, bases: list[np.ndarray]) -> Tensor:
        self.network.eval()
        logits = torch.empty(len(bases), self.network.classifier.out_features)
        for rows in self._batches(bases):
            logits[rows] = self.network(*self._collate(bases, rows)).cpu()
        return logits

    def _batches(
        self, bases: list[np.ndarray], shuffle: np.random.Generator | None = None
    ) -> Iterator[np.ndarray]:
        """Row numbers of each batch, in random order if there is a source of chance."""
        lengths = np.array([len(row) for row in bases], float)
        if shuffle is not None:
            # so that a row meets other neighbours in every epoch
            lengths *= shuffle.uniform(0.9, 1.1, len(lengths))
        order, batches, start = np.argsort(lengths, kind="stable"), [], 0
        longest = 0
        for stop, row in enumerate(order):
            longest = max(longest, len(bases[row]))
            size = stop - start + 1
            if size > 1 and (size > self.max_batch_size or size * longest > self.batch_tokens):
                batches.append(order[start:stop])
                start, longest = stop, len(bases[row])
        batches.append(order[start:])
        if shuffle is not None:
            shuffle.shuffle(batches)
        return iter(batches)

    def _collate(self, bases: list[np.ndarray], rows: np.ndarray) -> tuple[Tensor, Tensor]:
        lengths = torch.tensor([len(bases[row]) for row in rows])
        # whole windows in both poolings, so that their borders are the same in every batch
        width = -(-int(lengths.max()) // POOL**2) * POOL**2
        padded = np.full((len(rows), width), PADDING, np.uint8)
        for place, row in zip(padded, rows, strict=True):
            place[: len(bases[row])] = bases[row]
        return torch.from_numpy(padded).to(self.device), lengths.to(self.device)


class _Network(nn.Module):
    """Bases `(B, L)` and lengths `(B,)` -> logits `(B, classes)`."""

    def __init__(self, num_labels: int, dropout: float):
        super().__init__()
        channels, kernels = (PADDING, 64, 128, 128), (11, 9, 5)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(before, after, kernel, padding="same")
            for before, after, kernel in zip(channels, channels[1:], kernels, strict=False)
        )
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(2 * channels[-1], num_labels)

    def forward(self, bases: Tensor, lengths: Tensor) -> Tensor:
        hidden = nn.functional.one_hot(bases.long(), PADDING + 1)[..., :PADDING]
        hidden = hidden.transpose(1, 2).to(self.classifier.weight.dtype)
        for number, convolution in enumerate(self.convolutions):
            if number:
                hidden = nn.functional.max_pool1d(hidden, POOL)
                lengths = (lengths + POOL - 1) // POOL
            place = torch.arange(hidden.shape[-1], device=hidden.device)
            valid = (place < lengths[:, None])[:, None]
            # zero is the least that a relu gives, so masked places never win a maximum
            hidden = convolution(hidden).relu() * valid
        mean = hidden.sum(-1) / lengths[:, None]
        return self.classifier(self.dropout(torch.cat([mean, hidden.amax(-1)], -1)))


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, labels)
