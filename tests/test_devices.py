"""What runs on an accelerator that is not there, in a process that torch knows it in."""

import subprocess
import sys
from pathlib import Path

import pytest

from hf_mixers.models.neighbours import merge_parts

ROOT = Path(__file__).parents[1]


@pytest.mark.processes
def test_all_that_runs_on_the_device_passes():
    run = subprocess.run(
        [sys.executable, "-m", "tests.devices"], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert " passed" in run.stdout


def scores(parts, sizes):
    return sum((end - first) * sizes[first] ** 2 for first, end in parts)


def test_parts_are_merged_with_the_fewest_scores():
    sizes = [1000, 500, 480, 100, 90, 80, 3]
    parts = [(place, place + 1) for place in range(len(sizes))]
    assert merge_parts(parts, sizes, 1, 2) == [(0, 7)]
    assert merge_parts(parts, sizes, 2, 2) == [(0, 1), (1, 7)]
    assert merge_parts(parts, sizes, 3, 2) == [(0, 1), (1, 3), (3, 7)]
    assert merge_parts(parts, sizes, 7, 2) == parts
    costs = [scores(merge_parts(parts, sizes, most, 2), sizes) for most in range(1, 8)]
    assert costs == sorted(costs, reverse=True)
