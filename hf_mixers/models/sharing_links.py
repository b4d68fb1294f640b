"""The product of Paramixer's factors with the values of a pack that processes share.

Each process gets the rows that its links point to, once each, and multiplies as one process would.
"""

import torch
from torch import Tensor

from .packing import Pack, at_least_float32
from .sharing import Share, exchange, find_targets


class SharedLinks:
    """Which rows go where for the links of a factor.

    `index[l]` `(T,)` is what link l of each row reads: a row here, or one of those that come, which
    are numbered on from the rows here.
    """

    def __init__(self, pack: Pack, offsets: tuple[int, ...]):
        share: Share = pack.share
        self.share, self.num_rows = share, pack.num_rows
        size = len(share.bounds) - 1
        reads = [find_targets(pack, offset) for offset in offsets]
        readers = [find_targets(pack, -offset) for offset in offsets]
        wanted, given = [], []
        for process in range(size):
            wanted.append(_rows_of(reads, share, process))
            given.append(_rows_for(readers, share, process))
        self.received, self.sent = [len(part) for part in wanted], [len(part) for part in given]
        self.given = torch.cat(given)
        # in the order of processes, so of rows
        coming = torch.cat(wanted)
        self.index = [self._place(rows, coming) for rows in reads]

    def _place(self, rows: Tensor, coming: Tensor) -> Tensor:
        here = self.share.owners(rows) == self.share.rank
        found = torch.searchsorted(coming, rows) + self.num_rows
        return torch.where(here, rows - self.share.first, found)

    @classmethod
    def of(cls, pack: Pack, offsets: tuple[int, ...]) -> "SharedLinks":
        """The links that an earlier factor has worked out, if there are any."""
        notes = pack.notes if pack.whole is None else pack.whole.notes
        key = cls, offsets, pack.num_sequences
        if key not in notes:
            notes[key] = cls(pack, offsets)
        return notes[key]


def _rows_of(reads: list[Tensor], share: Share, process: int) -> Tensor:
    """Rows of a process that rows here read, each once and in order."""
    if process == share.rank:
        return reads[0].new_empty(0)
    return torch.cat([rows[share.owners(rows) == process] for rows in reads]).unique()


def _rows_for(readers: list[Tensor], share: Share, process: int) -> Tensor:
    """Rows here, from 0 on, that a process reads, each once and in order."""
    if process == share.rank:
        return readers[0].new_empty(0)
    read = torch.stack([share.owners(rows) == process for rows in readers]).any(0)
    return read.nonzero().squeeze(1)


class _Fetch(torch.autograd.Function):
    """Rows here, then rows that come from other processes."""

    @staticmethod
    def forward(ctx, rows, links):
        ctx.links = links
        found = exchange(rows[links.given], links.sent, links.received, links.share.group)
        return torch.cat([rows, found])

    @staticmethod
    def backward(ctx, grad):
        links = ctx.links
        own, found = grad[: links.num_rows], grad[links.num_rows :]
        back = exchange(found, links.received, links.sent, links.share.group)
        return own.index_add(0, links.given, back), None


class _Product(torch.autograd.Function):
    """Weighted sums of rows, one link at a time."""

    @staticmethod
    def forward(ctx, rows, weights, links):
        ctx.links = links
        ctx.save_for_backward(rows, weights)
        out = at_least_float32(rows.new_zeros(weights.shape[0], rows.shape[1]))
        for link, index in enumerate(links.index):
            out.addcmul_(rows.index_select(0, index), weights[:, link : link + 1])
        return out.to(rows.dtype)

    @staticmethod
    def backward(ctx, grad):
        rows, weights = ctx.saved_tensors
        to_rows = at_least_float32(torch.zeros_like(rows))
        to_weights = torch.empty_like(weights)
        for link, index in enumerate(ctx.links.index):
            read = rows.index_select(0, index)
            to_weights[:, link] = (at_least_float32(grad) * read).sum(1)
            to_rows.index_add_(0, index, (grad * weights[:, link : link + 1]).to(to_rows.dtype))
        return to_rows.to(rows.dtype), to_weights, None


def mix_links_shared(
    values: Tensor, weights: Tensor, pack: Pack, offsets: tuple[int, ...]
) -> Tensor:
    """`ops_links.mix_links` of a shared pack; all its processes must call it."""
    links = SharedLinks.of(pack, offsets)
    return _Product.apply(_Fetch.apply(values, links), weights, links)
