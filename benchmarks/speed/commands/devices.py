"""Operations and waits of a training step, counted on an accelerator that is not there.

Ten sequences, 16,300 tokens together, through a classifier of each family in its default settings
for that length. What is counted does not depend on the machine: operations that launch a kernel,
those of one block (ChordMixer, MrsFormer, Combiner) or factor (Paramixer) among them, and how often
the host waits for the device: with all checks, and without checks for boundaries on the host.
"""

from typing import Any

import torch
from transformers import AutoModelForSequenceClassification

from hf_mixers import FAMILIES
from tests.accelerator import Watch, put, register

from ..interleaved import Group, compare_networks
from ..isolated import Built
from ..options import Options

LENGTHS = (4000, 3000, 2500, 2000, 1500, 1300, 1000, 600, 300, 100)
# settings besides the length, and what there are several of
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "chordmixer": ("num_hidden_layers", {"track_size": 4}),
    "paramixer": ("num_factors", {"num_links": 13}),
    "mrsformer": ("num_hidden_layers", {"head_scales": [1, 2, 4, 8]}),
    "combiner": ("num_hidden_layers", {}),
}


def make_groups(options: Options) -> list[Group]:
    shrink = 20 if options.smoke else 1
    return [compare_networks(tuple(NETWORKS), build, options.seed, length=max(LENGTHS) // shrink)]


def build(name: str, length: int, seed: int) -> Built:
    """A step, with what is counted in it."""
    register()
    lengths = [n * length // max(LENGTHS) for n in LENGTHS]
    part, settings = NETWORKS[name]

    def count(number: int, check_inputs: bool = True) -> Watch:
        torch.manual_seed(seed)
        family = FAMILIES[name]
        config = family.config(
            max_position_embeddings=length, check_inputs=check_inputs, **{part: number}, **settings
        )
        model = put(family.model_class(AutoModelForSequenceClassification)(config).train())
        boundaries = torch.tensor([0, *lengths]).cumsum(0)
        inputs = put(
            {
                "input_ids": torch.randint(5, 9, (1, sum(lengths))),
                "labels": torch.arange(len(lengths)) % 2,
            }
        )
        # as the trainer leaves them
        inputs["cu_seq_lens_q"] = boundaries
        with Watch() as watch:
            model(**inputs).loss.backward()
        return watch

    few, many, unchecked = count(2), count(4), count(2, check_inputs=False)
    facts = {
        "tokens": sum(lengths),
        "part": part,
        "operations": many.num_operations,
        "operations_per_part": (many.num_operations - few.num_operations) / 2,
        "waits": many.num_waits,
        "waits_without_checks": unchecked.num_waits,
    }

    def step() -> None:
        count(2)

    return Built(step, facts)
