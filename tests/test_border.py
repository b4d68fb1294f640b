"""The border: only the command line and the examples print, read arguments or exit."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

import hf_mixers

PACKAGE = Path(hf_mixers.__file__).parent
ROOT = PACKAGE.parent
BELOW = sorted(path for path in PACKAGE.rglob("*.py") if path.parent.name != "cli")
# what belongs to the command line
ENDING = ("SystemExit", "KeyboardInterrupt")
PARSERS = ("argparse", "click", "typer", "HfArgumentParser")
# parameters that hold arguments of the Trainer
ARGUMENTS = re.compile(r"^(args|arguments|training_arguments)$")


def name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def parse(text: str) -> ast.Module:
    return ast.parse(text)


def find_exits(tree: ast.Module) -> list[str]:
    """Lines that print, exit or parse arguments."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "sys.exit", "exit"):
            found.append(f"line {node.lineno}: {ast.unparse(node.func)}")
        elif isinstance(node, ast.Raise) and any(word in ast.unparse(node) for word in ENDING):
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = {getattr(node, "module", None), *(one.name for one in node.names)}
            found += [f"line {node.lineno}: {word}" for word in PARSERS if word in names]
    return found


def find_rewrites(tree: ast.Module) -> list[str]:
    """Lines where a function sets an attribute of Trainer arguments that it was given."""
    found = []
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        given = {
            one.arg
            for one in (*function.args.args, *function.args.kwonlyargs)
            if ARGUMENTS.match(one.arg)
            or (one.annotation and "Arguments" in ast.unparse(one.annotation))
        }
        for node in ast.walk(function):
            found += [f"line {node.lineno}: {what}" for what in rewritten(node, given)]
    return found


def rewritten(node: ast.AST, given: set[str]) -> list[str]:
    """Attributes of the arguments given, or of those of a trainer, that a statement sets."""
    targets = []
    if isinstance(node, ast.Assign):
        targets = [one for target in node.targets for one in ast.walk(target)]
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
        targets = [ast.Attribute(node.args[0], "?", ast.Store())]
    return [
        ast.unparse(one)
        for one in targets
        if isinstance(one, ast.Attribute)
        and isinstance(one.ctx, ast.Store)
        and (ast.unparse(one.value) in given or ast.unparse(one.value).endswith(".args"))
    ]


@pytest.mark.parametrize("path", BELOW, ids=name)
def test_the_library_neither_prints_nor_exits_nor_reads_arguments(path):
    assert not find_exits(parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", BELOW, ids=name)
def test_arguments_of_the_trainer_stay_as_they_were_given(path):
    assert not find_rewrites(parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "text",
    [
        "print(3)",
        "raise SystemExit('no')",
        "import sys\nsys.exit(1)",
        "from transformers import HfArgumentParser",
        "import typer",
    ],
)
def test_what_crosses_the_border_is_found(text):
    assert find_exits(parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "def f(arguments):\n    arguments.seed = 3",
        "def f(x: RunArguments):\n    x.seed += 3",
        "def f(args):\n    setattr(args, 'seed', 3)",
        "def f(trainer):\n    trainer.args.seed = 3",
        "def f(self):\n    a, self.args.seed = 1, 3",
    ],
)
def test_a_rewrite_is_found(text):
    assert find_rewrites(parse(text))


def test_reading_arguments_is_no_rewrite():
    text = "def f(args, self):\n    seed = args.seed\n    self.args = args\n    args.seed == 3"
    assert not find_rewrites(parse(text))


# --- the project speaks of itself alone ---

# in two pieces, so that this file does not hold them
WORDS = ("../sha" + "red", "/wo" + "rk/", "/ro" + "ot/", "the le" + "ad's")
TEXTS = (".py", ".md", ".toml", ".yml", ".yaml", ".txt", ".cff", ".json", ".csv", "Makefile")


def tracked_files() -> list[Path]:
    """Files of the repository, or all that are there where git is not."""
    try:
        done = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return [path for path in PACKAGE.rglob("*") if path.is_file()]
    return [ROOT / one for one in done.stdout.split("\0") if one and (ROOT / one).is_file()]


def test_no_file_speaks_of_places_outside_the_project():
    found = []
    files = [path for path in tracked_files() if path.name.endswith(TEXTS)]
    assert len(files) > 100
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{path.relative_to(ROOT)}: {word}" for word in WORDS if word in text]
    assert not found
