"""What a stack asks of a block that can run as one operation: its residual branch."""

from typing import Protocol

import torch
from torch import Tensor

from .packing import Pack

# rows up to which memory is cheaper than computing one of the two again in the backward pass
KEPT_ROWS = 32_768


def keeps_both(rows: int) -> bool:
    """Whether a branch of so many rows keeps both its input and its hidden layer."""
    return rows <= KEPT_ROWS


class Scratch:
    """Matrices to work in, which one block leaves to the next."""

    def __init__(self, like: Tensor):
        self.like = like
        self._matrices: dict[str, Tensor] = {}

    def take(self, name: str, rows: int) -> Tensor:
        """The first rows of the matrix of that name, with anything in it."""
        if name not in self._matrices:
            self._matrices[name] = torch.empty_like(self.like)
        return self._matrices[name][:rows]


class Grads(Protocol):
    """Gradients of the weights of a branch."""

    def like(self, weights: tuple[Tensor | None, ...]) -> list[Tensor | None]:
        """In the types of the weights, with `None` for those that are missing."""


class Branch(Protocol):
    """`F` of a block `x + F(x)`, for the sequences of one pack."""

    pack: Pack
    needs_scratch: bool
    hidden_width: int

    def room_for_hidden(self) -> Tensor:
        """What `add` may keep a hidden layer in."""

    def add(
        self,
        source: Tensor,
        residual: Tensor,
        out: Tensor,
        sign: int = 1,
        scratch: Tensor | None = None,
        kept: Tensor | None = None,
    ) -> Tensor:
        """`out = residual + sign * F(source)`; `out` may be `residual`, or `source` if `scratch`.

        Args:
            scratch: `(T, D)` to work in; made if one is needed (`needs_scratch`) and not given.
            kept: What `room_for_hidden` gave, for `backward`.
        """

    def undo(self, kept: Tensor, out: Tensor, scratch: Tensor) -> None:
        """`out -= F(source)`, from the hidden layer that `add` has kept."""

    def backward(
        self,
        source: Tensor,
        grad: Tensor,
        base: Tensor | None,
        out: Tensor,
        scratch: Scratch,
        kept: Tensor | None = None,
    ) -> Grads:
        """`out = base + dF(source)^T grad`, and the gradients of the weights.

        `out` may be `base`, or `grad`, or both.
        """
