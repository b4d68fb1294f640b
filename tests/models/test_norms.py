"""Norms of a pack equal torch's on one sequence, and padding has no part in them."""

import pytest
import torch
from torch import nn

from hf_mixers.models.norms import SequenceGroupNorm, TokenBatchNorm, make_norm
from hf_mixers.models.packing import Boundaries, pack_ragged, pack_static

MASK = torch.tensor([[1, 1, 1, 0], [0, 0, 1, 1], [0, 1, 0, 0]]).bool()
BATCH = [Boundaries((3, 4), torch.device("cpu"), mask=MASK)]


def randomise(norm):
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return norm


def test_group_norm_equals_torchs_for_each_sequence():
    norm = randomise(SequenceGroupNorm(3, 6))
    plain = nn.GroupNorm(3, 6)
    plain.load_state_dict(norm.state_dict())
    values = torch.randn(3, 4, 6)
    for layout in (pack_ragged, pack_static):
        pack = layout(BATCH)
        out = pack.unpack(norm(pack.gather(values.flatten(0, 1)), pack)).view_as(values)
        for row, mask in enumerate(MASK):
            expected = plain(values[row, mask].T[None])[0].T
            torch.testing.assert_close(out[row, mask], expected)


def test_batch_norm_trains_on_real_tokens_only_in_both_layouts():
    values = torch.randn(3, 4, 6)
    plain = nn.BatchNorm1d(6)
    expected = plain(values[MASK])
    for layout in (pack_ragged, pack_static):
        norm = TokenBatchNorm(6)
        pack = layout(BATCH)
        rows = pack.gather(values.flatten(0, 1)).requires_grad_()
        out = norm(rows, pack)
        torch.testing.assert_close(pack.unpack(out).view_as(values)[MASK], expected)
        for name, buffer in plain.named_buffers():
            torch.testing.assert_close(dict(norm.named_buffers())[name], buffer)
        pack.blank(out).square().sum().backward()
        assert rows.grad.isfinite().all()


@pytest.mark.parametrize("layout", [pack_ragged, pack_static])
def test_batch_norm_of_a_single_token_uses_the_running_means(layout):
    mask = torch.tensor([[True, False]])
    pack = layout([Boundaries((1, 2), torch.device("cpu"), mask=mask)])
    norm = TokenBatchNorm(3)
    norm.running_mean.fill_(1.0)
    rows = pack.gather(torch.full((2, 3), 2.0))
    torch.testing.assert_close(norm(rows, pack)[0], torch.ones(3), atol=1e-4, rtol=1e-4)
    assert torch.equal(norm.running_mean, torch.ones(3))
    assert norm.num_batches_tracked == 0


@pytest.mark.parametrize("kind", ["layer", "batch", "group"])
def test_no_rows_at_all_give_zero_gradients(kind):
    norm = make_norm(kind, 6, 3, 1e-5)
    pack = pack_ragged(BATCH).first_sequences(0)
    out = norm(torch.zeros(0, 6), pack)
    assert out.shape == (0, 6)
    out.sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in norm.parameters())
