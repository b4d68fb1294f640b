"""`hf-mixers convert` gives the model that the library gives."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForSequenceClassification

from hf_mixers.convert import from_original

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(params=["chordmixer_equal_len", "paramixer_chord_flatten"])
def original(request, tmp_path):
    """A file of the authors' weights, the family and the arguments of its constructor."""
    with safe_open(FIXTURES / f"{request.param}.safetensors", "pt") as file:
        metadata = {key: json.loads(value) for key, value in file.metadata().items()}
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
    state = {k.removeprefix("state."): v for k, v in tensors.items() if k.startswith("state.")}
    torch.save(state, tmp_path / "original.pt")
    return tmp_path / "original.pt", metadata["family"], metadata["constructor"]


def test_a_file_of_weights_becomes_a_folder(original, run, tmp_path):
    path, family, arguments = original
    words = [word for k, v in arguments.items() for word in ("--set", f"{k}={json.dumps(v)}")]
    done = run("convert", path, family, tmp_path / "model", *words)
    assert done.code == 0, done.error
    expected = from_original(path, family, **arguments)
    assert done.out == (
        f"{type(expected).__name__}, {expected.num_parameters():,} parameters, is in"
        f" {tmp_path / 'model'}/\n"
    )
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    assert type(model) is type(expected)
    found, given = model.state_dict(), expected.state_dict()
    assert found.keys() == given.keys()
    assert all(torch.equal(found[name], given[name]) for name in given)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gru"], "'gru'"),
        (["chordmixer", "--set", "nonsense=3"], "nonsense"),
        (["chordmixer", "--set", "a"], "--set takes key=value, got 'a'."),
    ],
)
def test_what_cannot_be_converted_is_said(words, message, run, tmp_path):
    torch.save({"weight": torch.zeros(2)}, tmp_path / "x.pt")
    done = run("convert", tmp_path / "x.pt", words[0], tmp_path / "model", *words[1:])
    assert done.code == 1
    assert message in done.error
    assert not (tmp_path / "model").exists()
