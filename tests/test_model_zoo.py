"""The trained models of model_cards: they load offline and predict what was recorded."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig

from benchmarks.trainings.catalogue import EXPERIMENTS
from benchmarks.trainings.zoo import predict

CARDS = Path(__file__).parents[1] / "model_cards"
FOLDERS = sorted(path.parent for path in CARDS.glob("*/config.json"))
every_model = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


@every_model
def test_a_model_predicts_what_was_recorded(folder, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    recorded = json.loads((folder / "predictions.json").read_text())
    assert len(recorded["sequences"]) == 10
    found = predict(folder, recorded["sequences"])
    assert found["output"] == recorded["output"]
    torch.testing.assert_close(
        torch.tensor(found["values"]), torch.tensor(recorded["values"]), atol=1e-4, rtol=1e-4
    )


@every_model
def test_a_folder_tells_how_its_model_was_made(folder):
    told = json.loads((folder / "training.json").read_text())
    for step in told["steps"]:
        assert step["name"] in EXPERIMENTS
        assert step["arguments"] == list(EXPERIMENTS[step["name"]].arguments)
    assert (folder / "README.md").read_text().startswith("---\n")
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert size < 10 * 2**20
    assert "/root" not in (folder / "config.json").read_text()
    config = AutoConfig.from_pretrained(folder)
    # as new models of the family have it, not the published form
    assert config.final_norm == type(config)().final_norm


def test_there_are_models_to_load():
    names = {"chordmixer-microbes", "chordmixer-genus45", "combiner-microbes"}
    assert names <= {folder.name for folder in FOLDERS}
