"""Products of Paramixer's sparse factors with values, as Triton kernels.

`position` and `lengths` `(T,)` are those of a ragged pack, `offsets` `(K,)` where links point. Sums
are in float32. Kernels run on the device of their tensors, which need not be the current one.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

# rows of a program, by the width that they are padded to
BLOCKS = {16: 64, 32: 64, 64: 64, 128: 32, 256: 16, 512: 8}


@triton.jit
def _product_kernel(
    values, weights, out, position, lengths, offsets, num_rows,
    WIDTH: tl.constexpr, LINKS: tl.constexpr, BACK: tl.constexpr,
    M: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    columns = tl.arange(0, D)
    is_row, is_column = rows < num_rows, columns < WIDTH
    inside = is_row[:, None] & is_column[None, :]
    place = tl.load(position + rows, mask=is_row, other=0)
    length = tl.load(lengths + rows, mask=is_row, other=1)
    total = tl.zeros((M, D), dtype=tl.float32)
    for link in range(LINKS):
        offset = tl.load(offsets + link)
        if BACK:
            offset = -offset
        read = rows - place + ((place + offset) % length + length) % length
        # an entry of the transposed factor stands in the row that it is read from
        owner = rows
        if BACK:
            owner = read
        entry = tl.load(weights + owner * LINKS + link, mask=is_row, other=0.0).to(tl.float32)
        value = tl.load(values + read[:, None] * WIDTH + columns[None, :], mask=inside, other=0.0)
        total += entry[:, None] * value.to(tl.float32)
    spot = rows[:, None] * WIDTH + columns[None, :]
    tl.store(out + spot, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _dots_kernel(
    left, values, out, position, lengths, offsets, num_rows,
    WIDTH: tl.constexpr, LINKS: tl.constexpr, M: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    columns = tl.arange(0, D)
    is_row, is_column = rows < num_rows, columns < WIDTH
    inside = is_row[:, None] & is_column[None, :]
    place = tl.load(position + rows, mask=is_row, other=0)
    length = tl.load(lengths + rows, mask=is_row, other=1)
    spot = rows[:, None] * WIDTH + columns[None, :]
    own = tl.load(left + spot, mask=inside, other=0.0).to(tl.float32)
    for link in range(LINKS):
        offset = tl.load(offsets + link)
        read = rows - place + ((place + offset) % length + length) % length
        value = tl.load(values + read[:, None] * WIDTH + columns[None, :], mask=inside, other=0.0)
        dots = tl.sum(own * value.to(tl.float32), 1)
        tl.store(out + rows * LINKS + link, dots.to(out.dtype.element_ty), mask=is_row)


def link_product(
    values: Tensor, weights: Tensor, layout: tuple[Tensor, Tensor, Tensor], transposed: bool
) -> Tensor:
    """The factor with entries `weights` `(T, K)`, or its transpose, times values `(T, D)`."""
    rows, width = values.shape
    padded = max(16, triton.next_power_of_2(width))
    out, step = torch.empty_like(values), BLOCKS[padded]
    if rows:
        with torch.cuda.device_of(values):
            _product_kernel[(triton.cdiv(rows, step),)](
                values, weights, out, *layout, rows,
                WIDTH=width, LINKS=weights.shape[1], BACK=transposed, M=step, D=padded,
            )  # fmt: skip
    return out


def link_dots(left: Tensor, values: Tensor, layout: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """For every link the dot product of a row with the row that it points to, `(T, K)`."""
    rows, width = values.shape
    links = len(layout[2])
    padded = max(16, triton.next_power_of_2(width))
    out, step = left.new_empty(rows, links), BLOCKS[padded]
    if rows:
        with torch.cuda.device_of(values):
            _dots_kernel[(triton.cdiv(rows, step),)](
                left, values, out, *layout, rows,
                WIDTH=width, LINKS=links, M=step, D=padded,
            )  # fmt: skip
    return out
