"""Fully sharded training (FSDP2) of a small model in two processes, started by torchrun.

Each process has sequences of its own, one of them so short that it needs no block at all: every
process must call every block all the same, or the others would wait forever.
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from hf_mixers._compat import leave_process_group
from tests.families import find_row, flatten


def batches(step: int) -> list[dict]:
    """What the two processes see in one step."""
    generator = torch.Generator().manual_seed(step)
    parts = []
    for lengths in ([40, 3], [1]):
        sequences = [torch.randint(5, 9, (n,), generator=generator) for n in lengths]
        parts.append({**flatten(sequences), "labels": torch.tensor([step % 2] * len(lengths))})
    return parts


def train(family: str, rank: int | None) -> list[float]:
    """Losses of three steps, of one process of two, or of both by turns in one (`rank=None`)."""
    row = find_row(family)
    model = row.build("sequence_classification", max_position_embeddings=64).train()
    if rank is not None:
        for layer in model.model.layers:
            fully_shard(layer)
        fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for step in range(3):
        parts = batches(step)
        optimizer.zero_grad()
        if rank is None:
            loss = sum(model(**part).loss for part in parts) / 2
            loss.backward()
        else:
            loss = model(**parts[rank]).loss
            loss.backward()
            loss = loss.detach()
            dist.all_reduce(loss)
            loss = loss / 2
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    output, family = sys.argv[1:]
    dist.init_process_group("gloo")
    result = train(family, dist.get_rank())
    if dist.get_rank() == 0:
        Path(output).write_text(json.dumps(result))
    leave_process_group()
