"""The page to try models: its functions, and a click path in a real browser."""

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hf_mixers.inference import attribute, predict, score_variants
from tests.examples.example_runs import FOLDER
from tests.inference.browser import Browser, find_browser

SPACE = FOLDER / "space"
ROOT = FOLDER.parent


@pytest.fixture(scope="module")
def functions():
    spec = importlib.util.spec_from_file_location("space_functions", SPACE / "functions.py")
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_classes_and_their_picture(functions, classifier):
    models = functions.Models(classifier)
    records = functions.read_sequences(">a\nACGTAC\n>b\nGG-\n")
    headers, rows = functions.classify(models, records)
    assert headers == ["sequence", "length", "class", "cat", "dog", "owl"]
    (expected,) = predict(classifier, ["ACGTAC"])
    assert rows[0][:3] == ["a", 6, expected.label]
    assert rows[0][3:] == pytest.approx(list(expected.scores.values()), abs=1e-4)
    assert rows[1] == ["b", 3, "not read: letter '-'", None, None, None]
    figure = functions.draw_attribution(models, records)
    bars = [bar.get_height() for bar in figure.axes[0].patches]
    (found,) = attribute(classifier, ["ACGTAC"])
    assert bars == pytest.approx(found.values.tolist(), abs=1e-5)
    assert np.abs(bars).max() > 0
    assert functions.attribute_first(models, records[::-1]).id == "a"
    assert functions.draw_attribution(models, records[1:]) is None


def test_masked_bases_and_variants(functions, masked_lm):
    models = functions.Models(None, masked_lm)
    ((name, position, base, *scores),) = functions.fill_masks(models, "ACG[MASK]T")
    assert (name, position) == ("sequence_1", 4)
    assert "ACGT"[int(np.argmax(scores))] == base
    rows = functions.score_variants(models, ">x\nACGTACGTAA", "3 G>T\nx:5 A>ACC\n4 G>T")
    assert [row[0] for row in rows] == ["x:3 G>T", "x:5 A>ACC", "x:4 G>T"]
    (expected,) = score_variants(masked_lm, [("x", 3, "G", "T")], {"x": "ACGTACGTAA"})
    assert rows[0][2] == pytest.approx(expected.scores["llr"], abs=1e-4)
    assert rows[2][-1] != ""


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("read_sequences", ["  "], "There is no sequence: paste FASTA or letters"),
        ("read_sequences", ["A" * 1_000_001], "at most 1,000 with 1,000,000 letters"),
        ("parse_variants", ["colour", ["x"]], "'colour' is not a variant: write it as 12 A>G"),
        ("parse_variants", ["", ["x"]], "There is no variant"),
    ],
)
def test_bad_input_gets_a_sentence(functions, name, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(functions, name)(*arguments)


def find_python() -> str | None:
    """An interpreter that has gradio: this one, or that of `make space`."""
    if importlib.util.find_spec("gradio") is not None:
        return sys.executable
    place = Path(os.environ.get("HF_MIXERS_SPACE_VENV", ROOT / ".venv-space")) / "bin" / "python"
    return str(place) if place.exists() else None


@pytest.fixture
def address(classifier, masked_lm, tmp_path):
    """Where the page is served."""
    if find_browser() is None:
        pytest.skip("there is no chromium on this machine")
    if (python := find_python()) is None:
        pytest.skip("gradio is not installed: make space")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        **{"HF_MIXERS_CLASSIFIER": classifier, "HF_MIXERS_MASKED_LM": masked_lm},
        **{"GRADIO_SERVER_PORT": str(port), "GRADIO_SERVER_NAME": "127.0.0.1"},
        **{"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    }
    with open(tmp_path / "server.log", "w") as log:
        command = [python, str(SPACE / "app.py")]
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            found = f"http://127.0.0.1:{port}"
            wait_for_server(server, found, tmp_path / "server.log")
            yield found
        finally:
            server.terminate()
            server.wait(30)


def wait_for_server(server: subprocess.Popen, address: str, log: Path) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()[-3000:]
        try:
            urllib.request.urlopen(address, timeout=30).close()
            return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.3)
    raise TimeoutError(log.read_text()[-3000:])


@pytest.mark.slow
@pytest.mark.processes
def test_a_visitor_sees_answers(address, tmp_path):
    browser = Browser(tmp_path / "profile")
    pictures = Path(os.environ.get("HF_MIXERS_SCREENSHOTS", tmp_path))
    try:
        browser.open(address)
        browser.fill("#sequences textarea", ">mine\nACGTACGTTGCAAC\n>other\nGGC\n")
        browser.click("button#classify")
        browser.wait_for_text("#classify-message", "Done.")
        table = browser.wait_for_text("#classes", "mine")
        assert all(word in table for word in ("other", "14", "cat", "dog", "owl"))
        browser.wait_for("document.querySelector('#attribution img') !== null")
        check_picture(browser, pictures / "classify.png")
        browser.fill("#sequences textarea", "   ")
        browser.click("button#classify")
        browser.wait_for_text("#classify-message", "There is no sequence: paste FASTA")
        (tmp_path / "mine.fa").write_text(">uploaded\nACGTTTGG\n")
        browser.upload("#upload input[type=file]", tmp_path / "mine.fa")
        browser.wait_for_text("#upload", "mine")
        browser.click("button#classify")
        browser.wait_for_text("#classes", "uploaded")
        open_tab(browser, "Masked bases")
        browser.fill("#masked-text textarea", "ACGT[MASK]CC")
        browser.click("button#fill")
        browser.wait_for_text("#bases", "sequence_1")
        check_picture(browser, pictures / "masked.png")
        open_tab(browser, "Variants")
        browser.fill("#reference textarea", ">x\nACGTACGTAA")
        browser.fill("#variants-text textarea", "3 G>T\n5 A>ACC")
        browser.click("button#score")
        table = browser.wait_for_text("#scores", "x:3 G>T")
        assert "x:5 A>ACC" in table
        check_picture(browser, pictures / "variants.png")
        browser.fill("#variants-text textarea", "colour")
        browser.click("button#score")
        browser.wait_for_text("#score-message", "'colour' is not a variant")
        # everything comes from the page's own server
        others = [url for url in browser.requested() if not url.startswith((address, "data:"))]
        assert [url for url in others if url.startswith("http")] == []
    finally:
        browser.close()


def open_tab(browser: Browser, name: str) -> None:
    script = (
        f"[...document.querySelectorAll('button[role=tab]')].find(b => b.innerText === '{name}')"
    )
    browser.wait_for(f"({script}) !== undefined")
    browser.run(f"({script}).click()")


def check_picture(browser: Browser, path: Path) -> None:
    """The page is drawn: it has more than a background."""
    browser.screenshot(path)
    with Image.open(path) as picture:
        assert picture.width > 800
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 50
