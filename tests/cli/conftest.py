"""Commands run in this process as the console script runs them."""

import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hf_mixers.cli.main import main


@dataclass
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    error: str


@pytest.fixture
def kept_log() -> Iterator[None]:
    """The logger of the package is left as it was."""
    logger = logging.getLogger("hf_mixers")
    before = list(logger.handlers), logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.fixture
def run(monkeypatch, capsys, quiet, kept_log):
    """A function that runs `hf-mixers` with some words."""
    # what another test of this process may have set
    monkeypatch.delenv("HF_MIXERS_TRACEBACK", raising=False)

    def run_command(*words: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["hf-mixers", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return Ended(end.value.code or 0, printed.out, printed.err)

    return run_command
