"""Two processes share the parts of a run over variants and write what one process writes."""

import json

import pytest

from tests.inference.test_processes import launch
from tests.inference.test_run import run
from tests.inference.variants.made import WINDOW


@pytest.mark.processes
def test_two_processes_write_what_one_writes(masked_lm, vcf, genome, variants, tmp_path, quiet):
    words = ("score-variants", masked_lm, vcf, "-r", genome, "--window", WINDOW, "--passes", 2)
    words += ("--token-budget", 60, "--device", "cpu")
    run(*words, "-o", tmp_path / "one.vcf")
    done = launch(*words, "-o", tmp_path / "two.vcf")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count(f"{len(variants)} records are in") == 1
    assert (tmp_path / "two.vcf").read_bytes() == (tmp_path / "one.vcf").read_bytes()
    one, two = (
        json.loads((tmp_path / f"{name}.vcf.summary.json").read_text()) for name in ("one", "two")
    )
    for name in ("records", "alleles", "reasons", "tokens"):
        assert one[name] == two[name]
    assert (one["processes"], two["processes"]) == (1, 2)
    assert {path.name for path in tmp_path.glob("*two*")} == {"two.vcf", "two.vcf.summary.json"}
