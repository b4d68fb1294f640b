"""Memory of a training step: what the formula says, and half of it for each of two processes."""

import re
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from benchmarks.speed.rss import give_back, measure_peak
from hf_mixers import ChordMixerConfig, ChordMixerForMaskedLM
from hf_mixers.models.sharing import shared_over
from tests.parallel.ranks import run_ranks

# resident memory of a forked process also tells what its parent did before
pytestmark = [pytest.mark.exhaustive, pytest.mark.slow, pytest.mark.processes, pytest.mark.timing]

PAGE = Path(__file__).parents[2] / "docs/guides/gpus_and_clusters.md"
LENGTH = 200_001
SETTINGS = {
    "default": {"track_size": 4, "intermediate_size": 32},
    "wide": {"track_size": 4, "intermediate_size": 128},
    "reversible": {"track_size": 4, "intermediate_size": 32, "reversible": True},
}


def make_config(name, length=LENGTH, **changes):
    return ChordMixerConfig(max_position_embeddings=length, **{**SETTINGS[name], **changes})


def measure(rank, config, size):
    """Bytes that resident memory rises by in a training step."""
    model = ChordMixerForMaskedLM(config).train()
    ids = torch.randint(5, 9, (1, config.max_position_embeddings))
    labels = torch.where(torch.rand(ids.shape) < 0.15, ids, -100)

    def step():
        with shared_over(dist.group.WORLD if size > 1 else None):
            model(input_ids=ids, labels=labels).loss.backward()

    give_back()
    return measure_peak(step)[1]


def read_formula():
    """The function that the page shows."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    (code,) = [block for block in blocks if "def training_bytes" in block]
    names = {"ChordMixerConfig": ChordMixerConfig}
    exec(code, names)
    return names["training_bytes"]


@pytest.mark.parametrize("name", SETTINGS)
def test_the_formula_of_the_page_holds(name):
    config = make_config(name)
    (peak,) = run_ranks(measure, 1, config, 1)
    expected = read_formula()(config, LENGTH, name == "reversible")
    assert peak == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize(("name", "excess"), [("default", 1.2), ("reversible", 1.3)])
def test_two_processes_need_about_half_the_memory_each(name, excess):
    # what is read where takes 8 bytes per token and track, whatever the size of a track
    config = make_config(name, 70_001, track_size=16)
    (alone,) = run_ranks(measure, 1, config, 1)
    assert max(run_ranks(measure, 2, config, 2)) < excess * alone / 2
