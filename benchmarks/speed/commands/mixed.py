"""Whether a batch of many lengths costs what its sequences need, and no more.

Batches of about 64k tokens: real genes, lengths from 79 to 32,768 spread evenly over their
logarithm, and many short sequences. Ideal is what one long sequence costs per token and block,
times the sum over sequences of length times own depth. The plain twin runs beside ours.
"""

import numpy as np
import torch

from hf_mixers.data import TokenBudgetBatchSampler, load_embedded

from ..contenders import build_network, chord_settings, count_parameters, draw_ids
from ..interleaved import Case, Group
from ..isolated import Built
from ..options import Options
from ..steps import MODES, Mode, make_step, warm_up

TOKENS = 65_536
BATCHES = ("one long sequence", "genes", "spread", "short")


def make_groups(options: Options) -> list[Group]:
    tokens = 512 if options.smoke else TOKENS
    lengths = {batch: draw_lengths(batch, tokens, options.seed) for batch in BATCHES}
    return [
        Group(
            [
                Case(
                    {"network": name, "mode": mode, "batch": batch},
                    build,
                    {
                        "name": name,
                        "lengths": lengths[batch],
                        "tokens": tokens,
                        "mode": mode,
                        "seed": options.seed,
                    },
                )
                for name in ("chordmixer", "plain")
                for batch in BATCHES
            ]
        )
        for mode in MODES
    ]


def build(name: str, lengths: list[int], tokens: int, mode: Mode, seed: int) -> Built:
    """A network for sequences of up to `tokens` tokens on one flat batch."""
    settings = chord_settings(tokens)
    warm_up(name, mode, settings)
    torch.manual_seed(seed)
    model = build_network(name, tokens, settings)
    inputs = {
        "input_ids": draw_ids(1, sum(lengths), seed=seed),
        "cu_seq_lens_q": torch.tensor([0, *lengths]).cumsum(0).to(torch.int32),
        "labels": torch.arange(len(lengths)) % 2,
    }
    step = make_step(model, mode)
    facts = {
        "parameters": count_parameters(model),
        "sequences": len(lengths),
        "tokens_in_batch": sum(lengths),
        "longest": max(lengths),
        "token_blocks": sum(length * (length - 1).bit_length() for length in lengths),
    }
    return Built(lambda: step(inputs), facts)


def draw_lengths(batch: str, tokens: int, seed: int) -> list[int]:
    """Lengths of a batch of at most `tokens` tokens."""
    if batch == "one long sequence":
        return [tokens]
    if batch == "short":
        return [128] * (tokens // 128)
    if batch == "genes":
        genes = np.asarray(load_embedded().with_format("numpy")["length"])
        genes = genes[genes <= tokens]
        sampler = TokenBudgetBatchSampler(genes, tokens, seed=seed)
        return genes[next(iter(sampler))].tolist()
    generator = np.random.default_rng(seed)
    ends = np.log([79, min(32_768, tokens // 2) + 1])
    drawn = np.exp(generator.uniform(*ends, size=tokens)).astype(int)
    return drawn[np.cumsum(drawn) <= tokens].tolist()
