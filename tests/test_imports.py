"""Importing the package is cheap, and old import paths work for one release."""

import json
import subprocess
import sys
import warnings

import pytest

from hf_mixers import _moved

# packages that take long to import and that models do not need
HEAVY = ("scipy", "sklearn", "PIL", "matplotlib", "pandas", "typer", "evaluate", "pyfaidx", "onnx")


def imported(statement: str) -> set[str]:
    """Heavy packages that a statement imports in a new process."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    roots = {name.split(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}
    return roots & set(HEAVY)


@pytest.fixture(scope="module")
def of_trainer():
    return imported("from transformers import Trainer")


@pytest.mark.processes
@pytest.mark.parametrize(
    "statement",
    [
        "import hf_mixers",
        "from hf_mixers import MixerTrainer, MixerTrainingArguments",
        "import hf_mixers.data",
    ],
)
def test_nothing_heavy_is_imported_that_the_trainer_does_not_import(statement, of_trainer):
    assert imported(statement) <= of_trainer


@pytest.mark.processes
def test_commands_import_nothing_heavy_before_they_run(of_trainer):
    """Help must come at once: what a command needs is imported when it runs."""
    assert imported("import hf_mixers.cli.main") - of_trainer <= {"typer"}


@pytest.mark.parametrize("old", _moved.MODULES)
def test_modules_of_the_last_release_are_found_with_a_warning(old, monkeypatch):
    monkeypatch.delitem(sys.modules, old, raising=False)
    place = _moved.MODULES[old]
    with pytest.warns(DeprecationWarning, match=f"{old} is now {place}; the old path goes away"):
        __import__(old)
    module = sys.modules[old]
    assert module is sys.modules[place]
    assert module.__spec__.name == module.__name__ == place


def test_names_of_the_last_release_are_found_with_a_warning():
    import hf_mixers.data
    from hf_mixers.data import other

    with pytest.warns(DeprecationWarning, match=r"hf_mixers\.data\.load_table is now"):
        assert hf_mixers.data.load_table is other.load_table
    with pytest.raises(AttributeError, match="has no attribute 'load_tables'"):
        hf_mixers.data.load_tables  # noqa: B018 (looking it up is the test)


def test_new_paths_warn_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for place in _moved.MODULES.values():
            __import__(place)


def test_every_moved_name_is_where_it_is_said_to_be():
    import hf_mixers.data

    table = hf_mixers.data.__getattr__.__closure__
    moved = next(cell.cell_contents for cell in table if isinstance(cell.cell_contents, dict))
    assert moved
    for name, place in moved.items():
        __import__(place)
        assert hasattr(sys.modules[place], name), f"{place}.{name}"
