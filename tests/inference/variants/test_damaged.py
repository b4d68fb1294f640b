"""Damaged files: a sentence or a complete output, nothing in between and nothing lost."""

import json
import shutil
from pathlib import Path

import cyvcf2
import numpy as np
import pytest
from transformers import AutoModelForMaskedLM

from hf_mixers import DnaTokenizer
from hf_mixers.inference.variants.records import read_vcf
from hf_mixers.inference.variants.run import score_to_file
from hf_mixers.inference.variants.score import make_scorer
from tests.inference.variants.made import HEADER, WINDOW, bad_lines
from tests.inference.variants.test_files import strip_keys

HTSLIB = Path("/usr/share/htslib-test/test")


class OnlyWindows:
    """Gives windows numbers without a forward pass, as only files matter here."""

    def __init__(self, scorer):
        self.scorer = scorer

    def __getattr__(self, name):
        return getattr(self.scorer, name)

    def score(self, targets):
        return [None if one.window is None else {"llr": 0.5} for one in targets]


@pytest.fixture
def scorer(masked_lm, quiet, monkeypatch):
    # most of the time of a short run, which is not what is tested
    monkeypatch.setattr("hf_mixers.inference.variants.run.run_environment", dict)
    monkeypatch.setattr("os.fsync", lambda number: None)
    model = AutoModelForMaskedLM.from_pretrained(masked_lm)
    made = make_scorer(model, DnaTokenizer(), {}, token_budget=400, window=WINDOW, passes=2)
    return OnlyWindows(made)


def damage(content: bytes, chance: np.random.Generator) -> bytes:
    """Some bytes or lines of a file changed, removed, doubled or exchanged."""
    for _ in range(int(chance.integers(1, 4))):
        kind = chance.integers(8)
        lines = content.splitlines(keepends=True) or [b""]
        row, other = chance.integers(len(lines), size=2)
        place = int(chance.integers(len(content) + 1))
        size = int(chance.integers(1, 30))
        if kind == 0:
            content = content[:place] + bytes([chance.integers(256)]) + content[place + 1 :]
        elif kind == 1:
            content = content[:place]
        elif kind == 2:
            content = content[:place] + content[place + size :]
        elif kind == 3:
            content = content[:place] + content[place : place + size] * 2 + content[place + size :]
        elif kind == 4:
            lines[row], lines[other] = lines[other], lines[row]
            content = b"".join(lines)
        elif kind == 5:
            content = b"".join(lines[:row] + lines[row + 1 :])
        elif kind == 6:
            signs = (b"\t", b"\t", b"\n", b"\r", b"\0", b";", b",", b">", b"\xff", b"-1", b"<")
            content = content[:place] + signs[chance.integers(len(signs))] + content[place:]
        else:
            fields = lines[row].split(b"\t")
            fields[chance.integers(len(fields))] = b""
            lines[row] = b"\t".join(fields)
            content = b"".join(lines)
    return content


def check_run(scorer, source, genome, folder) -> bool:
    """Whether files were scored; otherwise they were refused with a sentence."""
    target = folder / "out.vcf"
    given = source.read_bytes()
    try:
        summary = score_to_file(scorer, str(source), str(genome), target, settings={})
    except ValueError as error:
        message = str(error)
        assert 10 < len(message) < 500
        assert not target.exists()
        shutil.rmtree(folder / "out.vcf.parts", ignore_errors=True)
        assert not list(folder.glob(".*"))
        return False
    assert strip_keys(target.read_bytes()) == given
    header = len(read_vcf(str(source)).header)
    assert summary.records == len(given.split(b"\n")) - header - given.endswith(b"\n")
    assert sum(summary.alleles.values()) + sum(summary.reasons.values()) >= summary.records
    assert json.loads((folder / "out.vcf.summary.json").read_text())["records"] == summary.records
    target.unlink()
    return True


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_damaged_files_give_a_sentence_or_a_whole_output(
    count, scorer, vcf, genome, reference, tmp_path
):
    lines = [*HEADER.splitlines(), *Path(vcf).read_text().splitlines()[8:20]]
    lines += [line for line, _ in bad_lines(reference)]
    variants = ("\n".join(lines) + "\n").encode()
    letters = Path(genome).read_bytes()
    outcomes = {"vcf": [], "fasta": []}
    for seed in range(count):
        chance = np.random.default_rng(seed)
        source, fasta = tmp_path / "a.vcf", tmp_path / f"{seed}.fa"
        if seed % 2:
            source.write_bytes(damage(variants, chance))
            outcomes["vcf"].append(check_run(scorer, source, genome, tmp_path))
        else:
            source.write_bytes(variants)
            fasta.write_bytes(damage(letters, chance))
            outcomes["fasta"].append(check_run(scorer, source, fasta, tmp_path))
            fasta.unlink()
            fasta.with_name(f"{fasta.name}.fai").unlink(missing_ok=True)
    for found in outcomes.values():
        assert any(found)
        assert not all(found)


@pytest.mark.skipif(not HTSLIB.is_dir(), reason="htslib-test of Debian is not installed")
def test_files_of_htslib_survive(scorer, genome, tmp_path):
    outcomes = []
    for path in sorted(HTSLIB.rglob("*.vcf")):
        source = tmp_path / "a.vcf"
        shutil.copy(path, source)
        outcomes.append(check_run(scorer, source, genome, tmp_path))
        if outcomes[-1] and (expected := read_with_htslib(source)) is not None:
            score_to_file(scorer, str(source), genome, tmp_path / "again.vcf", settings={})
            assert read_with_htslib(tmp_path / "again.vcf") == expected
            (tmp_path / "again.vcf").unlink()
    assert sum(outcomes) > 10


def read_with_htslib(path):
    """Places of all records, or None if htslib cannot read them."""
    try:
        return [(one.CHROM, one.POS, one.REF, one.ALT) for one in cyvcf2.VCF(str(path))]
    except Exception:
        return None
