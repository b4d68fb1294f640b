"""The pack: both layouts, their way there and back, and pooling."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_mixers.models.packing import (
    Boundaries,
    pack_ragged,
    pack_static,
    segment_first,
    segment_max,
    segment_mean,
)

CPU = torch.device("cpu")
LAYOUTS = [pack_ragged, pack_static]
masks = st.integers(1, 7).flatmap(
    lambda width: st.lists(
        st.lists(st.booleans(), min_size=width, max_size=width).filter(any), min_size=1, max_size=6
    )
)


def padded(rows: list[list[bool]]) -> Boundaries:
    mask = torch.tensor(rows)
    return Boundaries(tuple(mask.shape), CPU, mask=mask)


def flat(*lengths: int) -> Boundaries:
    cu = torch.tensor([0, *lengths]).cumsum(0)
    return Boundaries((1, sum(lengths)), CPU, cu_seq_lens=cu)


@pytest.mark.parametrize("layout", LAYOUTS)
@given(rows=masks)
def test_unpacking_inverts_packing_and_blanks_what_is_masked(layout, rows):
    mask = torch.tensor(rows)
    values = torch.randn(mask.numel(), 2)
    pack = layout([padded(rows)])
    back = pack.unpack(pack.gather(values))
    assert torch.equal(back, values * mask.flatten()[:, None])


@pytest.mark.parametrize("layout", LAYOUTS)
@given(rows=masks)
def test_each_sequence_lies_together_in_its_own_order_with_holes_closed(layout, rows):
    pack = layout([padded(rows)])
    source = torch.arange(pack.num_source_rows) if pack.source is None else pack.source
    order = torch.arange(len(rows)) if pack.order is None else pack.order
    for number, caller in enumerate(order.tolist()):
        kept = [caller * len(rows[0]) + j for j, keep in enumerate(rows[caller]) if keep]
        start, length = pack.starts[number], pack.lengths[number]
        assert source[start : start + length].tolist() == kept
        assert pack.position[start : start + length].tolist() == list(range(len(kept)))
        assert set(pack.sequence[start : start + length].tolist()) == {number}


@given(rows=masks)
def test_ragged_packs_hold_real_tokens_only_longest_first(rows):
    pack = pack_ragged([padded(rows)])
    assert pack.num_rows == sum(map(sum, rows))
    assert list(pack.sizes) == sorted(map(sum, rows), reverse=True) == pack.lengths.tolist()
    assert pack.valid is None


@given(rows=masks)
def test_static_packs_keep_every_row_and_the_callers_order(rows):
    pack = pack_static([padded(rows)])
    assert pack.num_rows == len(rows) * len(rows[0])
    assert pack.order is None
    assert pack.lengths.tolist() == list(map(sum, rows))
    assert int(pack.valid.sum()) == sum(map(sum, rows))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rectangles_and_ordered_flat_batches_are_not_copied(layout):
    values = torch.randn(6, 2)
    for batch in (Boundaries((2, 3), CPU), flat(4, 2)):
        pack = layout([batch])
        assert pack.gather(values) is values
        assert pack.unpack(values) is values


@pytest.mark.parametrize("layout", LAYOUTS)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_flat_and_padded_batches_give_the_same_sequences(layout, lengths):
    width = max(lengths)
    one, other = flat(*lengths), padded([[j < n for j in range(width)] for n in lengths])
    values = torch.randn(sum(lengths), 3)
    spread = torch.zeros(len(lengths), width, 3)
    spread[other.mask] = values
    packs = layout([one]), layout([other])
    means = [
        pack.restore(segment_mean(pack.gather(rows), pack))
        for pack, rows in zip(packs, (values, spread.flatten(0, 1)), strict=True)
    ]
    torch.testing.assert_close(*means)


@pytest.mark.parametrize("layout", LAYOUTS)
@given(rows=masks)
def test_pooling_sees_real_tokens_only(layout, rows):
    mask = torch.tensor(rows)
    values = torch.randn(*mask.shape, 2)
    pack = layout([padded(rows)])
    packed = pack.gather(values.flatten(0, 1))
    expected = {
        segment_mean: [v[m].mean(0) for v, m in zip(values, mask, strict=True)],
        segment_max: [v[m].amax(0) for v, m in zip(values, mask, strict=True)],
        segment_first: [v[m][0] for v, m in zip(values, mask, strict=True)],
    }
    for pool, wanted in expected.items():
        torch.testing.assert_close(pack.restore(pool(packed, pack)), torch.stack(wanted))


@pytest.mark.parametrize("layout", LAYOUTS)
@given(rows=masks, limit=st.integers(0, 8))
def test_longer_than_keeps_exactly_the_longer_sequences(layout, rows, limit):
    pack = layout([padded(rows)])
    part = pack.longer_than(limit)
    expected = sum(n for n in map(sum, rows) if n > limit)
    assert (part.num_rows if part.valid is None else int(part.valid.sum())) == expected


@pytest.mark.parametrize("layout", LAYOUTS)
@given(rows=masks)
def test_a_prefix_row_stands_in_front_of_every_sequence(layout, rows):
    pack = layout([padded(rows)])
    values = torch.randn(pack.num_rows)
    longer, token_rows, prefix_rows = pack.with_prefix()
    assert longer.lengths.tolist() == [n + 1 for n in pack.lengths.tolist()]
    rows_of = torch.full((longer.num_rows,), 7.0).index_copy(0, token_rows, values)
    for number in range(pack.num_sequences):
        start, length = pack.starts[number], pack.lengths[number]
        begin = longer.starts[number]
        assert begin == prefix_rows[number]
        assert rows_of[begin] == 7
        assert torch.equal(rows_of[begin + 1 : begin + 1 + length], values[start : start + length])
        assert longer.position[begin : begin + 1 + length].tolist() == list(range(length + 1))
    if longer.valid is not None:
        assert int(longer.valid.sum()) == int(pack.valid.sum()) + pack.num_sequences


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_are_laid_end_to_end_in_one_pack(layout):
    first, second = padded([[True, False], [True, True]]), flat(3, 1)
    pack = layout([first, second])
    values = torch.arange(8.0)
    assert pack.unpack(pack.gather(values)).tolist() == [0, 0, 2, 3, 4, 5, 6, 7]
    means = pack.restore(segment_mean(pack.gather(values[:, None]), pack))
    assert means.flatten().tolist() == [0, 2.5, 5, 7]


def test_means_of_low_precision_are_summed_in_float32():
    pack = pack_ragged([flat(4096)])
    rows = torch.full((4096, 1), 1.0, dtype=torch.bfloat16)
    assert segment_mean(rows, pack).item() == 1
