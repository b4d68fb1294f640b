"""Rotation and MLP of a ChordMixer block, as Triton kernels.

Rows are those of a ragged pack: `position` and `lengths` `(T,)` say where a row stands and how long
its sequence is; `offsets` `(K,)` are the shifts of the tracks. Sums are in float32.
Kernels run on the device of their tensors, which need not be the current one.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

# rows and hidden units of a program, by the width that its rows are padded to
BLOCKS = {16: (64, 32), 32: (64, 32), 64: (64, 32), 128: (32, 32), 256: (16, 32), 512: (16, 16)}


@triton.jit
def _turned_rows(rows, position, lengths, offsets, columns, is_row, is_column, SIZE: tl.constexpr):
    """The row that each row and column reads."""
    place = tl.load(position + rows, mask=is_row, other=0)[:, None]
    length = tl.load(lengths + rows, mask=is_row, other=1)[:, None]
    shift = tl.load(offsets + columns // SIZE, mask=is_column, other=0)[None, :]
    # the remainder has the sign of what is divided
    turned = ((place + shift) % length + length) % length
    return rows[:, None] - place + turned


@triton.jit
def _gather_kernel(
    source, base, out, position, lengths, offsets, num_rows, sign,
    WIDTH: tl.constexpr, SIZE: tl.constexpr, ADD: tl.constexpr, M: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    columns = tl.arange(0, D)
    is_row, is_column = rows < num_rows, columns < WIDTH
    inside = is_row[:, None] & is_column[None, :]
    read = _turned_rows(rows, position, lengths, offsets, columns, is_row, is_column, SIZE)
    values = tl.load(source + read * WIDTH + columns[None, :], mask=inside, other=0.0)
    place = rows[:, None] * WIDTH + columns[None, :]
    if ADD:
        values = tl.load(base + place, mask=inside, other=0.0) + sign * values
    tl.store(out + place, values, mask=inside)


@triton.jit
def _mix_kernel(
    source, w1, b1, w2, b2, residual, out, kept, position, lengths, offsets, num_rows, sign,
    WIDTH: tl.constexpr, HIDDEN: tl.constexpr, SIZE: tl.constexpr,
    TURN: tl.constexpr, KEEP: tl.constexpr, ADD: tl.constexpr,
    M: tl.constexpr, D: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    columns = tl.arange(0, D)
    is_row, is_column = rows < num_rows, columns < WIDTH
    inside = is_row[:, None] & is_column[None, :]
    place = rows[:, None] * WIDTH + columns[None, :]
    read = place
    if TURN:
        turned = _turned_rows(rows, position, lengths, offsets, columns, is_row, is_column, SIZE)
        read = turned * WIDTH + columns[None, :]
    values = tl.load(source + read, mask=inside, other=0.0).to(w1.dtype.element_ty)
    mixed = tl.zeros((M, D), dtype=tl.float32)
    for first in range(0, HIDDEN, H):
        units = first + tl.arange(0, H)
        is_unit = units < HIDDEN
        weight = tl.load(
            w1 + units[None, :] * WIDTH + columns[:, None],
            mask=is_unit[None, :] & is_column[:, None],
            other=0.0,
        )
        hidden = tl.dot(values, weight, input_precision="ieee")
        hidden += tl.load(b1 + units, mask=is_unit, other=0.0).to(tl.float32)[None, :]
        if KEEP:
            spot = rows[:, None] * HIDDEN + units[None, :]
            there = is_row[:, None] & is_unit[None, :]
            tl.store(kept + spot, hidden.to(kept.dtype.element_ty), mask=there)
        active = hidden * 0.5 * (1.0 + tl.erf(hidden * 0.7071067811865476))
        weight = tl.load(
            w2 + columns[None, :] * HIDDEN + units[:, None],
            mask=is_unit[:, None] & is_column[None, :],
            other=0.0,
        )
        mixed += tl.dot(active.to(weight.dtype), weight, input_precision="ieee")
    mixed += tl.load(b2 + columns, mask=is_column, other=0.0).to(tl.float32)[None, :]
    if ADD:
        mixed = tl.load(residual + place, mask=inside, other=0.0).to(tl.float32) + sign * mixed
    tl.store(out + place, mixed.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _mix_backward_kernel(
    grad, kept, w1, w2, inner, to_hidden, active, num_rows,
    WIDTH: tl.constexpr, HIDDEN: tl.constexpr,
    M: tl.constexpr, D: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    columns = tl.arange(0, D)
    is_row, is_column = rows < num_rows, columns < WIDTH
    inside = is_row[:, None] & is_column[None, :]
    place = rows[:, None] * WIDTH + columns[None, :]
    change = tl.load(grad + place, mask=inside, other=0.0).to(w2.dtype.element_ty)
    total = tl.zeros((M, D), dtype=tl.float32)
    for first in range(0, HIDDEN, H):
        units = first + tl.arange(0, H)
        is_unit = units < HIDDEN
        spot = rows[:, None] * HIDDEN + units[None, :]
        there = is_row[:, None] & is_unit[None, :]
        weight = tl.load(
            w2 + columns[:, None] * HIDDEN + units[None, :],
            mask=is_unit[None, :] & is_column[:, None],
            other=0.0,
        )
        hidden = tl.load(kept + spot, mask=there, other=0.0).to(tl.float32)
        share = 0.5 * (1.0 + tl.erf(hidden * 0.7071067811865476))
        slope = share + hidden * tl.exp(-0.5 * hidden * hidden) * 0.3989422804014327
        step = tl.dot(change, weight, input_precision="ieee") * slope
        tl.store(active + spot, (hidden * share).to(active.dtype.element_ty), mask=there)
        tl.store(to_hidden + spot, step.to(to_hidden.dtype.element_ty), mask=there)
        weight = tl.load(
            w1 + units[:, None] * WIDTH + columns[None, :],
            mask=is_unit[:, None] & is_column[None, :],
            other=0.0,
        )
        total += tl.dot(step.to(weight.dtype), weight, input_precision="ieee")
    tl.store(inner + place, total.to(inner.dtype.element_ty), mask=inside)


def find_blocks(width: int) -> tuple[int, int, int]:
    """Padded width, rows and hidden units of a program."""
    padded = max(16, triton.next_power_of_2(width))
    return padded, *BLOCKS[padded]


def gather_tracks(
    source: Tensor,
    layout: tuple[Tensor, Tensor, Tensor],
    out: Tensor,
    base: Tensor | None = None,
    sign: int = 1,
) -> Tensor:
    """`out = base + sign * rotated(source)`, or the rotated source alone; `out` may be `base`.

    Args:
        layout: `position`, `lengths` and `offsets`.
    """
    rows, width = source.shape
    padded, step, _ = find_blocks(width)
    if rows:
        with torch.cuda.device_of(source):
            _gather_kernel[(triton.cdiv(rows, step),)](
                source, out if base is None else base, out, *layout, rows, sign,
                WIDTH=width, SIZE=width // len(layout[2]), ADD=base is not None, M=step, D=padded,
            )  # fmt: skip
    return out


def mix(
    source: Tensor,
    weights: tuple[Tensor, Tensor, Tensor, Tensor],
    out: Tensor,
    layout: tuple[Tensor, Tensor, Tensor] | None = None,
    residual: Tensor | None = None,
    sign: int = 1,
    kept: Tensor | None = None,
) -> Tensor:
    """`out = residual + sign * MLP(source)`, of the rotated source if there is a `layout`.

    `kept` `(T, h)` gets the hidden layer before its GELU. `out` may be `residual`; with a `layout`
    it must not be `source`.
    """
    rows, width = source.shape
    hidden = weights[0].shape[0]
    padded, step, units = find_blocks(width)
    turn = layout is not None
    places = layout if layout is not None else (source, source, source)
    if rows:
        with torch.cuda.device_of(source):
            _mix_kernel[(triton.cdiv(rows, step),)](
                source, *weights, out if residual is None else residual, out,
                out if kept is None else kept, *places, rows, sign,
                WIDTH=width, HIDDEN=hidden, SIZE=width // len(layout[2]) if turn else 1,
                TURN=turn, KEEP=kept is not None, ADD=residual is not None,
                M=step, D=padded, H=units,
            )  # fmt: skip
    return out


def mix_backward(
    grad: Tensor, kept: Tensor, w1: Tensor, w2: Tensor, inner: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradient of the hidden layer before its GELU, and that layer after it, both `(T, h)`.

    `inner` `(T, D)` gets the gradient of what the first layer reads.
    """
    rows, width = grad.shape
    padded, step, units = find_blocks(width)
    to_hidden, active = torch.empty_like(kept), torch.empty_like(kept)
    if rows:
        with torch.cuda.device_of(grad):
            _mix_backward_kernel[(triton.cdiv(rows, step),)](
                grad, kept, w1, w2, inner, to_hidden, active, rows,
                WIDTH=width, HIDDEN=kept.shape[1], M=step, D=padded, H=units,
            )  # fmt: skip
    return to_hidden, active
