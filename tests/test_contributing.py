"""CONTRIBUTING says that a command, a task or a head is one file and one registration: it is."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hf_mixers

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
_BLOCK = re.compile(r"^### A (?P<title>\w+)$.*?^```diff\n(?P<diff>.*?)^```$", re.M | re.S)
DIFFS = {found["title"]: found["diff"] for found in _BLOCK.finditer(PAGE.read_text("utf-8"))}


def split_files(diff: str) -> Iterator[tuple[str, list[str]]]:
    """The path of each file of a diff and its lines, without the two that name it."""
    for part in re.split(r"^--- .*\n", diff, flags=re.M)[1:]:
        head, *lines = part.splitlines()
        yield head.removeprefix("+++ b/"), lines


def apply(diff: str, root: Path) -> None:
    """Change the files of a folder as a diff without line numbers says.

    The lines of a change that are kept or removed must be found in the file, once.
    """
    for name, lines in split_files(diff):
        path = root / name
        if all(line.startswith("+") for line in lines):
            path.write_text("".join(f"{line[1:]}\n" for line in lines), encoding="utf-8")
            continue
        text = path.read_text(encoding="utf-8")
        for old, new in find_hunks(lines):
            assert text.count(old) == 1, f"{name} has {text.count(old)} times:\n{old}"
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")


def find_hunks(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Text before and after of every change, which begins with `@@`."""
    for hunk in "\n".join(lines).split("@@\n")[1:]:
        parts = [line for line in hunk.splitlines() if line]
        old, new = ([line[1:] for line in parts if line[0] != sign] for sign in "+-")
        yield "\n".join(old), "\n".join(new)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Python in a process of its own that sees a copy of the package with all diffs applied."""
    root = tmp_path_factory.mktemp("with_toys")
    source = Path(hf_mixers.__file__).parent
    shutil.copytree(source, root / "hf_mixers", ignore=shutil.ignore_patterns("__pycache__"))
    for diff in DIFFS.values():
        apply(diff, root)

    def run_python(*arguments: str) -> str:
        result = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            cwd=root,
            env=os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
            timeout=300,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run_python


def test_each_thing_has_a_diff_of_one_new_file_and_one_changed():
    assert list(DIFFS) == ["command", "task", "head"]
    for diff in DIFFS.values():
        assert diff.count("--- /dev/null") == 1
        assert diff.count("--- a/") == 1


@pytest.mark.slow
@pytest.mark.processes
def test_the_command_of_the_page_runs(run):
    genes = str(ROOT / "examples/genes.fa")
    records = Path(genes).read_text(encoding="utf-8").count(">")
    assert run("-m", "hf_mixers.cli.main", "count", genes).strip() == f"{records} sequences"


TASK = """
from hf_mixers.tasks import load_arena_task
task = load_arena_task("parity", length=8, num_train=4, num_test=2)
row = task.parts["train"][0]
print(int(row["input_ids"].sum()) % 2 == row["labels"], len(task.parts["test"]))
"""


@pytest.mark.slow
@pytest.mark.processes
def test_the_task_of_the_page_loads(run):
    assert run("-c", TASK).split() == ["True", "2"]


HEAD = """
import sys, torch, hf_mixers
from transformers import AutoModelForTextEncoding
config = hf_mixers.ChordMixerConfig(track_size=4)
model = AutoModelForTextEncoding.from_config(config).eval()
ids = torch.tensor([[5, 6, 7], [8, 0, 0]])
vectors = model(ids, attention_mask=ids != 0).embeds
alone = model(ids[1:, :1]).embeds
hf_mixers.save_with_code(sys.argv[1], model)
loaded = AutoModelForTextEncoding.from_pretrained(sys.argv[1]).eval()
again = loaded(ids, attention_mask=ids != 0).embeds
print(torch.allclose(vectors.norm(dim=1), torch.ones(2)))
print(torch.allclose(alone, vectors[1:], atol=1e-5))
print(torch.equal(again, vectors), type(loaded).__name__)
"""


@pytest.mark.slow
@pytest.mark.processes
def test_the_head_of_the_page_loads_by_its_auto_class(run, tmp_path):
    answer = run("-c", HEAD, str(tmp_path)).split()
    assert answer == ["True", "True", "True", "ChordMixerTextEncoder"]
    assert (tmp_path / "heads_encoder.py").is_file()
