"""The code in README and cards runs."""

import re
from pathlib import Path

import pytest

from hf_mixers import ChordMixerConfig, ChordMixerForSequenceClassification

ROOT = Path(__file__).parents[1]
# blocks that read a file which users have and the tests do not
NEEDS_FILES = "from_original"


def python_blocks():
    for path in [ROOT / "README.md", *sorted((ROOT / "model_cards").glob("*.md"))]:
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
