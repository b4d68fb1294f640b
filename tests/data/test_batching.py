"""Batches by tokens: nothing lost, nothing twice, the same number in every epoch and process."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_mixers.data.batching import TokenBudgetBatchSampler

lengths_lists = st.lists(st.integers(1, 60), min_size=4, max_size=60)


@pytest.mark.slow
@given(
    lengths=lengths_lists,
    budget=st.integers(1, 100),
    replicas=st.integers(1, 4),
)
def test_every_example_is_in_exactly_one_batch_of_one_process(lengths, budget, replicas):
    samplers = [
        TokenBudgetBatchSampler(lengths, budget, num_replicas=replicas, rank=rank)
        for rank in range(replicas)
    ]
    for epoch in range(3):
        seen, counts = [], []
        for sampler in samplers:
            sampler.set_epoch(epoch)
            batches = list(sampler)
            assert len(batches) == len(sampler)
            assert all(batches)
            counts.append(len(batches))
            seen += [index for batch in batches for index in batch]
        assert sorted(seen) == list(range(len(lengths)))
        assert len(set(counts)) == 1


@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=60),
    budget=st.integers(1, 100),
    replicas=st.integers(1, 4),
)
def test_evaluation_repeats_a_batch_only_where_a_process_has_none(lengths, budget, replicas):
    shares = []
    for rank in range(replicas):
        sampler = TokenBudgetBatchSampler(
            lengths, budget, shuffle=False, num_replicas=replicas, rank=rank
        )
        shares.append(list(sampler))
        assert len(shares[-1]) == len(sampler) == len(shares[0])
    batches = [batch for turn in zip(*shares, strict=True) for batch in turn]
    own = [batch for number, batch in enumerate(batches) if batch not in batches[:number]]
    assert sorted(index for batch in own for index in batch) == list(range(len(lengths)))
    if len(own) < len(batches):
        assert len(own) == len(lengths)
        assert len(batches) - len(own) < replicas


@pytest.mark.parametrize(
    ("count", "batches"), [(3, [[0], [1], [2], [2]]), (1, [[0], [0]]), (2, [[0], [1]])]
)
def test_evaluation_of_long_sequences_or_few_in_two_processes(count, batches):
    sampler = TokenBudgetBatchSampler([40_000] * count, 65_536, shuffle=False, num_replicas=2)
    assert sampler.batches() == batches


@given(lengths=lengths_lists, budget=st.integers(1, 100), shuffle=st.booleans())
def test_no_batch_of_several_exceeds_the_budget(lengths, budget, shuffle):
    sampler = TokenBudgetBatchSampler(lengths, budget, shuffle=shuffle)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for batch in sampler:
            assert len(batch) == 1 or sum(lengths[i] for i in batch) <= budget


def real_lengths(count: int = 5000) -> np.ndarray:
    generator = np.random.default_rng(0)
    return np.clip(generator.lognormal(6.4, 0.8, count), 60, 12_000).astype(int)


def test_batches_are_nearly_full():
    lengths = real_lengths()
    for shuffle in (True, False):
        sampler = TokenBudgetBatchSampler(lengths, 16_384, shuffle=shuffle)
        assert lengths.sum() / (len(sampler) * 16_384) > 0.93


def test_epochs_differ_and_seeds_repeat_them():
    lengths = real_lengths(500)

    def batches(seed, epoch):
        sampler = TokenBudgetBatchSampler(lengths, 8_192, seed=seed)
        sampler.set_epoch(epoch)
        return [sorted(batch) for batch in sampler]

    assert batches(1, 0) == batches(1, 0)
    assert batches(1, 0) != batches(1, 1)
    assert batches(1, 0) != batches(2, 0)


def test_long_and_short_sequences_meet_at_random():
    lengths = real_lengths()
    sampler = TokenBudgetBatchSampler(lengths, 16_384)
    partners = []
    longest = int(lengths.argmax())
    for epoch in range(5):
        sampler.set_epoch(epoch)
        partners.append(next(set(batch) for batch in sampler if longest in batch))
    common = set.intersection(*partners)
    assert common == {longest}
    # a batch holds sequences from all over the distribution, not neighbours in length
    spreads = [lengths[batch].max() / lengths[batch].min() for batch in sampler if len(batch) > 3]
    assert np.median(spreads) > 3


def test_followers_hear_of_the_epoch():
    heard = []
    sampler = TokenBudgetBatchSampler([1, 2, 3], 3)
    sampler.on_set_epoch(heard.append)
    sampler.set_epoch(4)
    assert heard == [4]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], 0), "budget must be at least 1 token, got 0"),
        (([], 5), "one positive number per example"),
        (([1, 0], 5), "one positive number per example"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TokenBudgetBatchSampler(*arguments)


def test_more_processes_than_examples_are_refused():
    with pytest.raises(
        ValueError, match="3 processes need at least as many examples to train on, got 2"
    ):
        TokenBudgetBatchSampler([1, 2], 5, num_replicas=3)
    with pytest.raises(ValueError, match=r"rank must lie in 0\.\.1, got 2"):
        TokenBudgetBatchSampler([1, 2], 5, num_replicas=2, rank=2)
