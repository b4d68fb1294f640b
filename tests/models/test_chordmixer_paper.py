"""What the ChordMixer paper says of its network, in the form that is true."""

import pytest
import torch

from hf_mixers import (
    ChordMixerConfig,
    ChordMixerForSequenceClassification,
    ChordMixerModel,
)
from hf_mixers.models.ops_chord import chord_offsets, rotate
from hf_mixers.models.packing import Boundaries, pack_ragged
from tests.reference import chord as reference

ORDERS = ["rotate_mix", "mix_rotate"]


def one_sequence(length: int):
    return pack_ragged([Boundaries((1, length), torch.device("cpu"))])


def test_rotation_is_a_permutation_and_the_opposite_rotation_undoes_it():
    for length in (1, 2, 3, 7, 8, 9, 100):
        pack = one_sequence(length)
        values = torch.arange(length * 14.0).view(length, 14).requires_grad_()
        rotated = rotate(values, pack, chord_offsets(7))
        assert torch.equal(rotated.flatten().sort().values, values.flatten())
        # the gradient of a permutation is its inverse
        (undone,) = torch.autograd.grad(rotated, values, rotated)
        assert torch.equal(undone, values)


def reach(
    length: int, tracks: int, blocks: int, order: str, alternating: bool = False
) -> torch.Tensor:
    """Which input token each output number depends on: `(length, tracks, length)`, by propagation.

    Mixing joins all channels of a token; the residual keeps what was there.
    """
    state = torch.eye(length, dtype=torch.bool)[:, None].expand(length, tracks, length)
    offsets = chord_offsets(tracks, alternating)

    def rotated(x):
        return torch.stack([x[:, t].roll(-o, 0) for t, o in enumerate(offsets)], dim=1)

    def mixed(x):
        return x.any(1, keepdim=True).expand_as(x)

    for _ in range(blocks):
        branch = mixed(rotated(state)) if order == "rotate_mix" else rotated(mixed(state))
        state = state | branch
    return state


LENGTHS = [4, 5, 7, 8, 9, 16, 31, 32, 33, 64, 100, 128]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("alternating", [False, True])
def test_every_token_hears_every_token_after_ceil_log2_blocks(length, order, alternating):
    blocks = (length - 1).bit_length()
    assert reach(length, blocks + 1, blocks, order, alternating).any(1).all()


def blocks_to_hear(length: int, distance: int, alternating: bool) -> int:
    """After how many blocks a token hears the one `distance` after it."""
    tracks = (length - 1).bit_length() + 1
    heard = (reach(length, tracks, blocks, "rotate_mix", alternating) for blocks in range(tracks))
    return next(blocks for blocks, state in enumerate(heard) if state[0, 0, distance % length])


def test_alternating_rotation_hears_near_tokens_on_both_sides_early():
    near = [distance for distance in range(-8, 9) if distance]
    assert max(blocks_to_hear(250, distance, alternating=True) for distance in near) == 4
    # forward, the way to the token before leads around the sequence: as many steps as ones in N - 1
    assert blocks_to_hear(250, -1, alternating=False) == (249).bit_count() == 6


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("length", [8, 16, 32, 64])
def test_one_block_less_is_not_enough_at_a_power_of_two(length, order):
    blocks = (length - 1).bit_length()
    assert not reach(length, blocks + 1, blocks - 1, order).any(1).all()


@pytest.mark.parametrize("length", LENGTHS)
def test_legacy_tracks_miss_one_token_exactly_at_powers_of_two(length):
    blocks = (length - 1).bit_length()
    missed = (~reach(length, blocks, blocks, "mix_rotate").any(1)).sum(1)
    assert set(missed.tolist()) == {1 if length == 2**blocks else 0}
    assert reach(length, blocks, blocks + 1, "mix_rotate").any(1).all()


@pytest.mark.parametrize("length", LENGTHS)
def test_every_output_number_hears_every_token_with_the_papers_order(length):
    blocks = (length - 1).bit_length()
    assert reach(length, blocks + 1, blocks, "rotate_mix").all()


@pytest.mark.parametrize("length", LENGTHS)
def test_with_the_codes_order_the_unrotated_track_misses_one_token_at_powers_of_two(length):
    blocks = (length - 1).bit_length()
    heard = reach(length, blocks + 1, blocks, "mix_rotate")
    missed = (~heard).sum(2)
    assert set(missed[:, 0].tolist()) == {1 if length == 2**blocks else 0}
    if length < 2**blocks:
        assert heard.all()
    assert reach(length, blocks + 1, blocks + 1, "mix_rotate").all()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("length", [5, 8, 9, 16])
def test_the_networks_own_derivatives_are_nonzero_where_they_should_be(length, order):
    blocks = (length - 1).bit_length()
    config = ChordMixerConfig(
        max_position_embeddings=length,
        track_size=1,
        intermediate_size=8,
        block_order=order,
        final_norm="none",
    )
    model = ChordMixerModel(config).double().eval()
    values = torch.randn(1, length, config.hidden_size, dtype=torch.float64)

    def network(embeddings):
        return model(inputs_embeds=embeddings).last_hidden_state

    jacobian = torch.autograd.functional.jacobian(network, values)[0, :, :, 0]
    by_token = (jacobian != 0).any(-1)
    assert torch.equal(by_token, reach(length, blocks + 1, blocks, order))
    # number to number: full after ceil(log2 N) blocks, one more at powers of two
    assert bool((jacobian != 0).all()) == (length < 2**blocks)


