"""The product of Paramixer's sparse factors with the values, as a pure function on a pack.

Paper: Yu, Khalitov, Cheng, Yang: Paramixer, CVPR 2022, with its supplement.
Idea: row i of a factor, an N x N matrix, has K entries, at the columns i + offset (mod N) for the
  offsets of its protocol; the product is a weighted sum of K shifted copies of the values.
Cost: O(T K D) time; one kernel per factor, which reads `(T, K)` row numbers; on processors, where
  these would be many, a shifted copy at a time, and none for long sequences, which are read in
  place.
Ours differs from the authors' in having no list of the entries: links are counted modulo the length
of each sequence of a batch. From the pack it needs lengths and positions.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ._compat import bag_weight_grads
from .accelerated import find_kernels
from .ops_chord import chord_offsets, source_rows
from .packing import Pack, at_least_float32, upload
from .sharing_links import mix_links_shared

# rows from which two slices cost less than a gather, and rows that a cache holds for all links
_LONG = 2048
_PIECE = 8192
# entries of a factor up to which processors use row numbers: 8 MB
_BAGGED = 1 << 20
# up to how many numbers the rows that links read are kept for the next factor
KEPT_SOURCES = 1 << 22


class Links(NamedTuple):
    """What a product needs to know besides its tensors."""

    offsets: tuple[int, ...]
    runs: tuple[tuple[int, int], ...] | None
    # "at once" for compilers, "by link" for large factors on processors, else "bags" or "triton"
    way: str
    notes: dict  # of the pack
    kernels: Any = None


def link_offsets(protocol: str, num_links: int, factor: int) -> tuple[int, ...]:
    """Where the links of a factor (0, 1, ...) point, as seen from a token; the first is itself.

    >>> link_offsets("chord", 5, factor=2), link_offsets("cdil", 5, factor=2)
    ((0, 1, 2, 4, 8), (0, 4, 8, -4, -8))
    """
    if protocol == "chord":
        return chord_offsets(num_links)
    ahead = [step << factor for step in range(1, (num_links + 1) // 2)]
    return 0, *ahead, *(-offset for offset in ahead)


def mix_links(
    values: Tensor,
    weights: Tensor,
    pack: Pack,
    offsets: Sequence[int],
    use_triton: bool = False,
) -> Tensor:
    """Every row as the weighted sum of the rows that its links point to; equal links add up.

    Args:
        values: `(T, D)`.
        weights: `(T, K)`, one per link.
        offsets: K whole numbers; link l of position j reads position j + offset_l (mod N).
        use_triton: Use kernels where they can run (`config.use_triton`).
    """
    if weights.shape != (values.shape[0], len(offsets)):
        raise ValueError(
            f"weights must have shape {(values.shape[0], len(offsets))}, one row per row of values "
            f"and one column per link, got {tuple(weights.shape)}."
        )
    dtype = torch.promote_types(values.dtype, weights.dtype)
    # padding has no links, or it would read itself and grow with every factor
    weights = pack.blank(weights).to(dtype)
    way = "at once" if pack.is_compiled else "by link"
    kernels = None
    if not pack.is_static:
        way = "bags" if _fits_bags(weights) else "by link"
        kernels = find_kernels(use_triton, values, values.shape[1])
        way = way if kernels is None else "triton"
    if pack.share is not None:
        return mix_links_shared(values.to(dtype), weights, pack, tuple(offsets))
    links = Links(tuple(offsets), _find_runs(pack), way, pack.notes, kernels)
    layout = pack.position, pack.row_lengths, pack.valid
    return _Product.apply(values.to(dtype), weights, *layout, links, False)


def _fits_bags(weights: Tensor) -> bool:
    """Whether one kernel per factor is the way: always on accelerators."""
    if weights.device.type != "cpu":
        return True
    # processors sum bags of smaller types in these types
    exact = weights.dtype in (torch.float32, torch.float64)
    return exact and weights.numel() <= _BAGGED


class _Product(torch.autograd.Function):
    """Factor times values, or transposed factor times values: one is the gradient of the other."""

    @staticmethod
    def forward(values, weights, position, lengths, valid, links, transposed):
        product = PRODUCTS[links.way]
        return product(values, weights, (position, lengths, valid), links, transposed)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.links, ctx.transposed = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, grad):
        values, weights, *layout = ctx.saved_tensors
        grad_values = grad_weights = None
        if ctx.needs_input_grad[0]:
            grad_values = _Product.apply(grad, weights, *layout, ctx.links, not ctx.transposed)
        if ctx.needs_input_grad[1]:
            pair = (values, grad) if ctx.transposed else (grad, values)
            grad_weights = _Dots.apply(*pair, *layout, ctx.links)
        return grad_values, grad_weights, *[None] * 5


class _Dots(torch.autograd.Function):
    """For every link the dot product of a row with the row it points to: the factor's gradient."""

    @staticmethod
    def forward(rows, values, position, lengths, valid, links):
        dots = DOTS[links.way]
        return dots(rows, values, (position, lengths, valid), links)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.links = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, grad):
        rows, values, *layout = ctx.saved_tensors
        grad_rows = _Product.apply(values, grad, *layout, ctx.links, False)
        grad_values = _Product.apply(rows, grad, *layout, ctx.links, True)
        return grad_rows, grad_values, *[None] * 4


