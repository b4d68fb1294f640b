"""Synthetic tasks of the papers: their examples are made when asked for."""

import numpy as np

from .rows import TaskRows

# base length -> longest sequence, as in the published generator
ADDING_CAPS = {200: 6_700, 1_000: 31_800, 16_000: 242_400, 128_000: 1_500_000}
ADDING_SHORTEST = 32


class SyntheticTask(TaskRows):
    """Examples of given lengths, made from `seed` and row alone.

    Args:
        lengths: Steps of every example.
        longest: Steps that an example of the task can have.
        seed: Different seeds give different data: use one each for training and evaluation.
    """

    def __init__(self, lengths: np.ndarray, longest: int, seed: int = 0):
        super().__init__(len(lengths))
        self.all_lengths, self.longest, self.seed = lengths, longest, seed

    def read(self, row: int) -> dict:
        generator = np.random.default_rng((self.seed, 1, row))
        return self.make(generator, int(self.all_lengths[row]))

    def find_lengths(self, rows: np.ndarray) -> np.ndarray:
        return self.all_lengths[rows]

    def make(self, generator: np.random.Generator, length: int) -> dict:
        """One example of `length` steps."""
        raise NotImplementedError


class AddingProblem(SyntheticTask):
    """Sum up the two marked numbers of a sequence.

    A sequence of N steps has two features: numbers drawn from (-1, 1), and marks that are 1 at two
    steps and 0 elsewhere. The target is 0.5 + (a + b) / 4 for the marked numbers a and b; always
    answering 0.5 is right to 0.04 in 15.4% of cases.
    """

    def make(self, generator: np.random.Generator, length: int) -> dict:
        values = np.zeros((length, 2), dtype=np.float32)
        values[:, 0] = generator.uniform(-1, 1, size=length)
        marked = generator.choice(length, size=2, replace=False)
        values[marked, 1] = 1
        target = 0.5 + values[marked, 0].sum() / 4
        return {"input_values": values, "labels": np.float32(target)}


class TemporalOrder(SyntheticTask):
    """Tell which two symbols stand among others, and in which order.

    A sequence of N steps holds symbols a, b, c and d (ids 0 to 3) except at two steps, where X (id
    4) or Y (id 5) stand. The classes are the four orders XX, XY, YX and YY.
    """

    def make(self, generator: np.random.Generator, length: int) -> dict:
        ids = generator.integers(0, 4, size=length, dtype=np.uint8)
        first, second = generator.integers(0, 2, size=2)
        places = np.sort(generator.choice(length, size=2, replace=False))
        ids[places] = 4 + first, 4 + second
        return {"input_ids": ids, "labels": int(2 * first + second)}


def adding_problem(
    num_examples: int, base_length: int, longest: int | None = None, seed: int = 0
) -> AddingProblem:
    """The adding problem of the ChordMixer paper, with sequences of very different lengths.

    Lengths are `base_length` times a log-normal variable (mean 0.5, deviation 0.7 of its
    logarithm), drawn again until they lie between 32 and `longest`.

    Args:
        num_examples: Size of the data set.
        base_length: 200, 1000, 16000 or 128000 in the paper.
        longest: Longest sequence; by default the paper's, or 33 times the base length.
        seed: See `SyntheticTask`.

    >>> data = adding_problem(3, base_length=200, seed=1)
    >>> values = data[0]["input_values"]
    >>> values.shape == (data.lengths[0], 2), float(values[:, 1].sum())
    (True, 2.0)
    """
    longest = longest or ADDING_CAPS.get(base_length, 33 * base_length)
    if num_examples < 1 or base_length < 1 or longest < ADDING_SHORTEST:
        raise ValueError(
            f"The adding problem needs at least one example, a positive base length and room for "
            f"{ADDING_SHORTEST} steps, got {num_examples}, {base_length} and {longest}."
        )
    generator = np.random.default_rng((seed, 0))
    kept = np.empty(0, dtype=np.int64)
    while len(kept) < num_examples:
        drawn = (base_length * generator.lognormal(0.5, 0.7, size=num_examples)).astype(np.int64)
        drawn = drawn[(drawn >= ADDING_SHORTEST) & (drawn <= longest)]
        kept = np.concatenate([kept, drawn])
    return AddingProblem(kept[:num_examples], longest, seed)


def fixed_adding_problem(num_examples: int, length: int, seed: int = 0) -> AddingProblem:
    """The adding problem of the Paramixer paper, with sequences of one length (2^7 to 2^15).

    >>> fixed_adding_problem(3, length=128)[2]["input_values"].shape
    (128, 2)
    """
    return AddingProblem(_equal_lengths(num_examples, length), length, seed)


def temporal_order(num_examples: int, length: int, seed: int = 0) -> TemporalOrder:
    """The temporal order problem of the Paramixer paper, at one length (2^7 to 2^15).

    >>> temporal_order(3, length=8, seed=2)[0]  # XY
    {'input_ids': array([4, 5, 2, 1, 2, 3, 0, 3], dtype=uint8), 'labels': 1}
    """
    return TemporalOrder(_equal_lengths(num_examples, length), length, seed)


def _equal_lengths(num_examples: int, length: int) -> np.ndarray:
    if num_examples < 1 or length < 2:
        raise ValueError(
            f"The task needs at least one example of at least two steps, got {num_examples} of "
            f"{length}."
        )
    return np.full(num_examples, length)
