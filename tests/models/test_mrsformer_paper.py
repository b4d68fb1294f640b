"""What the supplement says about approximating attention, as far as it is true."""

import pytest
import torch

from tests.reference.multiresolution import project_onto_groups

SCALES = [(1, 1), (1, 2), (2, 1), (2, 2), (4, 4), (2, 8), (8, 8)]


def error(scores, scale, key_scale):
    """Frobenius distance of a matrix and its means over blocks."""
    length = len(scores)
    means = project_onto_groups(length, scale) @ scores @ project_onto_groups(length, key_scale)
    return (scores - means).norm()


def largest_step(scores):
    return max(scores.diff(dim=0).abs().max(), scores.diff(dim=1).abs().max())


def bound(scores, scale, key_scale):
    """Theorem 1 with the factor sqrt(s s') that its proof loses."""
    return (scale + key_scale - 2) * len(scores) * largest_step(scores) / 2


def ramp(length, step=1e-4):
    """Rows that rise evenly and sum to 1."""
    columns = torch.arange(length, dtype=torch.float64)
    return (1 / length + step * (columns - (length - 1) / 2)).expand(length, length)


def matrices():
    torch.manual_seed(0)
    yield ramp(16)
    yield 1e-4 * (torch.arange(16.0)[:, None] + torch.arange(16.0)).double()
    for sharpness in (0.1, 1.0, 10.0):
        for _ in range(20):
            yield torch.softmax(sharpness * torch.randn(32, 32, dtype=torch.float64), 1)


@pytest.mark.parametrize(("scale", "key_scale"), SCALES)
def test_the_corrected_bound_holds(scale, key_scale):
    for scores in matrices():
        limit = bound(scores, scale, key_scale)
        assert error(scores, scale, key_scale) <= limit + 1e-12
        values = torch.randn(len(scores), 5, dtype=torch.float64)
        length = len(scores)
        approximate = (
            project_onto_groups(length, scale)
            @ scores
            @ project_onto_groups(length, key_scale)
            @ values
        )
        distance = (scores @ values - approximate).norm()
        assert distance <= limit * torch.linalg.matrix_norm(values, 2) + 1e-12


def test_the_printed_bound_does_not_hold():
    for scores, scale, key_scale in (
        (ramp(16), 1, 2),
        (1e-4 * (torch.arange(16.0)[:, None] + torch.arange(16.0)).double(), 2, 2),
    ):
        printed = bound(scores, scale, key_scale) / (scale * key_scale) ** 0.5
        assert error(scores, scale, key_scale) > 1.4 * printed
    torch.testing.assert_close(ramp(16).sum(1), torch.ones(16, dtype=torch.float64))


def test_the_corrected_bound_is_attained():
    torch.testing.assert_close(error(ramp(16), 1, 2), bound(ramp(16), 1, 2))


def test_means_over_blocks_are_the_best_that_is_constant_on_blocks():
    torch.manual_seed(0)
    scores = torch.softmax(torch.randn(16, 16, dtype=torch.float64), 1)
    best = error(scores, 4, 2)
    for _ in range(50):
        other = torch.randn(4, 8, dtype=torch.float64) / 16
        other = other.repeat_interleave(4, 0).repeat_interleave(2, 1)
        assert (scores - other).norm() >= best
    blocks = torch.rand(4, 8, dtype=torch.float64)
    blocks = blocks.repeat_interleave(4, 0).repeat_interleave(2, 1)
    assert error(blocks, 4, 2) < 1e-12
    assert error(scores, 1, 1) < 1e-12
