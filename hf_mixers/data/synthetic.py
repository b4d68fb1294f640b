"""Synthetic tasks of the papers."""

import numpy as np
from torch.utils.data import Dataset

# base length -> longest sequence, as in the published generator
ADDING_CAPS = {200: 6_700, 1_000: 31_800, 16_000: 242_400, 128_000: 1_500_000}
ADDING_SHORTEST = 32


class AddingProblem(Dataset):
    """The adding problem of the ChordMixer paper: sum up the two marked numbers of a sequence.

    A sequence of N steps has two features: numbers drawn from (-1, 1), and marks that are 1 at two
    steps and 0 elsewhere. The target is 0.5 + (a + b) / 4 for the marked numbers a and b. Lengths
    are `base_length` times a log-normal variable (mean 0.5, deviation 0.7 of its logarithm),
    drawn again until they lie between 32 and `longest`. Examples are made when asked for, from
    `seed` and index alone; always answering 0.5 is right to 0.04 in 15.4% of cases.

    Args:
        num_examples: Size of the data set.
        base_length: 200, 1000, 16000 or 128000 in the paper.
        longest: Longest sequence; by default the paper's, or 33 times the base length.
        seed: Different seeds give different data: use one each for training and evaluation.

    >>> data = AddingProblem(3, base_length=200, seed=1)
    >>> example = data[0]
    >>> values = example["input_values"]
    >>> values.shape == (data.lengths[0], 2), float(values[:, 1].sum())
    (True, 2.0)
    """

    def __init__(
        self, num_examples: int, base_length: int, longest: int | None = None, seed: int = 0
    ):
        self.longest = longest or ADDING_CAPS.get(base_length, 33 * base_length)
        if num_examples < 1 or base_length < 1 or self.longest < ADDING_SHORTEST:
            raise ValueError(
                f"AddingProblem needs at least one example, a positive base length and room for "
                f"{ADDING_SHORTEST} steps, got {num_examples}, {base_length} and {self.longest}."
            )
        self.seed = seed
        self.lengths = self._draw_lengths(num_examples, base_length)

    def _draw_lengths(self, count: int, base_length: int) -> np.ndarray:
        generator = np.random.default_rng((self.seed, 0))
        kept = np.empty(0, dtype=np.int64)
        while len(kept) < count:
            drawn = (base_length * generator.lognormal(0.5, 0.7, size=count)).astype(np.int64)
            drawn = drawn[(drawn >= ADDING_SHORTEST) & (drawn <= self.longest)]
            kept = np.concatenate([kept, drawn])
        return kept[:count]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> dict:
        if not 0 <= index < len(self):
            raise IndexError(f"The data set has {len(self)} examples, got index {index}.")
        generator = np.random.default_rng((self.seed, 1, index))
        length = int(self.lengths[index])
        values = np.zeros((length, 2), dtype=np.float32)
        values[:, 0] = generator.uniform(-1, 1, size=length)
        marked = generator.choice(length, size=2, replace=False)
        values[marked, 1] = 1
        target = 0.5 + values[marked, 0].sum() / 4
        return {"input_values": values, "labels": np.float32(target)}


def adding_problem(
    num_examples: int, base_length: int, longest: int | None = None, seed: int = 0
) -> AddingProblem:
    """The adding problem as a data set; see `AddingProblem`."""
    return AddingProblem(num_examples, base_length, longest, seed)
