"""Texts for others hold no tokens, and no paths or user names of this machine."""

import os
from pathlib import Path

import pytest

from hf_mixers.privacy import find_private, name_path, shorten_path, strip_private, strip_text

TOKEN = "hf_AbcdefghijKLMNOPQRST"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder whose name is that of its user, with a project as the working folder."""
    place = tmp_path / "users" / "quillfeather"
    (place / "project" / "runs").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("LOGNAME", "quillfeather")
    monkeypatch.setenv("HF_TOKEN", "a-token-of-another-shape")
    monkeypatch.chdir(place / "project")
    return place


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("{home}/genes.fa", "genes.fa"),
        ("{home}", "~"),
        ("~/genes.fa", "genes.fa"),
        ("../genes/a.fa", "a.fa"),
        ("/data/My Genes/a.fa", "a.fa"),
        ("runs/here", "here"),
        ("from {home}/a/b.fa, and more", "from b.fa, and more"),
        ("cannot open '/data/genes/a.fa'", "cannot open 'a.fa'"),
        ("key " + TOKEN + " here", "key [token] here"),
        ("a-token-of-another-shape", "[token]"),
        ("owner/name", "owner/name"),
        ("https://huggingface.co/owner/name", "https://huggingface.co/owner/name"),
        ("and/or, 3 / 4, tokens/s", "and/or, 3 / 4, tokens/s"),
        ("gradient boosting", "gradient boosting"),
    ],
)
def test_paths_become_base_names_and_tokens_go(text, stripped, home):
    (home / "project" / "runs" / "here").touch()
    text = text.format(home=home)
    assert strip_text(text) == stripped
    assert "quillfeather" not in strip_text(text)


def test_contents_keep_their_shape(home):
    content = {
        "options": {"data": [f"{home}/a.fa", Path("/data/b.fa")], "seed": 3, "rate": 0.5},
        "training": {"hub_token": TOKEN, "train_token_budget": 16, "nothing": None},
        "best_model_checkpoint": f"{home}/project/runs/checkpoint-3",
    }
    assert strip_private(content) == {
        "options": {"data": ["a.fa", "b.fa"], "seed": 3, "rate": 0.5},
        "training": {"train_token_budget": 16, "nothing": None},
        "best_model_checkpoint": "checkpoint-3",
    }


def test_the_folder_of_a_pattern_stays(home):
    assert name_path("/data/genes/*.fa") == "genes/*.fa"
    assert name_path(f"{home}/*.fa") == "*.fa"


def test_paths_to_repeat_a_run_lead_to_the_same_file(home, tmp_path):
    for path, short in (
        (home / "project" / "a.fa", "a.fa"),
        (home / "data" / "a.fa", "~/data/a.fa"),
        (tmp_path / "a.fa", "../../../a.fa"),
        ("b/a.fa", "b/a.fa"),
    ):
        assert shorten_path(str(path)) == short
        found = os.path.abspath(os.path.expanduser(short))
        assert found == os.path.abspath(path)


def test_what_must_not_be_published_is_found_in_bytes(home):
    assert find_private(b"x" + str(home).encode() + b"/y") == "the path of a home folder"
    assert find_private(f"x {TOKEN} y".encode()) == "an access token"
    assert find_private(b"..a-token-of-another-shape..") == "the access token"
    assert find_private(str(home).encode() + b"s are others") is None
    assert find_private(b"hf_mixers and hf_x") is None
