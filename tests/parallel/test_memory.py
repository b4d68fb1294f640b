"""Memory of a training step: what the formula says, and half of it for each of two processes."""

import re
from functools import cache
from pathlib import Path

import pytest

from benchmarks.speed.commands.parallel import build_measured, make_config
from benchmarks.speed.isolated import Isolated, Limits
from hf_mixers import ChordMixerConfig

pytestmark = pytest.mark.processes

PAGE = Path(__file__).parents[2] / "docs/guides/gpus_and_clusters.md"
# two halves are still too long for the way of short batches, which keeps more
LENGTH = 70_001
SETTINGS = {
    "default": ("chordmixer", {"track_size": 4, "intermediate_size": 24, "num_hidden_layers": 9}),
    "wide": ("chordmixer", {"track_size": 4, "intermediate_size": 128, "num_hidden_layers": 3}),
    "reversible": (
        "reversible",
        {"track_size": 4, "intermediate_size": 24, "num_hidden_layers": 3},
    ),
    "narrow": (
        "reversible",
        {"track_size": 2, "intermediate_size": 32, "num_hidden_layers": 3},
    ),
}


@cache
def measure(name, processes):
    """MiB by which the resident memory of a process rises in a training step, at the most.

    Processes are new, so it does not matter what this one has done before.
    """
    network, settings = SETTINGS[name]
    where = {"network": network, "length": LENGTH, "processes": processes, "seed": 0}
    runner = Isolated(build_measured, {**where, "settings": settings}, Limits(300, 8), threads=1)
    try:
        runner.facts()
        return runner.run()["process_peak_mib"]
    finally:
        runner.close()


def read_formula():
    """The function that the page shows."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    (code,) = [block for block in blocks if "def training_bytes" in block]
    names = {"ChordMixerConfig": ChordMixerConfig}
    exec(code, names)
    return names["training_bytes"]


@pytest.mark.parametrize("name", SETTINGS)
def test_the_formula_of_the_page_holds(name):
    network, settings = SETTINGS[name]
    expected = read_formula()(make_config(network, LENGTH, **settings), LENGTH)
    assert measure(name, 1) == pytest.approx(expected / 2**20, rel=0.15)


@pytest.mark.parametrize("name", SETTINGS)
def test_two_processes_need_half_the_memory_each(name):
    assert measure(name, 2) < 1.2 * measure(name, 1) / 2
