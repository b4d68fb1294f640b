"""Every command explains itself on one screen, and ends in one sentence when it cannot work."""

import importlib
import subprocess
import sys

import pytest

from hf_mixers import __version__
from hf_mixers.cli import main as cli
from hf_mixers.cli import process

LINES, COLUMNS = 40, 80


@pytest.mark.parametrize("command", [None, *cli.COMMANDS])
def test_help_fits_a_screen(command, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    done = run(*([command] if command else []), "--help")
    assert done.code == 0
    lines = done.out.splitlines()
    assert 3 < len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
    assert "Usage: hf-mixers" in lines[0]
    if command is None:
        assert all(f"\n  {name} " in done.out for name in cli.COMMANDS)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_option_has_a_help(command):
    from typer.main import get_command

    parameters = get_command(cli.app).commands[command].params
    assert all(one.help for one in parameters if one.name != "help")
    assert len(parameters) <= 20


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_a_command_is_a_file_of_its_name(command):
    module = importlib.import_module(f"hf_mixers.cli.{command.replace('-', '_')}")
    assert cli.load_command(command) is module
    assert module.__doc__ == f"`hf-mixers {command}`"


@pytest.mark.parametrize(
    "command", [name for name in cli.COMMANDS if name not in ("finetune", "pretrain")]
)
def test_a_command_without_words_shows_its_help(command, run):
    done = run(command)
    assert "Usage: hf-mixers" in done.out + done.error
    assert "--help" in done.out + done.error


def test_the_version_is_shown(run):
    done = run("--version")
    assert (done.code, done.out) == (0, f"hf-mixers {__version__}\n")


@pytest.mark.processes
def test_the_module_is_the_console_script():
    done = subprocess.run(
        [sys.executable, "-m", "hf_mixers.cli.main", "--version"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (0, f"hf-mixers {__version__}\n"), done.stderr


@pytest.mark.parametrize("words", [["fintune"], ["info", "--jso", "x"], ["convert", "x"]])
def test_words_that_no_command_has_end_with_2(words, run):
    done = run(*words)
    assert done.code == 2
    assert done.out == ""
    assert "Usage: hf-mixers" in done.error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["info", "nowhere"], "'nowhere' is neither the folder nor the name of a model."),
        (["finetune", "--config", "lost.yaml"], "No such file or directory: 'lost.yaml'"),
        (["finetune", "--labels", "row:3"], "'row:3' was given: column:..., pattern:..., table:"),
        (["finetune", "--groups", "species"], "'species' was given: column:..., pattern:..., tab"),
        (["finetune", "--baselines", "svm"], "average and none, got 'svm'."),
        (["finetune", "lost.fa", "--labels", "folder"], "lost.fa"),
        (["pretrain", "--held-out", "x"], "held_out requires genomes: it names records of them."),
        (["pretrain", "--model", "xor"], "'xor' is neither a family (chordmixer, paramixer, "),
        (["finetune", "--model", "xor"], "'xor' is neither a family (chordmixer, paramixer, "),
        (["publish", "nowhere", "me/x", "--dry-run"], "nowhere holds no model: there is no config"),
        (
            ["convert", "lost.pt", "chordmixer", "x", "--set", "a"],
            "--set takes key=value, got 'a'.",
        ),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(words, message, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    done = run(*words)
    assert done.code == 1
    sentence, hint = done.error.strip().splitlines()[-2:]
    assert sentence.startswith("error: ")
    assert message in sentence
    assert hint == "(HF_MIXERS_TRACEBACK=1 shows where.)"
    assert "Traceback" not in done.error


def test_the_traceback_is_shown_if_asked_for(run, monkeypatch):
    monkeypatch.setenv("HF_MIXERS_TRACEBACK", "1")
    monkeypatch.setattr(sys, "argv", ["hf-mixers", "pretrain", "--held-out", "x"])
    with pytest.raises(ValueError, match="held_out requires genomes"):
        cli.main()


def test_errors_that_nobody_expected_keep_their_traceback():
    def fail():
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        process.with_sentence(fail)


def test_messages_of_several_lines_become_one(capsys):
    def fail():
        raise OSError("first\n   second")

    with pytest.raises(SystemExit) as end:
        process.with_sentence(fail)
    assert end.value.code == 1
    assert capsys.readouterr().err.startswith("error: first second\n")


def test_one_process_of_a_group_ends_without_the_others(monkeypatch, kept_log):
    """After success only: a failure must reach the others as an exit code."""
    left = []
    monkeypatch.setattr(process, "is_in_process_group", lambda: True)
    monkeypatch.setattr(process, "leave_process_group", lambda: left.append(True))
    for words, code, count in ((["--version"], 0, 1), (["pretrain", "--held-out", "x"], 1, 1)):
        monkeypatch.setattr(sys, "argv", ["hf-mixers", *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert (end.value.code or 0, len(left)) == (code, count)


def test_all_ranks_but_0_are_silent(monkeypatch, kept_log):
    # what `show_log` replaces is put back by monkeypatch
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    monkeypatch.setattr("datasets.disable_progress_bars", lambda: None)
    monkeypatch.setenv("RANK", "1")
    process.show_log()
    assert sys.stdout.name == "/dev/null"


def test_the_log_is_printed_once_however_often_it_is_asked_for(capsys, kept_log):
    import logging

    for _ in range(2):
        process.show_log()
    logging.getLogger("hf_mixers.data").info("a message")
    assert capsys.readouterr().out == "a message\n"
