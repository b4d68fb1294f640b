"""Shell blocks: commands of the package run with --smoke, others are checked to exist."""

import re
import shlex
import tomllib
from collections.abc import Callable

from transformers import HfArgumentParser
from typer.testing import CliRunner

from benchmarks.report import main as make_report
from benchmarks.speed.__main__ import make_parser
from benchmarks.trainings.catalogue import EXPERIMENTS
from hf_mixers.cli.main import app
from tests.docs.files import ROOT
from tests.examples.example_runs import load

# commands that train
TRAINING = {"finetune", "pretrain", "run"}
_ASSIGNMENT = re.compile(r"\w+=\S*")


def run_shell(code: str) -> list[list[str]]:
    """Run or check every command of a block; return their words."""
    lines = code.replace("\\\n", " ").splitlines()
    commands = [words for line in lines if (words := shlex.split(line, comments=True))]
    for words in commands:
        _run_command(words)
    return commands


def _run_command(words: list[str]) -> None:
    while words and _ASSIGNMENT.fullmatch(words[0]):
        words = words[1:]
    if words[0] not in _HANDLERS:
        raise ValueError(f"{words[0]!r} is not a command that a page may have: {list(_HANDLERS)}.")
    _HANDLERS[words[0]](words[1:])


def run_hf_mixers(words: list[str]) -> None:
    """Run a command of the package in this process."""
    if {*words[:2]} & TRAINING and not {"--smoke", "--help"} & {*words}:
        words = [*words, "--smoke"]
    result = CliRunner().invoke(app, words, input="y\n", catch_exceptions=False)
    assert result.exit_code == 0, result.output


def _run_python(words: list[str]) -> None:
    if words[0] != "-m":
        return check_example(words)
    module, arguments = words[1], words[2:]
    if module == "hf_mixers.cli.main":
        return run_hf_mixers(arguments)
    if module == "benchmarks.speed":
        make_parser().parse_args(arguments)
    elif module == "benchmarks.trainings":
        assert {*arguments} <= {"--list", *EXPERIMENTS}
    else:
        assert (module, arguments) == ("benchmarks.report", []), words
        assert callable(make_report)
    return None


class Parsed(Exception):
    """The options of an example have been accepted."""


def check_example(words: list[str]) -> None:
    """The options that a page gives to an example are accepted by it."""
    assert words[0].startswith("examples/"), words
    script = load(words[0].removeprefix("examples/").removesuffix(".py"))
    original = HfArgumentParser.parse_args_into_dataclasses

    def parse(self, *args, **kwargs):
        original(self, *args, **kwargs)
        raise Parsed

    HfArgumentParser.parse_args_into_dataclasses = parse
    try:
        script.main([*words[1:]])
    except Parsed:
        return
    finally:
        HfArgumentParser.parse_args_into_dataclasses = original
    raise AssertionError(f"{words[0]} parses no options.")


def _launch(words: list[str]) -> None:
    """What a launcher of several processes starts, in one."""
    starts = [n for n, word in enumerate(words) if word == "-m" or word.endswith(".py")]
    _run_python(words[starts[0] :])


def _check_target(words: list[str]) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
    assert {*words} <= {*targets}


def _check_install(words: list[str]) -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert words[0] == "install"
    for word in words[1:]:
        if found := re.fullmatch(r"\.\[(.*)\]", word):
            assert {*found[1].split(",")} <= {*known}
        else:
            assert word in (".", "-c", "constraints.txt", "-e"), word


_HANDLERS: dict[str, Callable[[list[str]], None]] = {
    "hf-mixers": run_hf_mixers,
    "python": _run_python,
    "torchrun": _launch,
    "accelerate": _launch,
    "make": _check_target,
    "pip": _check_install,
    "export": lambda words: None,
}
