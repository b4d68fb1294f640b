"""Large matrices on the CPU, without most of the cost of memory that is touched for the first time.

The C library takes large allocations fresh from the system, page by page of 4 KiB, which can cost
as much as the work that fills them. Linux gives pages of 2 MiB to those who ask.
"""

import mmap
from contextlib import suppress
from math import prod

import torch
from torch import Tensor

# smaller ones the C library takes from memory that it has kept
LARGE = 32 * 2**20
CAN_ADVISE = hasattr(mmap, "MADV_HUGEPAGE")


def empty_matrix(like: Tensor) -> Tensor:
    """`torch.empty_like(like)`, in rows, on large pages if it is a large matrix on the CPU."""
    size = like.numel() * like.element_size()
    if not CAN_ADVISE or like.device.type != "cpu" or size < LARGE:
        return torch.empty_like(like, memory_format=torch.contiguous_format)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # a kernel without large pages refuses: then these are as good as any
    with suppress(OSError):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(pages, dtype=like.dtype, count=prod(like.shape)).view(like.shape)


def copy_matrix(matrix: Tensor) -> Tensor:
    """`matrix.clone()` in a `empty_matrix`."""
    return empty_matrix(matrix).copy_(matrix)
