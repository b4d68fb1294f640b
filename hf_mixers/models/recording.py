"""What callers see of the blocks besides their result: hidden states and attention."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .packing import Pack


class HiddenStates:
    """Records hidden states in the caller's layout and on the way of the gradient.

    What is handed on is read back from what was recorded, so `hidden_states[i].grad` can be asked
    for.

    Args:
        blocks: Whose outputs are recorded; `None`: those of all, after what goes into the first.
    """

    def __init__(
        self,
        pack: Pack,
        token_rows: Tensor | None,
        shapes: list[tuple[int, int]],
        blocks: set[int] | None = None,
    ):
        self.pack, self.token_rows, self.shapes, self.blocks = pack, token_rows, shapes, blocks
        self.recorded: list[list[Tensor | None]] = []

    def by_batch(self) -> list[tuple[Tensor | None, ...]]:
        """What was recorded of every batch."""
        # of chosen blocks, entry k is the output of block k, as everywhere in transformers
        recorded = self.recorded if self.blocks is None else self.recorded[1:]
        return list(zip(*recorded, strict=True))

    def record(self, hidden: Tensor) -> Tensor:
        if self.blocks is not None and len(self.recorded) - 1 not in self.blocks:
            self.recorded.append([None] * len(self.shapes))
            return hidden
        tokens = hidden if self.token_rows is None else hidden.index_select(0, self.token_rows)
        states = unpack_batches(tokens, self.pack, self.shapes)
        self.recorded.append(states)
        tokens = self.pack.gather(torch.cat([state.flatten(0, 1) for state in states]))
        if self.token_rows is None:
            return tokens
        return hidden.index_copy(0, self.token_rows, tokens)

    def record_again(self, hidden: Tensor) -> Tensor:
        """The last state once more, as it is after the final norm."""
        self.recorded.pop()
        return self.record(hidden)


def check_blocks(wanted: bool | Sequence[int], count: int) -> set[int] | None:
    """Numbers of the blocks whose hidden states are wanted; `None` for all."""
    if isinstance(wanted, (bool, int)):
        return None
    for number in wanted:
        if not isinstance(number, int) or not 0 <= number < count:
            raise ValueError(
                f"output_hidden_states must be True, False or numbers of blocks in 0..{count - 1},"
                f" got {number!r}."
            )
    return set(wanted)


def split_attentions(
    blocks: list[list[Tensor]], pack: Pack, counts: list[int]
) -> list[tuple[tuple[Tensor, ...], ...]]:
    """Tensors `(B, ...)` of every block, in pack order -> those of each batch, in its order."""
    parts = [[pack.restore(tensor).split(counts) for tensor in block] for block in blocks]
    return [
        tuple(tuple(part[number] for part in block) for block in parts)
        for number in range(len(counts))
    ]


def unpack_batches(rows: Tensor, pack: Pack, shapes: list[tuple[int, int]]) -> list[Tensor]:
    """Pack rows `(T, ...)` -> one `(B, L, ...)` tensor per batch, `shapes` being their (B, L)."""
    parts = pack.unpack(rows).split([shape[0] * shape[1] for shape in shapes])
    return [part.unflatten(0, shape) for part, shape in zip(parts, shapes, strict=True)]
