"""Real tokens per second in training on the embedded genes, without padding and with it.

The same batches of genes, drawn by a budget of tokens: ours on them laid end to end (`flat`), the
plain twin padded to the longest gene of all (`padded`), which computes on the padding, and to the
longest gene of the batch, and ours on the padded batches, for which padding is absent. Time is that
of whole steps: collating, forward, backward, optimiser. A repeat is four steps.
"""

import tempfile
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from datasets import Dataset
from torch import nn
from torch.nn import functional

from hf_mixers import DnaTokenizer
from hf_mixers.data import FlatCollator, PaddedCollator, load_embedded, tokenize_sequences
from hf_mixers.training import MixerTrainer, MixerTrainingArguments

from ..contenders import build_network, count_parameters
from ..interleaved import Case, Group
from ..isolated import Built
from ..options import Options
from ..steps import make_step, warm_up

BUDGET = 8192
STEPS = 4
# network and layout of the batches
CONTENDERS = (
    ("chordmixer", "flat"),
    ("chordmixer", "padded"),
    ("plain", "padded to the batch"),
    ("plain", "padded"),
)


def make_groups(options: Options) -> list[Group]:
    budget, genes, steps = BUDGET, None, STEPS
    if options.smoke:
        budget, genes, steps = 1024, 64, 1
    cases = [
        Case(
            {"network": name, "layout": layout, "token_budget": budget},
            build,
            {
                "name": name,
                "layout": layout,
                "budget": budget,
                "genes": genes,
                "steps": steps,
                "seed": options.seed,
            },
        )
        for name, layout in CONTENDERS
    ]
    return [Group(cases)]


def build(name: str, layout: str, budget: int, genes: int | None, steps: int, seed: int) -> Built:
    """`steps` training steps on the next batches of genes."""
    data = load_embedded()
    if genes is not None:
        data = data.select(range(genes))
    data = tokenize_sequences(data, DnaTokenizer())
    lengths = data.with_format("numpy")["length"]
    longest = int(max(lengths))
    settings = {"max_position_embeddings": longest, "track_size": 16, "intermediate_size": 128}
    warm_up(name, "training", settings)
    torch.manual_seed(seed)
    model = build_network(name, longest, settings)
    batches = _iterate(model, data, Padded(layout, longest), budget, seed)
    step = make_step(model, "training")

    def run() -> dict[str, float]:
        tokens = positions = 0
        for batch in islice(batches, steps):
            tokens += batch.pop("tokens")
            positions += batch["input_ids"].numel()
            if name == "plain":
                # it knows no padding and computes on it
                batch.pop("attention_mask")
            step(batch)
        return {"tokens": tokens, "positions": positions}

    return Built(run, {"parameters": count_parameters(model), "longest": longest})


class Padded:
    """Batches in one of the layouts, with the number of their real tokens."""

    def __init__(self, layout: str, longest: int):
        self.layout, self.longest = layout, longest
        self.collator = FlatCollator() if layout == "flat" else PaddedCollator()

    def __call__(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        batch = self.collator(examples)
        if self.layout == "padded":
            missing = self.longest - batch["input_ids"].shape[1]
            for name in ("input_ids", "attention_mask"):
                batch[name] = functional.pad(batch[name], (0, missing))
        batch["tokens"] = sum(len(example["input_ids"]) for example in examples)
        return batch


def _iterate(
    model: nn.Module, data: Dataset, collator: Padded, budget: int, seed: int
) -> Iterator[dict[str, Any]]:
    """The batches of the trainer, epoch after epoch."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = MixerTrainingArguments(
            folder, train_token_budget=budget, seed=seed, report_to="none", use_cpu=True
        )
    trainer = MixerTrainer(model, arguments, train_dataset=data, data_collator=collator)
    loader = trainer.get_train_dataloader()
    while True:
        yield from loader
