"""Combiner-Fixed: direct attention inside segments, summaries of all other segments.

Paper: Combiner: Full Attention Transformer with Sparse Computation Cost, NeurIPS 2021, 4.1.
Idea: a token attends to its own segment of s tokens directly and to each other segment through one
  summary; causal: to the tokens of its segment up to itself and to the segments before it.
Cost: O(n (s + n / s)) for a sequence of n tokens.
Ours differs in leaving the own segment's summary out where the released code keeps it
(`exclude_own_span`), and in that lengths need not divide.
"""

import torch
from torch import Tensor

from .ops_grid import Grid, GridBlock, grid_of
from .ops_spans import Projected, Summary, attend, masked_softmax, summarise
from .packing import Pack


def fixed_attention(
    parts: Projected,
    pack: Pack,
    segment: int,
    *,
    causal: bool,
    span_pool: str = "max",
    exclude_own_span: bool = True,
    use_summaries: bool = True,
    dropout: float = 0.0,
) -> Tensor:
    """Attention `(T, H, d)` of all sequences of a pack."""
    grid = grid_of(pack, segment)
    masks = _masks(pack, grid, segment, causal, exclude_own_span, use_summaries)
    spread = parts.map(grid.spread)
    outputs = []
    for number, (block, present, mask) in enumerate(
        zip(grid.blocks, grid.presence(), masks, strict=True)
    ):
        # (B, R, H, w, d)
        here = Projected(*(part[number] for part in spread)).map(lambda x: x.transpose(2, 3))
        outputs.append(
            _attend_block(
                here,
                block,
                present,
                mask,
                causal=causal,
                span_pool=span_pool,
                has_summaries=_has_summaries(block, use_summaries, causal, exclude_own_span),
                dropout=dropout,
            )
        )
    return grid.join(outputs)


def _attend_block(
    parts: Projected,
    block: GridBlock,
    present: Tensor | None,
    mask: Tensor | None,
    *,
    causal: bool,
    span_pool: str,
    has_summaries: bool,
    dropout: float,
) -> Tensor:
    summary = None
    if has_summaries:
        members = None if present is None else present[:, :, None]
        summary = summarise(parts, members, span_pool, dropout)
    if torch.compiler.is_exporting():
        return _attend_exported(parts, summary, mask, dropout)
    query, key, value = (part.flatten(0, 1) for part in parts[:3])
    if summary is not None:
        keys, values = (
            # every row of a sequence sees the summaries of all its rows: (B R, H, R, d)
            part.transpose(1, 2)[:, None].expand(-1, block.rows, -1, -1, -1).flatten(0, 1)
            for part in summary
        )
        key, value = torch.cat([key, keys.to(key.dtype)], 2), torch.cat([value, values], 2)
    if mask is not None:
        mask = mask.expand(block.count, -1, -1, -1).flatten(0, 1)[:, None].to(query.dtype)
    elif causal:
        return _unflatten(_attend_causal(query, key, value, dropout), block)
    return _unflatten(attend(query, key, value, mask, dropout), block)


def _attend_exported(
    parts: Projected, summary: Summary | None, mask: Tensor | None, dropout: float
) -> Tensor:
    """The same without joining dimensions, about which exporters ask too much."""
    # (B, H, R, w, d): exporters can tell that heads divide a product of heads and rows
    query, key, value = (part.transpose(1, 2) for part in parts[:3])
    scores = query @ key.transpose(3, 4)
    if summary is not None:
        # the same for every row
        keys, values = (
            part.transpose(1, 2)[:, :, None].expand(-1, -1, query.shape[2], -1, -1)
            for part in summary
        )
        scores = torch.cat([scores, query @ keys.transpose(3, 4)], 4)
    if mask is not None:
        scores = scores + mask[:, None].to(scores.dtype)
    shares = masked_softmax(scores, None, dropout).to(value.dtype)
    width = key.shape[3]
    out = shares[..., :width] @ value
    if summary is not None:
        out = out + shares[..., width:] @ values
    return out.permute(0, 2, 3, 1, 4)


def _has_summaries(block: GridBlock, use_summaries: bool, causal: bool, exclude_own: bool) -> bool:
    # a sequence of one segment sees no summary but, if asked for, its own
    return use_summaries and (block.rows != 1 or not (causal or exclude_own))


def _attend_causal(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
    """One row of tokens without padding: plain causal attention."""
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, dropout_p=dropout, is_causal=True, scale=1.0
    )


def _unflatten(out: Tensor, block: GridBlock) -> Tensor:
    """`(B R, H, w, d)` -> `(B, R, w, H, d)`."""
    return out.unflatten(0, (block.count, block.rows)).transpose(2, 3)


def _masks(
    pack: Pack, grid: Grid, segment: int, causal: bool, exclude_own: bool, use_summaries: bool
) -> list[Tensor | None]:
    """What queries of blocks see, as a bias `(B or 1, R, w, w + R)`, worked out once per pack."""
    note = ("fixed", segment, causal, exclude_own, use_summaries)
    if note not in pack.notes:
        pack.notes[note] = [
            _mask(block, present, causal, exclude_own, use_summaries, pack.lengths.device)
            for block, present in zip(grid.blocks, grid.presence(), strict=True)
        ]
    return pack.notes[note]


def _mask(
    block: GridBlock,
    present: Tensor | None,
    causal: bool,
    exclude_own: bool,
    use_summaries: bool,
    device: torch.device,
) -> Tensor | None:
    _, rows, width, _ = block
    has_summaries = _has_summaries(block, use_summaries, causal, exclude_own)
    is_exported = torch.compiler.is_exporting()
    if present is None and not has_summaries and not (causal and is_exported):
        return None
    places, numbers = torch.arange(width, device=device), torch.arange(rows, device=device)
    # of tokens: (B or 1, R, w, w)
    seen = torch.ones(1, rows, width, width, dtype=torch.bool, device=device)
    if causal:
        seen = seen & (places <= places[:, None])
    if present is not None:
        # an empty slot sees itself, so that no row of scores is empty
        seen = (seen & present[:, :, None]) | (places == places[:, None])
    if has_summaries:
        # of summaries: (B or 1, R, w, R)
        if causal:
            others = numbers < numbers[:, None]
        else:
            others = (numbers != numbers[:, None]) | (not exclude_own)
        others = others[None, :, None].expand(-1, -1, width, -1)
        if present is not None:
            others = others & present.any(2)[:, None, None]
            seen = seen.expand(others.shape[0], -1, -1, -1)
        seen = torch.cat([seen, others], 3)
    return torch.zeros(seen.shape, device=device).masked_fill_(~seen, -torch.inf)
