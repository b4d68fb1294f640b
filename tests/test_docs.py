"""The code in README and cards runs."""

import json
import re
from pathlib import Path

import pytest

from hf_mixers import ChordMixerConfig, ChordMixerForSequenceClassification

ROOT = Path(__file__).parents[1]
# blocks that read a file which users have and the tests do not
NEEDS_FILES = "from_original"


def python_blocks():
    pages = [*(ROOT / "model_cards").glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    for path in [ROOT / "README.md", *sorted(pages)]:
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.S)):
            if NEEDS_FILES not in code:
                yield pytest.param(code, id=f"{path.name}-{number}")


@pytest.mark.parametrize("code", list(python_blocks()))
def test_code_blocks_run_and_their_comments_hold(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # later blocks go on where the first one of the README ended
    names = {"model": ChordMixerForSequenceClassification(ChordMixerConfig())}
    exec(code, names)
    for expression, expected in re.findall(r"^([\w., ]+)  # ([\d, ]+)$", code, re.M):
        assert eval(expression, names) == eval(expected)


def test_the_figures_of_the_demo_are_those_of_its_run():
    run = json.loads((ROOT / "benchmarks/results/demo.json").read_text())
    text = (ROOT / "README.md").read_text()
    seconds = next(entry["train_runtime"] for entry in run["history"] if "train_runtime" in entry)
    assert f"trains for {seconds / 60:.0f} minutes" in text
    assert run["environment"]["machine"]["threads"] == 2
    assert f"{run['parameters']:,} parameters" in text
    assert f"{run['test']['model']['count']:,} genes" in text
    for name, model in {"ChordMixer": "model", "logistic regression on 6-mers": "kmer"}.items():
        cells = [
            "{value:.3f} [{low:.3f}, {high:.3f}]".format(**run["test"][model]["overall"][metric])
            for metric in ("accuracy", "roc_auc")
        ]
        assert f"| {name} | {' | '.join(cells)} |" in text
