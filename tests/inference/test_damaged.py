"""Damaged files of sequences: a sentence or a complete output, nothing between, nothing lost."""

import gzip
import json
import shutil

import numpy as np
import pytest

from hf_mixers.inference.loading import load_classifier, make_engine
from hf_mixers.inference.records import read_files
from hf_mixers.inference.run import run_to_file
from tests.inference.variants.test_damaged import damage

COLUMNS = ("id", "length", "note")


def make_rows(engine, part):
    """Rows without a forward pass, as only files matter here."""
    return [
        dict(zip(COLUMNS, (one.record.id, one.length, one.note), strict=True)) for one in part.items
    ]


@pytest.fixture
def engine(classifier, quiet, monkeypatch):
    # most of the time of a short run, which is not what is tested
    monkeypatch.setattr("hf_mixers.inference.run.run_environment", dict)
    monkeypatch.setattr("os.fsync", lambda number: None)
    return make_engine(classifier, None, load_classifier, {}, token_budget=50, look_ahead=1)


def check_run(engine, source, folder) -> bool:
    """Whether a file was read; otherwise it was refused with a sentence."""
    target = folder / "out.tsv"
    try:
        summary = run_to_file(engine, [str(source)], target, make_rows, COLUMNS, settings={})
    except ValueError as error:
        message = str(error)
        assert 10 < len(message) < 700
        assert not target.exists()
        shutil.rmtree(folder / "out.tsv.parts", ignore_errors=True)
        assert not list(folder.glob(".*"))
        return False
    rows = [line.split("\t") for line in target.read_text().split("\n")[1:-1]]
    assert summary.records == len(rows) == len(list(read_files([str(source)])))
    if source.suffix == ".fa":
        starts = source.read_bytes().replace(b"\r\n", b"\n").split(b"\n")
        assert summary.records == sum(
            line.removeprefix(b"\xef\xbb\xbf" if number == 0 else b"").startswith(b">")
            for number, line in enumerate(starts)
        )
    unread = sum(row[2] not in ("", "no known base") for row in rows)
    counted = sum(count for note, count in summary.notes.items() if note != "no known base")
    assert unread == counted
    assert json.loads((folder / "out.tsv.summary.json").read_text())["records"] == len(rows)
    target.unlink()
    return True


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", ["fa", "fq", "fa.gz"])
def test_damaged_files_give_a_sentence_or_a_whole_output(kind, count, engine, sequences, tmp_path):
    texts = sequences[:20]
    whole = "".join(f">{name} x\n{text}\n" for name, text in texts)
    if kind == "fq":
        whole = "".join(f"@{name} x\n{text}\n+\n{'I' * len(text)}\n" for name, text in texts)
    content = whole.encode()
    if kind == "fa.gz":
        content = gzip.compress(content, mtime=0)
    source = tmp_path / f"a.{kind}"
    outcomes = []
    for seed in range(count):
        source.write_bytes(damage(content, np.random.default_rng(seed)))
        outcomes.append(check_run(engine, source, tmp_path))
    assert not all(outcomes)
    # what is packed is refused as a whole, but for changes of its header
    assert any(outcomes) or kind == "fa.gz"
