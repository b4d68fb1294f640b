"""Variants of all kinds scored by a masked language model: packed together, and one by one.

In genes of the embedded data, windows of 512 bases on both strands. `llr` are the ratios at the
masked site, which only single letters have: there all variants are single letters. With `all` half
are insertions, deletions and replacements of 1 to 10 bases, and there are also the
pseudo-likelihoods of both windows and the distance of their embeddings.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from hf_mixers import ChordMixerConfig, ChordMixerForMaskedLM, DnaTokenizer
from hf_mixers.data import load_embedded
from hf_mixers.inference import score_variants

from ..contenders import chord_settings, count_parameters
from ..interleaved import Case, Group
from ..isolated import Built
from ..options import Options

WINDOW, LONGEST_CHANGE = 512, 10
COUNT = 100
# tokens of a batch; the smallest holds one window
BUDGETS = {"packed": 65_536, "one by one": 1}
SCORES = {"llr": ("llr",), "all": ("llr", "pllr", "distance")}
KINDS = {
    "llr": ("letter",),
    "all": ("letter", "insertion", "letter", "deletion", "letter", "replacement"),
}


def make_groups(options: Options) -> list[Group]:
    count = 8 if options.smoke else COUNT
    return [
        Group(
            [
                Case(
                    {"network": name, "scores": scores, "variants": count},
                    build,
                    {"name": name, "scores": scores, "count": count, "seed": options.seed},
                )
                for name in BUDGETS
            ],
            repeats=1,
        )
        for scores in SCORES
    ]


def build(name: str, scores: str, count: int, seed: int) -> Built:
    """Scoring of variants of the embedded genes."""
    genes = [text for text in load_embedded()["sequence"] if len(text) > 2 * WINDOW][:50]
    reference = {f"g{number}": text for number, text in enumerate(genes)}
    variants = list(draw_variants(reference, KINDS[scores], count, seed))
    torch.manual_seed(seed)
    model = ChordMixerForMaskedLM(ChordMixerConfig(vocab_size=20, **chord_settings(WINDOW))).eval()

    def step() -> dict[str, float]:
        found = score_variants(
            model,
            variants,
            reference,
            tokenizer=DnaTokenizer(),
            token_budget=BUDGETS[name],
            window=WINDOW,
            scores=SCORES[scores],
        )
        return {"scored": sum(bool(one.scores) for one in found)}

    return Built(step, {"parameters": count_parameters(model)})


def draw_variants(
    genes: dict[str, str], kinds: Sequence[str], count: int, seed: int
) -> Iterator[tuple]:
    """Names, positions and alleles, of all kinds in turn."""
    chance = np.random.default_rng(seed)

    def letters(size: int) -> str:
        return "".join("ACGT"[i] for i in chance.integers(4, size=size))

    for number in range(count):
        name = f"g{chance.integers(len(genes))}"
        place = int(chance.integers(1, len(genes[name]) - LONGEST_CHANGE - 1))
        size = int(chance.integers(1, LONGEST_CHANGE + 1))
        kind = kinds[number % len(kinds)]
        here = genes[name][place : place + 1 + size * (kind in ("deletion", "replacement"))]
        other = {
            "letter": "ACGT".replace(here[0], "", 1)[int(chance.integers(3))],
            "insertion": here + letters(size),
            "deletion": here[0],
            # its last letter differs from that of the reference
            "replacement": letters(size) + "ACGT".replace(here[-1], "", 1)[0],
        }
        yield name, place + 1, here, other[kind]
