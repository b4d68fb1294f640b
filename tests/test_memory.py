"""Large matrices are ordinary tensors, wherever their memory comes from."""

import gc

import pytest
import torch

from hf_mixers.models import memory
from hf_mixers.models.memory import copy_matrix, empty_matrix


@pytest.fixture
def everything_is_large(monkeypatch):
    monkeypatch.setattr(memory, "LARGE", 1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_matrices_have_the_shape_and_type_of_another(dtype, everything_is_large):
    like = torch.randn(6, 10).to(dtype)
    made = empty_matrix(like)
    assert (made.shape, made.dtype, made.is_contiguous()) == (like.shape, dtype, True)
    assert torch.equal(made.copy_(like), like)
    assert empty_matrix(like.t()).is_contiguous()
    assert torch.equal(copy_matrix(like), like)


def test_matrices_without_rows(everything_is_large):
    assert empty_matrix(torch.empty(0, 10)).shape == (0, 10)


def test_memory_lives_as_long_as_its_views(everything_is_large):
    view = copy_matrix(torch.arange(1000.0).view(10, 100))[3:5]
    gc.collect()
    empty_matrix(torch.empty(10, 100)).zero_()
    assert torch.equal(view, torch.arange(300.0, 500.0).view(2, 100))


def test_gradients_pass_through(everything_is_large):
    weight = torch.randn(4, 3, requires_grad=True)
    rows = copy_matrix(torch.randn(5, 4))
    (rows @ weight).sum().backward()
    torch.testing.assert_close(weight.grad, rows.sum(0)[:, None].expand(4, 3))


def test_systems_without_advice_use_ordinary_memory(everything_is_large, monkeypatch):
    monkeypatch.setattr(memory, "CAN_ADVISE", False)
    assert empty_matrix(torch.empty(3, 4)).shape == (3, 4)
