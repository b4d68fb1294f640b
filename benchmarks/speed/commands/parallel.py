"""One sequence over 1, 2 and 4 processes: time, bytes sent, equality, memory of each process.

A training step of a ChordMixer, as it is by default and reversible, on one sequence. `sent_mib` is
what the busiest process sends to others in a step, `expected_share` the part (1 + log2 P) / tracks
of its activations that a block should move, `sent_share` the part that it does; `waiting` the share
of its time that a process spends in collectives; `loss_error` and `gradient_error` are the largest
differences to one process, relative to the largest gradient. Processes of one machine share its
cores: times say what communication costs there and nothing about a cluster.

A training step of a narrow reversible ChordMixer (23 tracks of 2 channels, 32 hidden units, 22
blocks) on one sequence of 4 M tokens, once on one process and once on two. `process_peak_mib` is by
how much the resident memory of the process that needs most rises in it; `peak_mib` is that of the
process that starts them.
"""

import time
from math import log2
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from hf_mixers import ChordMixerConfig, ChordMixerForMaskedLM
from hf_mixers.models.sharing import shared_over
from hf_mixers.parallel import average_gradients
from tests.parallel.ranks import run_ranks

from ..interleaved import Case, Group
from ..isolated import Built
from ..options import Options
from ..rss import give_back, measure_peak, return_at_once

LENGTH, TRACK_SIZE = 131_072, 8
SIZES = (1, 2, 4)
LONG, NARROW = 4_000_000, {"track_size": 2, "intermediate_size": 32}


def make_groups(options: Options) -> list[Group]:
    length, long = (2048, 4096) if options.smoke else (LENGTH, LONG)
    groups = []
    for network in ("chordmixer", "reversible"):
        cases = []
        for size in SIZES:
            place = {"network": network, "length": length, "processes": size}
            labels = {"task": "training step", **place}
            cases.append(Case(labels, build, {**place, "seed": options.seed}))
        groups.append(Group(cases, repeats=1))
    for size in (1, 2):
        place = {"network": "reversible", "length": long, "processes": size}
        labels = {"task": "long training step", **place}
        arguments = {**place, "seed": options.seed, "settings": NARROW}
        groups.append(Group([Case(labels, build_measured, arguments)], repeats=0, time_limit=3600))
    return groups


def build(network: str, length: int, processes: int, seed: int) -> Built:
    """A training step of several processes."""
    torch.manual_seed(seed)
    config = make_config(network, length, track_size=TRACK_SIZE)
    model = ChordMixerForMaskedLM(config).train()
    batch = make_batch(length)
    found = (
        [run_one(0, model, batch)]
        if processes == 1
        else run_ranks(run_one, processes, model, batch)
    )
    facts: dict[str, Any] = {"tracks": config.num_tracks, **_describe(found, config, length)}
    if processes > 1:
        facts |= _compare(found[0], run_one(0, model, batch))

    def step() -> None:
        if processes == 1:
            run_one(0, model, batch)
        else:
            run_ranks(run_one, processes, model, batch)

    return Built(step, facts)


def build_measured(
    network: str, length: int, processes: int, seed: int, settings: dict[str, Any]
) -> Built:
    """A training step of several processes, which each measure their memory.

    They are forked from this process, so nothing is computed here.
    """
    config = make_config(network, length, **settings)

    def step() -> dict[str, float]:
        found = run_ranks(measure_rank, processes, config, processes, seed)
        return {
            "process_peak_mib": round(max(part["peak"] for part in found) / 2**20, 1),
            "loss": found[0]["loss"],
            "gradient_norm": found[0]["norm"],
        }

    return Built(step, {"tracks": config.num_tracks})


def measure_rank(rank: int, config: ChordMixerConfig, size: int, seed: int) -> dict[str, Any]:
    """By how many bytes the memory of this process rises in a step, and what the step gives."""
    return_at_once()
    torch.manual_seed(seed)
    model = ChordMixerForMaskedLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters())

    def step(batch: dict[str, Tensor]) -> tuple[float, float]:
        optimizer.zero_grad()
        with shared_over(dist.group.WORLD if size > 1 else None):
            loss = model(**batch).loss
            loss.backward()
        if size > 1:
            average_gradients(model)
        norm = torch.nn.utils.get_total_norm([weight.grad for weight in model.parameters()])
        optimizer.step()
        return loss.item(), norm.item()

    # libraries take what they keep for good in a first step; with a rate of 0 it changes nothing
    optimizer.param_groups[0]["lr"] = 0.0
    step(make_batch(64))
    batch = make_batch(config.max_position_embeddings)
    give_back()
    (loss, norm), peak = measure_peak(lambda: step(batch))
    return {"loss": loss, "norm": norm, "peak": peak}


def make_config(network: str, length: int, **settings: Any) -> ChordMixerConfig:
    return ChordMixerConfig(
        max_position_embeddings=length, reversible=network == "reversible", **settings
    )


def make_batch(length: int) -> dict[str, Tensor]:
    """One sequence of random bases, three in ten of them to be predicted."""
    ids = torch.randint(5, 9, (1, length))
    return {"input_ids": ids, "labels": torch.where(torch.rand(ids.shape) < 0.3, ids, -100)}


def run_one(rank: int, model, batch) -> dict[str, Any]:
    """A step of this process: loss, gradients, bytes sent and seconds."""
    count = {"bytes": 0, "seconds": 0.0}
    is_shared = dist.is_initialized()
    original = dist.all_to_all_single

    def counting(out, rows, received, sent, group=None):
        start = time.perf_counter()
        original(out, rows, received, sent, group=group)
        count["seconds"] += time.perf_counter() - start
        count["bytes"] += rows.numel() * rows.element_size()

    model.zero_grad()
    start = time.perf_counter()
    dist.all_to_all_single = counting
    try:
        with shared_over(dist.group.WORLD if is_shared else None):
            loss = model(**batch).loss
            loss.backward()
        if is_shared:
            average_gradients(model)
    finally:
        dist.all_to_all_single = original
    seconds = time.perf_counter() - start
    grads = [weight.grad.clone() for weight in model.parameters()]
    return {"loss": loss.detach(), "grads": grads, "all": seconds, **count}


def _describe(found: list[dict], config: ChordMixerConfig, length: int) -> dict[str, float]:
    """Bytes and shares of the busiest process."""
    size, blocks = len(found), config.num_hidden_layers
    sent = max(part["bytes"] for part in found)
    # forward, and two rotations in the backward pass; a reversible one computes its branch again
    passes = 4 if config.reversible else 3
    whole = passes * blocks * -(-length // size) * config.hidden_size * 4
    return {
        "sent_mib": round(sent / 2**20, 2),
        "sent_share": round(sent / whole, 4),
        "expected_share": round((1 + log2(size)) / config.num_tracks, 4) if size > 1 else 0.0,
        "waiting": round(max(part["seconds"] / part["all"] for part in found), 3),
    }


def _compare(found: dict, whole: dict) -> dict[str, float]:
    largest = max(grad.abs().max() for grad in whole["grads"])
    errors = [
        (own - grad).abs().max() / largest
        for own, grad in zip(found["grads"], whole["grads"], strict=True)
    ]
    return {
        "loss_error": float((found["loss"] - whole["loss"]).abs()),
        "gradient_error": float(max(errors)),
    }
