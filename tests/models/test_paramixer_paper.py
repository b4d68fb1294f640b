"""What the Paramixer paper and its supplement say of the network, in the form that is true."""

from math import gcd

import numpy as np
import pytest
import torch

from hf_mixers import ParamixerConfig, ParamixerForSequenceClassification, ParamixerModel
from hf_mixers.models.ops_links import link_offsets, mix_links
from hf_mixers.models.packing import Boundaries, pack_ragged


def depth(length: int) -> int:
    """ceil(log2 length), the default number of factors."""
    return (length - 1).bit_length()


def chord(length: int) -> tuple[int, ...]:
    return link_offsets("chord", depth(length) + 1, 0)


def circulant_rank(offsets, length: int, residual: int = 0) -> int:
    """Rank of the factor whose links all weigh 1, plus `residual` times the identity.

    It is circulant, so its rank is the number of non-zero values of the Fourier transform of a row.
    """
    row = np.zeros(length)
    np.add.at(row, np.array(offsets) % length, 1)
    row[0] += residual
    return int((np.abs(np.fft.fft(row)) > 1e-9).sum())


def two_generates(prime: int) -> bool:
    """Whether the powers of 2 run through all non-zero remainders of a prime."""
    is_prime = prime > 1 and all(prime % d for d in range(2, prime))
    return is_prime and {2**k % prime for k in range(prime - 1)} == set(range(1, prime))


@pytest.mark.parametrize("protocol", ["chord", "cdil"])
@pytest.mark.parametrize("length", [2, 3, 7, 9, 10, 12, 16])
def test_the_rank_by_fourier_is_that_of_the_matrix(length, protocol):
    pack = pack_ragged([Boundaries((1, length), torch.device("cpu"))])
    for factor in range(depth(length)):
        offsets = chord(length) if protocol == "chord" else link_offsets("cdil", 9, factor)
        ones = torch.ones(length, len(offsets), dtype=torch.float64)
        matrix = mix_links(torch.eye(length, dtype=torch.float64), ones, pack, offsets)
        assert torch.linalg.matrix_rank(matrix) == circulant_rank(offsets, length)


def test_chord_factors_are_full_rank_at_powers_of_two():
    for n in range(2, 16):
        assert circulant_rank(chord(2**n), 2**n) == 2**n
        assert circulant_rank(chord(2**n), 2**n, residual=1) == 2**n


def test_chord_factors_are_full_rank_elsewhere_but_for_these_exceptions():
    # where the n links besides the own one meet every other remainder of a prime once
    exceptions = set()
    for length in range(2, 2500):
        prime = depth(length) + 1
        if two_generates(prime) and length % prime == 0:
            exceptions.add(length)
            assert circulant_rank(chord(length), length) == length - depth(length)
        else:
            assert circulant_rank(chord(length), length) == length
    assert sorted(exceptions)[:6] == [2, 3, 10, 15, 517, 528]
    for length in (4096, 4097, 16385):
        assert circulant_rank(chord(length), length) == length


def test_chord_factors_with_residual_have_exceptions_of_their_own():
    # where they meet every other remainder twice
    exceptions = set()
    for length in range(2, 2500):
        rank = circulant_rank(chord(length), length, residual=1)
        prime = depth(length) // 2 + 1
        if depth(length) % 2 == 0 and two_generates(prime) and length % prime == 0 and prime > 2:
            exceptions.add(length)
            assert rank == length - prime + 1
        else:
            assert rank == length
    assert sorted(exceptions)[:5] == [9, 12, 15, 130, 135]


@pytest.mark.parametrize("num_links", [3, 5, 9])
def test_cdil_factors_are_full_rank_exactly_if_length_and_links_have_no_common_divisor(num_links):
    for length in range(1, 130):
        for factor in range(max(1, depth(length))):
            offsets = link_offsets("cdil", num_links, factor)
            is_full = circulant_rank(offsets, length) == length
            assert is_full == (gcd(num_links, length) == 1)