def test_reaching_probabilities_are_nearly_uniform():
    # appendix G: a random walk of 14 hops over 5,000 nodes; the circulant is diagonal under Fourier
    step = torch.zeros(5000, dtype=torch.float64)
    step[[0, *(2**power for power in range(13))]] = 1 / 14
    walk = torch.fft.ifft(torch.fft.fft(step) ** 14).real
    assert walk.mean() == pytest.approx(2e-4, rel=1e-9)
    assert walk.std(correction=0) == pytest.approx(3.04e-5, rel=2e-3)
    assert walk.min() == pytest.approx(1.04e-4, rel=5e-3)
    assert walk.max() == pytest.approx(2.62e-4, rel=5e-3)


@pytest.mark.parametrize(
    ("length", "depth"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (16, 4)]
)
def test_a_sequence_passes_as_many_blocks_as_it_needs(length, depth):
    model = ChordMixerModel(ChordMixerConfig(max_position_embeddings=64, track_size=2))
    model(torch.randint(5, 9, (1, length))).last_hidden_state.sum().backward()
    touched = [bool(layer.mix.fc1.weight.grad.any()) for layer in model.layers]
    assert touched == [k < depth for k in range(len(model.layers))]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("length", [6, 16, 33])
def test_the_network_is_equivariant_to_circular_shifts_and_mean_logits_invariant(length, order):
    config = ChordMixerConfig(max_position_embeddings=64, track_size=3, block_order=order)
    model = ChordMixerForSequenceClassification(config).eval()
    ids = torch.randint(5, 9, (1, length))
    shifted = ids.roll(2, 1)
    torch.testing.assert_close(
        model.model(shifted).last_hidden_state,
        model.model(ids).last_hidden_state.roll(2, 1),
    )
    torch.testing.assert_close(model(shifted).logits, model(ids).logits)


def test_a_linear_block_is_a_sum_of_dilated_convolutions_of_one_tap():
    length, tracks, size = 11, 5, 2
    weight = torch.randn(tracks * size, tracks * size)
    sequence = torch.randn(length, tracks * size)
    block = rotate(sequence, one_sequence(length), chord_offsets(tracks)) @ weight.T
    total = torch.zeros_like(block)
    for track, offset in enumerate(chord_offsets(tracks)):
        channels = slice(track * size, (track + 1) * size)
        # one tap at the end of a kernel of offset + 1 places, circular padding
        kernel = torch.zeros(tracks * size, size, offset + 1)
        kernel[:, :, -1] = weight[:, channels]
        extended = torch.cat([sequence[:, channels].T] + [sequence[:, channels].T] * 2, dim=1)
        total += torch.nn.functional.conv1d(extended[None], kernel)[0, :, :length].T
    torch.testing.assert_close(block, total)


def test_the_mix_layer_has_full_rank_only_when_the_hidden_width_reaches_the_model_width():
    rotation = torch.autograd.functional.jacobian(
        lambda x: rotate(x, one_sequence(5), chord_offsets(4)), torch.randn(5, 8)
    ).view(40, 40)
    assert torch.linalg.matrix_rank(rotation) == 40
    for hidden, rank in ((8, 8), (12, 8), (5, 5)):
        first, second = torch.randn(hidden, 8), torch.randn(8, hidden)
        assert torch.linalg.matrix_rank(second @ first) == rank


PARAMETERS = {
    "longdoc": 3_080_616,
    "carassius_labeo": 1_266_786,
    "danio_cyprinus": 798_818,
    "sus_bos": 592_066,
    "mus_rattus": 798_818,
    "adding_200": 750_945,
    "adding_1000": 989_825,
    "adding_16000": 1_409_825,
    "adding_128000": 656_745,
    "listops": 194_994,
    "image": 2_610_506,
    "text": 701_282,
    "pathfinder": 1_707_058,
    "pathfinderx": 550_494,
}


@pytest.mark.parametrize("task", PARAMETERS)
def test_parameter_counts_equal_those_of_the_released_models(task):
    with torch.device("meta"):
        model = ChordMixerForSequenceClassification(ChordMixerConfig.preset(task))
    assert model.num_parameters() == PARAMETERS[task]


def test_parameter_count_of_the_retrieval_trunk():
    assert ChordMixerModel(ChordMixerConfig.preset("retrieval")).num_parameters() == 841_856
    assert set(ChordMixerConfig.presets) == {*PARAMETERS, "retrieval"}


def test_repeating_sequences_to_pad_them_circularly_is_not_the_rotation():
    # a helper of the released code rolls three repeats of each sequence, cut to three times the
    # shortest length: it is right while position + offset stays below the cut, and wrong beyond
    short, long = torch.randn(4, 8), torch.randn(9, 8)
    cut = 3 * len(short)
    rolled = reference.rotate_by_roll(long.repeat(3, 1)[:cut], 1)[: len(long)]
    exact = reference.rotate_by_roll(long, 1)
    position = torch.arange(len(long))[:, None]
    right = position + torch.tensor(chord_offsets(8)) < cut
    assert torch.equal(rolled[right], exact[right])
    assert not torch.equal(rolled, exact)
