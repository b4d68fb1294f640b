"""Batches by a budget of tokens instead of a number of sequences."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

# how many batches are looked at, at random, before the emptiest is taken
_TRIES = 8


class TokenBudgetBatchSampler(torch.utils.data.Sampler[list[int]]):
    """Batches of indices whose sequences have at most `budget` tokens together.

    Every example is in exactly one batch of an epoch; one longer than the budget is a batch of its
    own. The number of batches is the same in every epoch and a multiple of `num_replicas`, so that
    schedules, resuming and distributed training can count on it; long and short sequences meet at
    random, anew in each epoch. Without shuffling, batches hold neighbours in length, longest first;
    where all are of one sequence and some processes would have none in the last round, these get a
    copy of the last batch, which whoever gathers the results must count once.

    Args:
        lengths: Tokens of every example.
        budget: Most tokens in a batch.
        shuffle: Draw batches at random, by `seed` and epoch.
        num_replicas, rank: Processes, and which of them this one is: it gets every
            `num_replicas`-th batch.

    >>> sampler = TokenBudgetBatchSampler([5, 1, 4, 2, 9, 3], budget=9, shuffle=False)
    >>> list(sampler), len(sampler)
    ([[4], [0, 2], [5, 3, 1]], 3)
    """

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray,
        budget: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        num_replicas: int = 1,
        rank: int = 0,
    ):
        self.lengths = np.asarray(lengths, dtype=np.int64)
        if budget < 1:
            raise ValueError(f"budget must be at least 1 token, got {budget}.")
        if self.lengths.ndim != 1 or len(self.lengths) == 0 or self.lengths.min() < 1:
            raise ValueError("lengths must be one positive number per example, for at least one.")
        if shuffle and len(self.lengths) < num_replicas:
            raise ValueError(
                f"{num_replicas} processes need at least as many examples to train on, got"
                f" {len(self.lengths)}."
            )
        if not 0 <= rank < num_replicas:
            raise ValueError(f"rank must lie in 0..{num_replicas - 1}, got {rank}.")
        self.budget, self.shuffle, self.seed = budget, shuffle, seed
        self.num_replicas, self.rank = num_replicas, rank
        self.epoch = 0
        # accelerate passes the epoch to `batch_sampler.sampler`
        self.sampler = self
        self._followers: list[Callable[[int], None]] = []
        # stable, so that equal lengths stay in the order of the data
        self._descending = np.argsort(-self.lengths, kind="stable")
        self._num_batches = self._count_batches()

    def __len__(self) -> int:
        return self._num_batches // self.num_replicas

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose batches come next."""
        self.epoch = epoch
        for follow in self._followers:
            follow(epoch)

    def on_set_epoch(self, follow: Callable[[int], None]) -> None:
        """Tell `follow` too when the epoch changes, such as a collator or a data set."""
        self._followers.append(follow)

    def __iter__(self) -> Iterator[list[int]]:
        batches = self.batches()
        yield from batches[self.rank :: self.num_replicas]

    def batches(self) -> list[list[int]]:
        """All batches of this epoch, of all processes."""
        if not self.shuffle:
            return self._neighbours()
        generator = np.random.default_rng((self.seed, self.epoch))
        # `_count_batches` has chosen a number that balances
        batches: Any = self._spread(generator) or self._balance(self._num_batches)
        generator.shuffle(batches)
        return [generator.permutation(batch).tolist() for batch in batches]

    def _count_batches(self) -> int:
        """The least number of batches, among multiples of the processes, that the budget allows."""
        if not self.shuffle:
            return len(self._neighbours())
        # room for chance: batches that must be full to the brim could be drawn in one way only
        needed = -(-int(np.minimum(self.lengths, self.budget).sum() * 1.03) // self.budget)
        count = self._round_up(max(needed, int((self.lengths >= self.budget).sum()), 1))
        while self._balance(count) is None:
            count = self._round_up(count + max(1, count // 100))
        return count

    def _round_up(self, count: int) -> int:
        """`count` as a multiple of the processes, but never more batches than examples."""
        rounded = -(-count // self.num_replicas) * self.num_replicas
        most = len(self.lengths) // self.num_replicas * self.num_replicas
        return min(rounded, most)

    def _fits(self, load: int, items: int, length: int) -> bool:
        return items == 0 or load + length <= self.budget

    def _balance(self, count: int) -> list[list[int]] | None:
        """Longest first into the emptiest of `count` batches; `None` if that breaks the budget."""
        heap = [(0, number) for number in range(count)]
        batches: list[list[int]] = [[] for _ in range(count)]
        most = len(self.lengths) // self.num_replicas * self.num_replicas
        for index in self._descending.tolist():
            load, number = heap[0]
            length = int(self.lengths[index])
            # with as many batches as there can be, the budget must give way
            if not self._fits(load, len(batches[number]), length) and count < most:
                return None
            batches[number].append(index)
            heapq.heapreplace(heap, (load + length, number))
        return batches

    def _spread(self, generator: np.random.Generator) -> list[list[int]] | None:
        """Longest first into random batches with room; `None` if some sequence finds none."""
        count = self._num_batches
        loads = [0] * count
        batches: list[list[int]] = [[] for _ in range(count)]
        order = self._shuffle_equals(generator).tolist()
        picks = generator.integers(count, size=(len(order), _TRIES))
        for place, index in enumerate(order):
            length = int(self.lengths[index])
            for number in picks[place].tolist():
                if self._fits(loads[number], len(batches[number]), length):
                    break
            else:
                number = min(range(count), key=loads.__getitem__)
                if not self._fits(loads[number], len(batches[number]), length):
                    return None
            batches[number].append(index)
            loads[number] += length
        return batches if all(batches) else self._fill_empty(batches)

    def _shuffle_equals(self, generator: np.random.Generator) -> np.ndarray:
        """Indices from long to short, those of nearly the same length in random order."""
        noise = generator.uniform(0.8, 1.0, size=len(self.lengths))
        return np.argsort(-self.lengths * noise, kind="stable")

    @staticmethod
    def _fill_empty(batches: list[list[int]]) -> list[list[int]]:
        """Every empty batch takes the last, shortest, sequence of the batch with most sequences."""
        for batch in batches:
            if not batch:
                batch.append(max(batches, key=len).pop())
        return batches

    def _neighbours(self) -> list[list[int]]:
        """Batches of neighbours in length, the same number for every process."""
        batches: list[list[int]] = []
        load = 0
        for index in self._descending.tolist():
            length = int(self.lengths[index])
            if not batches or load + length > self.budget:
                batches.append([])
                load = 0
            batches[-1].append(index)
            load += length
        while len(batches) % self.num_replicas:
            # the batch with most sequences is halved: cheap, and within the budget
            fullest = max(range(len(batches)), key=lambda number: len(batches[number]))
            batch = batches[fullest]
            if len(batch) == 1:
                return batches + batches[-1:] * (-len(batches) % self.num_replicas)
            batches[fullest : fullest + 1] = [batch[: len(batch) // 2], batch[len(batch) // 2 :]]
        return batches
