"""Kernels are used where they can run, and tested where triton interprets them."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.families import find_row, random_ids

ROOT = Path(__file__).parents[2]


@pytest.mark.processes
@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_kernels_equal_the_other_paths_in_the_interpreter(pytestconfig):
    which = pytestconfig.getoption("markexpr") or ""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    # all lengths where nothing is left out
    command += ["-m", "not slow" if "not" in which else ""]
    run = subprocess.run(
        [*command, str(Path(__file__).with_name("in_interpreter.py"))],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]


@pytest.mark.parametrize("family", ["chordmixer", "paramixer"])
def test_the_setting_changes_nothing_elsewhere(family):
    ids = random_ids(1, 20)
    plain, other = (find_row(family).build(use_triton=use)(ids) for use in (False, True))
    assert plain.last_hidden_state.equal(other.last_hidden_state)


def test_the_layout_is_that_of_a_kernel_of_the_hub(tmp_path):
    # without the link, as it is published
    folder = shutil.copytree(ROOT / "kernels", tmp_path / "kernels", symlinks=False)
    settings = tomllib.loads((folder / "build.toml").read_text())
    general = settings["general"]
    assert re.fullmatch("[a-z][a-z0-9-]*[a-z0-9]", general["name"])
    assert general["backends"] == ["cuda"]
    assert "torch-noarch" in settings
    assert "genKernelFlakeOutputs" in (folder / "flake.nix").read_text()
    package = folder / "torch-ext" / general["name"].replace("-", "_")
    assert not package.is_symlink()
    text = "".join(path.read_text() for path in package.glob("*.py"))
    # only the standard library, torch, triton and itself
    assert {*re.findall(r"^(?:from|import) (\w+|\.)", text, re.M)} == {"torch", "triton", "."}
