"""The blocks of a mixer one after another: depth by length, memory, and gradients.

Block k is for sequences longer than `config.skipped_length(k)`. In the ragged layout these are a
prefix of the matrix, so sequences that are done stay behind and cost nothing more.
"""

from collections.abc import Callable, Iterable, Sequence
from math import isqrt
from typing import Protocol

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from ._compat import has_hooks, run_checkpointed
from .branch import Branch
from .configuration_mixer import MixerConfig
from .packing import Pack
from .stack_fused import run_branches

# classes of weights for which operations mean what torch says
PLAIN_WEIGHTS = {nn.Parameter, Tensor}


class Recorder(Protocol):
    """Takes the hidden states between blocks, and gives what is to be handed on."""

    def record(self, hidden: Tensor) -> Tensor: ...


class MixerStack(nn.ModuleList):
    """The blocks, each called with `(hidden, pack)` and its rows of what is beside them.

    A block is called even when no sequence is left for it, on zero rows, so that all processes of a
    distributed run call the same blocks and every weight has a gradient. Without gradients a block
    that has a method `infer` may work in the memory that an earlier one is done with.
    """

    def __init__(self, config: MixerConfig, layers: Iterable[nn.Module]):
        super().__init__(layers)
        self.config = config
        self.gradient_checkpointing = False
        # blocks may do it themselves, part by part
        self.has_finer_checkpoints = any(
            isinstance(part, GradientCheckpointingLayer) for part in self.modules()
        )

    def run(
        self,
        hidden: Tensor,
        pack: Pack,
        states: Recorder | None = None,
        beside: Sequence[Tensor] = (),
        may_overwrite: bool = False,
    ) -> Tensor:
        """`hidden` through all blocks.

        Args:
            states: Records what goes into every block and what comes out of the last.
            beside: Matrices of which every block reads its rows too; they stay as they are.
            may_overwrite: Without gradients, blocks may work in the memory of `hidden`.
        """
        # recorded states stay in memory: there is nothing to save by computing them again
        checkpointing = self.gradient_checkpointing and self.training and states is None
        checkpointing = checkpointing and not self.has_finer_checkpoints
        size = self.config.checkpoint_segment_size or max(1, isqrt(len(self)))
        if torch.is_grad_enabled() and states is None:
            branches = self.fused_branches(hidden, pack)
            if branches is not None:
                segment = size if checkpointing else 1
                return run_branches(hidden, branches, self.fused_weights(), segment)
        if not checkpointing:
            return self._run_part(range(len(self)), hidden, pack, beside, states, may_overwrite)
        for first in range(0, len(self), size):
            numbers = range(first, min(first + size, len(self)))
            hidden = run_checkpointed(self, self._run_part, numbers, hidden, pack, beside)
        return hidden

    def fused_branches(self, hidden: Tensor, pack: Pack) -> list[Branch] | None:
        """All blocks as operations on what is left of the pack for them, if they all can be."""
        branches = []
        for number, layer in enumerate(self):
            if pack.is_static or not hasattr(layer, "fused_branch"):
                return None
            pack = pack.longer_than(self.config.skipped_length(number))
            branches.append(layer.fused_branch(hidden, pack))
            if branches[-1] is None:
                return None
        return branches

    def fused_weights(self) -> list[Tensor | None]:
        """Weights of the branches, one after the other."""
        return [weight for layer in self for weight in layer.fused_weights()]

    def _run_part(
        self,
        numbers: range,
        hidden: Tensor,
        pack: Pack,
        beside: Sequence[Tensor],
        states: Recorder | None = None,
        may_overwrite: bool = False,
    ) -> Tensor:
        if pack.is_static:
            return self._run_static(numbers, hidden, pack, beside, states)
        in_place, spare = states is None and not torch.is_grad_enabled(), None
        active = pack
        done: list[Tensor] = []
        for number in numbers:
            layer = self[number]
            if states is not None:
                whole = states.record(torch.cat([hidden, *reversed(done)]))
                hidden, done = whole[: hidden.shape[0]], [whole[hidden.shape[0] :]]
            active = active.longer_than(self.config.skipped_length(number))
            if active.num_rows < hidden.shape[0]:
                done.append(hidden[active.num_rows :])
                hidden = hidden[: active.num_rows]
            if in_place and may_overwrite and hasattr(layer, "infer"):
                hidden, spare = layer.infer(hidden, active, spare)
            else:
                rows = active.num_rows
                hidden = layer(hidden, active, *(matrix[:rows] for matrix in beside))
            # what a block returns is ours, unless a hook has seen it
            may_overwrite = all(is_plain(part) for part in layer.modules())
        hidden = torch.cat([hidden, *reversed(done)]) if done else hidden
        return hidden if states is None else states.record(hidden)

    def _run_static(
        self,
        numbers: range,
        hidden: Tensor,
        pack: Pack,
        beside: Sequence[Tensor],
        states: Recorder | None,
    ) -> Tensor:
        for number in numbers:
            hidden = hidden if states is None else states.record(hidden)
            active = pack.longer_than(self.config.skipped_length(number))
            mixed = self[number](hidden, active, *beside)
            hidden = choose(active, mixed, hidden)
        return hidden if states is None else states.record(hidden)


def choose(active: Pack, mixed: Tensor, hidden: Tensor) -> Tensor:
    """Of the rows of a static pack, those that a block is for as `mixed`, the rest as they were."""
    return mixed if active.valid is None else torch.where(active.valid[:, None], mixed, hidden)


def is_plain(module: nn.Module, kind: Callable | None = None) -> bool:
    """Whether calling `module` does no more than its class says.

    So it has no hooks, no other forward, and no weights of a class of their own, such as quantized
    ones, for which operations mean something else.
    """
    right_kind = kind is None or type(module) is kind
    kinds = {type(weight) for weight in module.parameters(recurse=False)}
    is_known = right_kind and kinds <= PLAIN_WEIGHTS
    return is_known and not has_hooks(module) and "forward" not in vars(module)
