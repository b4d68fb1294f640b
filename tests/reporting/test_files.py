"""Files that end a run are whole: an interruption leaves the old file, or none."""

import json
import os
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from hf_mixers.reporting import run_folder
from hf_mixers.reporting.atomic import write_atomically
from hf_mixers.reporting.files import write_json, write_table
from hf_mixers.reporting.plots import plot_history

HISTORY = [{"step": step, "loss": 1 / step} for step in range(1, 4)]


class Unwritable:
    """Something that ends a file in its middle."""

    def __str__(self):
        raise OSError("No space left on device")


def write_broken_card(path):
    class Broken(ModelCard):
        def save(self, filepath):
            filepath.write_text("half")
            raise OSError("No space left on device")

    with write_atomically(path) as draft:
        Broken("# A card").save(draft)


CASES = {
    "metrics.json": (
        lambda path: write_json(path, {"a": 1}),
        lambda path: write_json(path, {"a": Unwritable()}),
    ),
    "predictions.csv": (
        lambda path: write_table(path, {"a": [1, 2]}),
        lambda path: write_table(path, {"a": [1, Unwritable()]}),
    ),
    "README.md": (lambda path: ModelCard("# A card").save(path), write_broken_card),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_there", [True, False])
def test_a_write_that_fails_leaves_what_was_there(name, is_there, tmp_path):
    write, fail = CASES[name]
    path = tmp_path / name
    if is_there:
        write(path)
    before = path.read_bytes() if is_there else None
    with pytest.raises(OSError, match="No space left"):
        fail(path)
    assert list(tmp_path.iterdir()) == [path] * is_there
    if is_there:
        assert path.read_bytes() == before


def test_pictures_are_written_whole(tmp_path, monkeypatch):
    path = tmp_path / "history.png"
    plot_history(HISTORY, path)
    before = path.read_bytes()
    assert before.startswith(b"\x89PNG")

    def fail(self, file, **options):
        file.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    with pytest.raises(OSError, match="No space left"):
        plot_history(HISTORY, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["history.png"]


def test_what_is_written_takes_the_place_of_the_old_file_at_once(tmp_path, monkeypatch):
    path = tmp_path / "metrics.json"
    write_json(path, {"a": 1})
    seen = []
    replace = os.replace

    def watch(source, target):
        seen.append((json.loads(path.read_text()), json.loads(source.read_text())))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watch)
    write_json(path, {"a": 2})
    assert seen == [({"a": 1}, {"a": 2})]
    assert json.loads(path.read_text()) == {"a": 2}


def test_the_card_of_a_run_is_written_whole(tmp_path, monkeypatch):
    class Arguments:
        output_dir = str(tmp_path)

    class Runner:
        args, model = Arguments(), None

    def fail(self, text, **options):
        self.write_bytes(text.encode()[: len(text) // 2])
        raise OSError("No space left on device")

    (tmp_path / "README.md").write_text("# The card before")
    monkeypatch.setattr(run_folder, "make_card", lambda *_, **__: "# A card")
    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(OSError, match="No space left"):
        run_folder._write_card(Runner(), {"model": {}})
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "# The card before"
