"""From a folder full of traps nothing is published but what is on the list, without secrets."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from huggingface_hub import HfApi
from typer.testing import CliRunner

from hf_mixers import ChordMixerConfig, ChordMixerForSequenceClassification, DnaTokenizer
from hf_mixers.cli.main import app
from hf_mixers.publish import choose_files, stage_files
from tests.hub.server import serve

TOKEN = "hf_SecretSecretSecretSecret"
USER = "quillfeather"
MODEL = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
# what a Hub puts into a new repository
OF_THE_HUB = {".gitattributes"}


@pytest.fixture
def hub(tmp_path):
    """A Hub on this machine, and the environment of a user called quillfeather."""
    server = serve(tmp_path / "hub")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = tmp_path / "home" / USER
    home.mkdir(parents=True)
    yield {
        **{key: value for key, value in os.environ.items() if not key.startswith("HF_")},
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_TOKEN": TOKEN,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HOME": str(tmp_path / "cache"),
        "HOME": str(home),
        "USER": USER,
        "LOGNAME": USER,
        "OMP_NUM_THREADS": "1",
        "TQDM_DISABLE": "1",
    }
    server.shutdown()
    server.server_close()


def set_traps(folder: Path) -> None:
    """What must never leave the machine, under all kinds of names."""
    folder.mkdir(parents=True)
    (folder / ".env").write_text(f"HF_TOKEN={TOKEN}")
    (folder / "patients.csv").write_text("name\nAlice")
    (folder / "notes.md").write_text("private")
    (folder / "weights.safetensors").write_text("private")
    (folder / "model.safetensors.bak").write_text("private")
    (folder / "predictions.csv").write_text("id\npatient 7")
    (folder / "run.yaml").write_text(f"data: {folder}")
    (folder / "data").mkdir()
    (folder / "data" / "config.json").write_text("{}")
    (folder / "data" / "patients.csv").write_text("name\nBob")
    (folder / "checkpoint-9").mkdir()
    (folder / "checkpoint-9" / "training_args.bin").write_text(TOKEN)
    os.symlink("/etc/passwd", folder / "vocab.json")
    os.symlink("/etc", folder / "elsewhere")
    os.symlink("/etc/hostname", folder / "added_tokens.json")
    metrics = {
        "smoke": False,
        "options": {"data": [f"{folder}/patients.csv", "/home/other/x.fa"]},
        "training": {"output_dir": str(folder), "hub_token": TOKEN},
        "note": f"read {folder}/patients.csv with {TOKEN}",
    }
    (folder / "metrics.json").write_text(json.dumps(metrics))


def fetch(environment, place: Path) -> dict[str, bytes]:
    """All files of the repository, by name, over all its commits."""
    api = HfApi(endpoint=environment["HF_ENDPOINT"], token=TOKEN)
    found = {}
    for commit in api.list_repo_commits("local/traps"):
        for name in api.list_repo_files("local/traps", revision=commit.commit_id):
            path = api.hf_hub_download(
                "local/traps", name, revision=commit.commit_id, cache_dir=place
            )
            found[f"{name}@{commit.commit_id}"] = Path(path).read_bytes()
    return found


def check(files: dict[str, bytes], expected: set[str], home: str) -> None:
    assert {name.partition("@")[0] for name in files} - OF_THE_HUB == expected
    assert files
    for name, data in files.items():
        for secret in (TOKEN, home, USER, "Alice", "patient 7", "/home/other", "root:x"):
            assert secret.encode() not in data, (name, secret)


CARD_AND_RESULTS = {"README.md", "metrics.json"}
RESUMED = {"trainer_state.json", "optimizer.pt", "scheduler.pt", "rng_state.pth"}
WAYS = {
    "end": MODEL | CARD_AND_RESULTS,
    "command": MODEL | {"metrics.json"},
    "every_save": MODEL,
    "checkpoint": MODEL | {f"last-checkpoint/{name}" for name in MODEL | RESUMED},
}


@pytest.mark.processes
@pytest.mark.parametrize("way", WAYS)
def test_only_the_list_is_published_and_no_secret_in_it(way, hub, tmp_path):
    folder = Path(hub["HOME"]) / "run"
    set_traps(folder)
    root = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "tests.publishing_run", way, str(folder), TOKEN],
        env={**hub, "PYTHONPATH": root},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    # the trap is real: what the Trainer writes for itself holds the token
    assert TOKEN.encode() in (folder / "checkpoint-2" / "training_args.bin").read_bytes()
    check(fetch(hub, tmp_path / "fetched"), WAYS[way], str(tmp_path))


@pytest.fixture
def saved(tmp_path):
    """A folder with a model, its tokenizer and the traps."""
    folder = tmp_path / "run"
    set_traps(folder)
    config = ChordMixerConfig(max_position_embeddings=16, track_size=2, intermediate_size=4)
    ChordMixerForSequenceClassification(config).save_pretrained(folder)
    DnaTokenizer().save_pretrained(folder)
    return folder


def test_what_is_left_out_is_named(saved):
    files = choose_files(saved)
    assert {path.name for path in files.published} == MODEL | {"metrics.json"}
    assert {".env", "patients.csv", "vocab.json", "data", "predictions.csv"} <= {
        path.name for path in files.left_out
    }


def test_a_dry_run_shows_the_list_and_uploads_nothing(saved, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("uploaded")

    monkeypatch.setattr("hf_mixers.publish._push", refuse)
    done = CliRunner().invoke(app, ["publish", str(saved), "local/x", "--dry-run"])
    assert done.exit_code == 0, done.output
    listed, left_out = done.output.split("Left out:")
    assert all(f"  {name}  " in listed for name in MODEL)
    assert "patients.csv" in left_out
    assert "patients.csv" not in listed


@pytest.mark.parametrize(
    ("answers", "uploads", "licence"),
    [("\ny\n", True, None), ("mit\ny\n", True, "mit"), ("\nn\n", False, None)],
)
def test_the_list_and_the_licence_are_asked_before_uploading(
    answers, uploads, licence, saved, monkeypatch
):
    pushed = []

    class Commit:
        commit_url = "https://hub/commit"

    def keep(folder, *args):
        pushed.append({path.name: path.read_bytes() for path in Path(folder).iterdir()})
        return Commit

    monkeypatch.setattr("hf_mixers.publish._push", keep)
    done = CliRunner().invoke(app, ["publish", str(saved), "local/x"], input=answers)
    assert done.output.index("model.safetensors") < done.output.index("Upload these files?")
    assert (done.exit_code == 0) == uploads
    assert len(pushed) == uploads
    if uploads:
        assert ("README.md" in pushed[0]) == (licence is not None)
    if licence:
        assert b"license: mit" in pushed[0]["README.md"]


def test_a_smoke_run_is_not_published(saved):
    (saved / "metrics.json").write_text('{"smoke": true}')
    done = CliRunner().invoke(app, ["publish", str(saved), "local/x", "--yes"])
    assert isinstance(done.exception, ValueError)
    assert "is a smoke run, which is not published" in str(done.exception)


def test_a_file_that_still_holds_a_token_is_refused(saved, tmp_path):
    (saved / "preparation.json").write_text(f'{{"column": "{TOKEN}"}}')
    (tmp_path / "place").mkdir()
    with pytest.raises(ValueError, match=r"preparation.json holds an access token"):
        stage_files(saved, tmp_path / "place")


def test_where_a_model_was_loaded_from_is_a_base_name(saved, tmp_path):
    config = json.loads((saved / "config.json").read_text())
    config |= {"_name_or_path": f"{tmp_path}/start", "id2label": {"0": "/a/b", "1": "c"}}
    (saved / "config.json").write_text(json.dumps(config))
    (tmp_path / "place").mkdir()
    stage_files(saved, tmp_path / "place")
    staged = json.loads((tmp_path / "place" / "config.json").read_text())
    assert staged == {**config, "_name_or_path": "start"}


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"holds no model: there is no config.json\.$"):
        choose_files(tmp_path)