def test_cdil_factors_with_residual_lose_rank_at_powers_of_two():
    ranks = [circulant_rank(link_offsets("cdil", 3, m), 64, residual=1) for m in range(6)]
    assert ranks == [63, 62, 60, 56, 48, 32]
    ranks = [circulant_rank(link_offsets("cdil", 9, m), 64, residual=1) for m in range(6)]
    assert ranks == [60, 56, 48, 32, 64, 64]


@pytest.mark.parametrize(
    ("length", "rank"), [(4, 3), (16, 13), (64, 63), (256, 249), (1024, 1023), (4096, 4093)]
)
def test_the_polynomial_of_the_printed_proof_is_not_chords_and_not_full_rank(length, rank):
    printed = range(depth(length))  # exponents 0, 1, 2, ... instead of 0, 1, 2, 4, ...
    assert circulant_rank(printed, length) == rank
    assert rank == length - gcd(depth(length), length) + 1


def heard(length: int, factors) -> int:
    """How many positions a position hears through factors with these offsets."""
    reached = np.zeros(length, dtype=bool)
    reached[0] = True
    for offsets in factors:
        reached = np.logical_or.reduce([np.roll(reached, offset) for offset in offsets])
    return int(reached.sum())


LENGTHS = [2, 3, 5, 8, 9, 100, 1023, 1024, 1025, 1999, 2000, 4096, 4097, 16385]


@pytest.mark.parametrize("length", LENGTHS)
def test_one_block_hears_everything_with_either_protocol(length):
    count = depth(length)
    assert heard(length, [chord(length)] * count) == length
    for num_links in (3, 9):
        for factors in (count, max(1, length.bit_length() - 1)):  # ceil and floor of log2
            offsets = [link_offsets("cdil", num_links, m) for m in range(factors)]
            assert heard(length, offsets) == length


@pytest.mark.parametrize("length", [8, 16, 64, 1024])
def test_one_factor_less_is_not_enough_at_a_power_of_two(length):
    assert heard(length, [chord(length)] * (depth(length) - 1)) < length
    offsets = [link_offsets("cdil", 3, m) for m in range(depth(length) - 1)]
    assert heard(length, offsets) < length


@pytest.mark.parametrize(
    ("length", "missed"),
    [(100, 1), (1023, 9), (1025, 0), (1999, 4), (2000, 4), (4096, 0), (4097, 0), (16385, 0)],
)
def test_rounding_the_number_of_factors_down_may_miss_positions(length, missed):
    factors = length.bit_length() - 1
    offsets = link_offsets("chord", factors + 1, 0)
    assert length - heard(length, [offsets] * factors) == missed


@pytest.mark.parametrize("protocol", ["chord", "cdil"])
@pytest.mark.parametrize("length", [5, 8, 9, 16])
def test_the_networks_own_derivatives_are_nonzero_everywhere(length, protocol):
    config = ParamixerConfig(max_position_embeddings=length, hidden_size=4, link_protocol=protocol)
    model = ParamixerModel(config).double().eval()
    values = torch.randn(1, length, 4, dtype=torch.float64)

    def network(embeddings):
        return model(inputs_embeds=embeddings).last_hidden_state

    jacobian = torch.autograd.functional.jacobian(network, values)[0, :, :, 0]
    assert (jacobian != 0).all()


@pytest.mark.parametrize("protocol", ["chord", "cdil"])
@pytest.mark.parametrize("length", [6, 16, 33])
def test_the_network_is_equivariant_to_circular_shifts_and_mean_logits_invariant(length, protocol):
    config = ParamixerConfig(max_position_embeddings=64, link_protocol=protocol)
    model = ParamixerForSequenceClassification(config).eval()
    ids = torch.randint(5, 9, (1, length))
    shifted = ids.roll(2, 1)
    torch.testing.assert_close(
        model.model(shifted).last_hidden_state,
        model.model(ids).last_hidden_state.roll(2, 1),
    )
    torch.testing.assert_close(model(shifted).logits, model(ids).logits)