def _find_runs(pack: Pack) -> tuple[tuple[int, int], ...] | None:
    """Number and length of sequences of equal length, if there are enough rows in a run to slice.

    None for a static pack, and where lengths are short and differ.
    """
    if pack.sizes is None:
        return None
    runs = []
    for size, equal in groupby(pack.sizes):
        count, most = len(list(equal)), max(1, _PIECE // size)
        runs += [(min(most, count - first), size) for first in range(0, count, most)]
    return tuple(runs) if pack.num_rows >= _LONG * len(runs) else None


def _product_by_link(values, weights, layout, links, transposed):
    offsets, runs = links.offsets, links.runs
    out = at_least_float32(values.new_zeros(values.shape))
    for part, source, weight in _split(runs, out, values, weights):
        for link, offset in enumerate(offsets):
            column = weight[:, :, link : link + 1]
            # an entry of the transposed factor stands in the row that it is read from
            for rows, read in _places(layout, runs, part, -offset if transposed else offset):
                entries = _take(column, read if transposed else rows)
                part[:, rows].addcmul_(_take(source, read), entries)
    return out.to(values.dtype)


def _dots_by_link(rows, values, layout, links):
    offsets, runs = links.offsets, links.runs
    out = rows.new_empty(rows.shape[0], len(offsets))
    ones = at_least_float32(rows.new_ones(rows.shape[1]))
    for part, left, right in _split(runs, out, rows, values):
        for link, offset in enumerate(offsets):
            for here, read in _places(layout, runs, part, offset):
                products = at_least_float32(left[:, here]) * _take(right, read)
                # a product with ones sums short rows many times faster than a sum does
                part[:, here, link] = products @ ones
    return out


def _split(runs, *matrices: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Rows of sequences of equal length as `(sequences, length, ...)`; without runs all as one."""
    start = 0
    for count, size in runs or [(1, matrices[0].shape[0])]:
        end = start + count * size
        yield tuple(matrix[start:end].reshape(count, size, -1) for matrix in matrices)
        start = end


def _places(layout, runs, part: Tensor, offset: int) -> Iterator[tuple[slice, slice | Tensor]]:
    """Rows and the rows they read, `offset` positions on."""
    if runs is None:
        position, lengths, valid = layout
        yield slice(None), source_rows(position, lengths, valid, offset)
        return
    size = part.shape[1]
    shift = offset % size
    yield slice(size - shift), slice(shift, None)
    if shift:
        yield slice(size - shift, None), slice(shift)


def _take(part: Tensor, which: slice | Tensor) -> Tensor:
    return part[:, which] if isinstance(which, slice) else part.index_select(1, which)


def _product_at_once(values, weights, layout, links, transposed):
    source = _all_sources(layout, links.offsets, transposed)
    if transposed:
        weights = weights.gather(0, source)
    return (at_least_float32(values)[source] * weights[:, :, None]).sum(1).to(values.dtype)


def _dots_at_once(rows, values, layout, links):
    source = _all_sources(layout, links.offsets, False)
    products = at_least_float32(rows)[:, None] * values[source]
    return products.sum(2).to(rows.dtype)


def _all_sources(layout, offsets, transposed) -> Tensor:
    """The rows that all links read, `(T, K)`."""
    position, lengths, valid = (None if part is None else part[:, None] for part in layout)
    steps = upload([-offset if transposed else offset for offset in offsets], position.device)
    return source_rows(position, lengths, valid, steps)


def _product_in_bags(values, weights, layout, links, transposed):
    """Rows as bags of the rows that their links read: one kernel, and no copy of those rows."""
    source = _kept_sources(layout, links, transposed)
    if transposed:
        weights = weights.gather(0, source)
    if values.shape[0] == 0:
        return torch.zeros_like(values)
    return functional.embedding_bag(source, values, mode="sum", per_sample_weights=weights)


def _dots_in_bags(rows, values, layout, links):
    source = _kept_sources(layout, links, False)
    if values.shape[0] == 0:
        return rows.new_zeros(source.shape)
    return bag_weight_grads(rows, values, source)


def _kept_sources(layout, links: Links, transposed: bool) -> Tensor:
    """`_all_sources`, which factors with the same links share."""
    key = "sources", links.offsets, transposed
    if key in links.notes:
        return links.notes[key]
    source = _all_sources(layout, links.offsets, transposed)
    if source.numel() <= KEPT_SOURCES:
        links.notes[key] = source
    return source


def _product_by_kernel(values, weights, layout, links, transposed):
    layout = _kernel_layout(layout, links)
    values, weights = values.contiguous(), weights.contiguous()
    return links.kernels.link_product(values, weights, layout, transposed)


def _dots_by_kernel(rows, values, layout, links):
    layout = _kernel_layout(layout, links)
    return links.kernels.link_dots(rows.contiguous(), values.contiguous(), layout)


def _kernel_layout(layout, links: Links) -> tuple[Tensor, Tensor, Tensor]:
    key = "link layout", links.offsets
    if key not in links.notes:
        position, lengths, _ = layout
        links.notes[key] = position, lengths, upload(links.offsets, position.device)
    return links.notes[key]


PRODUCTS = {
    "by link": _product_by_link,
    "at once": _product_at_once,
    "bags": _product_in_bags,
    "triton": _product_by_kernel,
}
DOTS = {
    "by link": _dots_by_link,
    "at once": _dots_at_once,
    "bags": _dots_in_bags,
    "triton": _dots_by_kernel,
}
