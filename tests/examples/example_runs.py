"""How the tests run examples, and what every training example leaves behind."""

import importlib.util
import json
import sys
from pathlib import Path

from huggingface_hub import ModelCard

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))


def load(name: str):
    """The module of an example."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    # the Trainer pickles its arguments, whose class must be found again
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def check_run(folder: Path, results: dict):
    """Metrics, a card and a plot lie in the folder of a run."""
    assert (
        json.loads((folder / "metrics.json").read_text())["test"].keys() == results["test"].keys()
    )
    card = ModelCard.load(folder / "README.md")
    assert card.data.library_name == "transformers"
    assert (folder / "history.png").stat().st_size > 1000
    assert results["environment"]["versions"]["torch"]
