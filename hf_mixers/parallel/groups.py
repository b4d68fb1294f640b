"""Which processes share batches, and which have batches of their own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from ..models.sharing import shared_over


def make_mesh(context_size: int, device_type: str | None = None) -> DeviceMesh:
    """A mesh `("data", "context")` of all processes: neighbours along `context` share batches.

    Args:
        context_size: Processes that share a batch; their number must divide that of all processes.
        device_type: `"cuda"`, `"cpu"`, ...; default: that of the accelerator, if there is one.
    """
    world = dist.get_world_size()
    check_size(context_size, world)
    if device_type is None:
        has_one = torch.accelerator.is_available()
        device_type = torch.accelerator.current_accelerator().type if has_one else "cpu"
    shape = (world // context_size, context_size)
    return init_device_mesh(device_type, shape, mesh_dim_names=("data", "context"))


@contextmanager
def context_parallel(mesh: DeviceMesh) -> Iterator[None]:
    """Models that are called inside share each batch over the axis `context` of a mesh.

    All processes of the axis call the model with the same batch. They get the same loss, and each
    the gradients of its part: their mean over the processes, as DDP, FSDP and `average_gradients`
    form it, is the gradient.
    """
    with shared_over(mesh["context"].get_group()):
        yield


def make_context_group(size: int) -> Any:
    """The processes that share batches with this one, `size` neighbours; None for 1.

    All processes must call it.
    """
    if size == 1:
        return None
    world, rank = dist.get_world_size(), dist.get_rank()
    check_size(size, world)
    made = [dist.new_group(list(range(first, first + size))) for first in range(0, world, size)]
    return made[rank // size]


def check_size(size: int, world: int) -> None:
    """Refuse sizes that leave processes over."""
    if size < 1 or world % size:
        raise ValueError(
            f"The number of processes that share a batch must divide that of all, {world},"
            f" got {size}."
        )


def average_gradients(model: nn.Module, group: Any = None) -> None:
    """The mean of the gradients of all processes of a group, for models that no DDP wraps."""
    size = dist.get_world_size(group)
    for weight in model.parameters():
        if weight.grad is not None:
            dist.all_reduce(weight.grad, group=group)
            weight.grad /= size
