"""A run that is killed at any change of a file ends the same when it is started again."""

import json
import os
import shutil
from pathlib import Path

import pytest

from hf_mixers.inference import engine
from hf_mixers.inference.variants import Reference
from tests.inference.test_run import run
from tests.inference.variants.made import make_reference, make_variants, write_reference, write_vcf


class Killed(BaseException):
    """What no handler of an error catches."""


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch, quiet):
    monkeypatch.setattr(engine, "LOOK_AHEAD", 2)
    monkeypatch.setattr("os.fsync", lambda number: None)
    monkeypatch.setattr("hf_mixers.inference.run.run_environment", dict)
    monkeypatch.setattr("hf_mixers.inference.variants.run.run_environment", dict)


@pytest.fixture
def kill(monkeypatch):
    """Raises before a change of a file, the n-th of a run, and counts the changes."""
    state = {"count": 0, "at": 0}

    def interrupt(owner, name):
        change = getattr(owner, name)

        def changed(*words, **options):
            state["count"] += 1
            if state["count"] == state["at"]:
                raise Killed
            return change(*words, **options)

        monkeypatch.setattr(owner, name, changed)

    for owner, name in ((os, "replace"), (Path, "unlink"), (Path, "mkdir"), (shutil, "rmtree")):
        interrupt(owner, name)
    return state


def read_files(folder):
    """Bytes of all files, of a summary what does not tell the time."""
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name in found:
        if name.endswith("summary.json"):
            content = json.loads(found[name])
            for key in ("seconds", "tokens_per_second", "records_of_earlier_runs"):
                content.pop(key, None)
            found[name] = content
    return found


def draw(path):
    path.write_bytes(b"a picture")
    return path


def check_kills(words, folder, name, kill):
    """Kill a run at every change of a file, and start it again."""

    def start(at):
        kill["count"], kill["at"] = 0, at
        return run(*words, "-o", folder / name)

    folder.mkdir()
    start(0)
    expected, total = read_files(folder), kill["count"]
    assert total > 10
    # some while parts are written, and all while they are joined and removed
    for at in [*range(1, total - 7, 6), *range(total - 7, total + 1)]:
        kill["at"] = 0
        shutil.rmtree(folder)
        folder.mkdir()
        with pytest.raises(Killed):
            start(at)
        is_complete = (folder / f"{name}.summary.json").exists()
        try:
            start(0)
        except ValueError as error:
            # only where everything was there
            assert is_complete and "is there already" in str(error)  # noqa: PT018, PT017
        assert read_files(folder) == expected, f"killed at change {at} of {total}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.tsv", "a.npy"])
def test_sequences(name, classifier, sequences, tmp_path, kill):
    source = tmp_path / "few.fa"
    source.write_text("".join(f">{one}\n{text}\n" for one, text in sequences[:12]))
    command = "predict" if name == "a.tsv" else "embed"
    words = (command, classifier, source, "--token-budget", 300)
    check_kills(words, tmp_path / "out", name, kill)


@pytest.mark.slow
def test_tracks(classifier, sequences, tmp_path, kill, monkeypatch):
    # pictures take most of the time of such a run
    monkeypatch.setattr("hf_mixers.inference.tracks.draw_tracks", lambda _, path, __: draw(path))
    source = tmp_path / "few.fa"
    source.write_text("".join(f">{one}\n{text}\n" for one, text in sequences[:5]))
    words = ("predict", classifier, source, "--attribute", "gradient_x_input")
    check_kills((*words, "--token-budget", 100), tmp_path / "out", "a.tsv", kill)


@pytest.mark.slow
def test_variants(masked_lm, tmp_path, kill):
    reference = make_reference()
    genome = write_reference(tmp_path / "genome.fa", reference)
    # its index is written by the first that reads it
    Reference(genome)
    chosen = sorted(make_variants(reference, 6))
    source = write_vcf(tmp_path / "a.vcf", chosen)
    words = ("score-variants", masked_lm, source, "-r", genome, "--window", 24, "--passes", 2)
    check_kills((*words, "--token-budget", 400), tmp_path / "out", "a.vcf.gz", kill)


def test_parts_without_their_settings_are_not_used(classifier, fasta, tmp_path):
    run("predict", classifier, fasta, "-o", tmp_path / "whole.tsv")
    # what is left of a folder that was being removed
    folder = tmp_path / "a.tsv.parts"
    folder.mkdir()
    (folder / "part-000000-1.done").write_text("of\tanother\trun\n")
    (folder / "part-000000.counts.json").write_text("{}")
    run("predict", classifier, fasta, "-o", tmp_path / "a.tsv")
    assert (tmp_path / "a.tsv").read_bytes() == (tmp_path / "whole.tsv").read_bytes()


def test_parts_of_a_run_that_was_not_strict_are_refused(classifier, tmp_path, kill):
    source = tmp_path / "a.fa"
    source.write_text(">a\nACGT\n>b\nAC*T\n")
    words = ("predict", classifier, source, "-o", tmp_path / "a.tsv", "--token-budget", 1)
    run(*words)
    kill["count"], kill["at"] = 0, 8
    with pytest.raises(Killed):
        run(*words, "--overwrite")
    (tmp_path / "a.tsv").unlink()
    with pytest.raises(ValueError, match="parts of a run with other settings"):
        run(*words, "--strict")
