"""Cost of a training step: what the formulas say, and half the memory for each of two processes."""

import re
from functools import cache
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.speed.commands.parallel import build_measured, make_batch, make_config
from benchmarks.speed.isolated import Isolated, Limits
from hf_mixers import ChordMixerConfig, ChordMixerForMaskedLM

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


def read_formulas():
    """The functions that the page shows."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    (code,) = [block for block in blocks if "def training_bytes" in block]
    names = {"ChordMixerConfig": ChordMixerConfig}
    exec(code, names)
    return names


@pytest.mark.parametrize("name", SETTINGS)
def test_the_formula_of_the_page_holds(name):
    network, settings = SETTINGS[name]
    formula = read_formulas()["training_bytes"]
    expected = formula(make_config(network, LENGTH, **settings), LENGTH)
    assert measure(name, 1) == pytest.approx(expected / 2**20, rel=0.15)


@pytest.mark.parametrize("name", SETTINGS)
def test_two_processes_need_half_the_memory_each(name):
    assert measure(name, 2) < 1.2 * measure(name, 1) / 2


@pytest.mark.parametrize("length", [1000, 33_001])
@pytest.mark.parametrize("name", SETTINGS)
def test_products_take_the_operations_of_the_page(name, length):
    network, settings = SETTINGS[name]
    config = make_config(network, length, **settings)
    model, batch = ChordMixerForMaskedLM(config).train(), make_batch(length)
    # torch does not count products that are added in place
    in_place = {torch.ops.aten.addmm_: lambda out, a, b, **_: 2 * a[0] * a[1] * b[1]}
    with FlopCounterMode(display=False, custom_mapping=in_place) as counter:
        model(**batch).loss.backward()
    expected = read_formulas()["training_operations"](config, length)
    # the head is not in the formula
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.05)
