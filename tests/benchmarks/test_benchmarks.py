"""The benchmarks run, measure what they say, and the pages repeat what their tables hold."""

import csv
import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
import torch

from benchmarks.headline import ARENA, COMPARED, MEASURED, make_headline_section
from benchmarks.report import IMAGES, PAGES, ROOT, marks, update_page
from benchmarks.report import main as make_report
from benchmarks.speed.__main__ import main
from benchmarks.speed.commands import COMMANDS
from benchmarks.speed.commands.links import NETWORKS, make_product
from benchmarks.speed.contenders import PARAMETERS, PEERS, build_network, count_parameters
from benchmarks.speed.interleaved import Case, Group, measure_in_turns
from benchmarks.speed.isolated import Built, Limits
from benchmarks.speed.measures import make_measures
from benchmarks.speed.plain import PlainChordMixer
from benchmarks.speed.rss import give_back, measure_peak
from benchmarks.tables import RESULTS, read_rows, write_rows
from hf_mixers import ChordMixerConfig, ChordMixerForSequenceClassification
from tests.families import flatten, random_ids

# in this transformers, MRA's attention gives zeros where its CUDA kernel is missing
CANNOT_RUN_HERE = {"mra"}


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")


@pytest.mark.parametrize("command", COMMANDS)
def test_smoke_run_measures_every_row_and_can_be_reported(command, tmp_path, quiet, capsys):
    main([command, "--smoke", "--threads", "1", "--output", str(tmp_path)])
    rows = read_rows(tmp_path / f"{command}.csv")
    assert rows
    for row in rows:
        if row.get("network") in CANNOT_RUN_HERE:
            assert "mixes nothing" in row["status"]
            continue
        assert row["status"] == "ok"
        seconds = sorted(float(value) for value in row["all_s"].split())
        assert row["minimum_s"] == seconds[0] > 0
        assert seconds[0] <= row["median_s"] <= seconds[-1]
        # None where the system does not tell
        assert row["peak_mib"] is None or row["peak_mib"] >= 0
    run = json.loads((tmp_path / f"{command}.json").read_text())
    assert run["machine"]["threads"] == 1
    assert run["allocator"] == "default"
    assert run["versions"]["torch"] == torch.__version__
    measures = make_measures({command: rows})
    assert all("measured" not in measure.value for measure in measures)
    assert all(measure.name in capsys.readouterr().out for measure in measures[:1])

    for name, sections in PAGES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join("before\n{}\n{}\nafter\n".format(*marks(n)) for n in sections))
    make_report(["--results", str(tmp_path), "--root", str(tmp_path)])
    page = tmp_path / "docs/speed.md"
    text = page.read_text()
    start, end = marks("speed")
    assert text.startswith(f"before\n{start}\n")
    assert text.endswith(f"{end}\nafter\n")
    assert all(f"| {measure.name} |" in text for measure in measures)
    assert all((page.parent / image).exists() for image in re.findall(r"\]\((.*?)\)", text))
    # made again, it is the same
    update_page(page, PAGES["docs/speed.md"], tmp_path)
    assert page.read_text() == text


def test_all_ways_to_multiply_by_a_factor_agree():
    offsets = (0, 1, 2, 4, 8)
    values, links = torch.randn(11, 3), torch.randn(11, 5)
    ours, gathered, sparse = (make_product(n, 11, offsets)(values, links) for n in NETWORKS)
    torch.testing.assert_close(ours, gathered)
    torch.testing.assert_close(ours, sparse)


@pytest.mark.parametrize(
    ("page", "name"), [(page, name) for page, sections in PAGES.items() for name in sections]
)
def test_the_pages_say_what_the_results_hold(page, name):
    start, end = marks(name)
    section = (ROOT / page).read_text().partition(start)[2].partition(end)[0]
    assert section == f"\n\n{PAGES[page][name](RESULTS)}\n"


def test_plots_on_the_pages_exist():
    shown = {
        image
        for page in ("docs/results.md", "docs/speed.md")
        for image in re.findall(r"\]\(images/(.*?)\)", (ROOT / page).read_text())
    }
    assert shown
    assert shown <= {path.name for path in (ROOT / IMAGES).iterdir()}


def test_the_headline_has_all_its_rows():
    lines = make_headline_section(RESULTS).splitlines()
    for name in (*COMPARED, *ARENA, *MEASURED):
        assert any(line.startswith(f"| {name} |") for line in lines), name


def test_every_command_explains_itself(capsys):
    for call in (*([main, command] for command in (*COMMANDS, "all")), [make_report]):
        with pytest.raises(SystemExit) as stop:
            call[0]([*call[1:], "--help"])
        assert stop.value.code == 0
        assert "--" in capsys.readouterr().out


@pytest.mark.parametrize("lengths", [[9], [1, 2, 3, 8, 9, 33, 5, 33]], ids=["one", "mixed"])
def test_the_plain_twin_equals_the_model_forward_and_gradient(lengths):
    settings = {"max_position_embeddings": 33, "track_size": 3, "intermediate_size": 8}
    config = ChordMixerConfig(**settings, num_labels=3, final_norm="none")
    model = ChordMixerForSequenceClassification(config).double()
    plain = PlainChordMixer(config).double()
    copy_parameters(model, plain)
    batch = flatten([random_ids(length) for length in lengths])
    labels = torch.arange(len(lengths)) % 3
    ours = model(**batch, labels=labels)
    del batch["max_length_q"]
    theirs = plain(**batch, labels=labels)
    torch.testing.assert_close(theirs.logits, ours.logits)
    torch.testing.assert_close(theirs.loss, ours.loss)
    ours.loss.backward()
    theirs.loss.backward()
    for mine, other in zip(model.parameters(), plain.parameters(), strict=True):
        # blocks that no sequence needs have a zero gradient here and none in the twin
        expected = torch.zeros_like(mine) if other.grad is None else other.grad
        torch.testing.assert_close(mine.grad, expected)


def test_the_plain_twin_takes_rectangles():
    sizes = {"max_position_embeddings": 33, "track_size": 3, "intermediate_size": 8}
    config = ChordMixerConfig(**sizes, final_norm="none")
    model = ChordMixerForSequenceClassification(config).double()
    plain = PlainChordMixer(config).double()
    copy_parameters(model, plain)
    ids = random_ids(3, 20)
    torch.testing.assert_close(plain(ids).logits, model(ids).logits)


def copy_parameters(source, target):
    with torch.no_grad():
        for one, other in zip(source.parameters(), target.parameters(), strict=True):
            other.copy_(one)


@pytest.mark.parametrize("length", [1024, 4096, 16_384, 65_536])
def test_contenders_have_equally_many_parameters(length):
    for name in ("chordmixer", "plain", *PEERS):
        count = count_parameters(build_network(name, length))
        assert count == pytest.approx(PARAMETERS, rel=0.05), name


def test_peak_memory_is_that_of_the_call():
    def fill():
        return torch.ones(16 << 20).sum()

    # what earlier tests have freed would be taken up again without a rise
    give_back()
    _, peak = measure_peak(fill)
    # a second time too: an earlier peak is forgotten
    _, again = measure_peak(fill)
    if again is None:
        pytest.skip("this system cannot forget an earlier peak")
    assert 60 <= peak / 2**20 < 90
    assert 60 <= again / 2**20 < 90


def build_trouble(kind: str, path: str = "") -> Built:
    """Steps for the tests, built in the measuring process."""

    def step():
        if kind == "error":
            raise ValueError("two\nlines")
        if kind == "memory":
            torch.ones(1 << 30)
        elif kind == "time":
            time.sleep(60)
        elif kind == "death":
            os.kill(os.getpid(), signal.SIGKILL)
        elif path:
            with open(path, "a") as file:
                file.write(kind)
        return {"numbers": 2}

    return Built(step, {"built": True})


def test_what_fails_is_a_row_that_says_how():
    kinds = {
        "error": "ValueError: two",
        "memory": "out of memory, limit 2 GiB",
        "time": "time limit of 10 s",
        "death": "killed by signal 9, probably out of memory",
        "fine": "ok",
    }
    cases = [Case({"kind": kind}, build_trouble, {"kind": kind}) for kind in kinds]
    rows = measure_in_turns(Group(cases), 1, Limits(seconds=10, gibibytes=2))
    assert {row["kind"]: row["status"] for row in rows} == kinds
    assert all(row["built"] for row in rows)


def test_cases_run_in_turns_after_a_warm_up(tmp_path):
    path = str(tmp_path / "order")
    cases = [Case({}, build_trouble, {"kind": kind, "path": path}) for kind in "ab"]
    rows = measure_in_turns(Group(cases), 3, Limits())
    assert Path(path).read_text() == "ab" * 4
    assert [row["repeats"] for row in rows] == [3, 3]
    assert [row["numbers"] for row in rows] == [6, 6]


def test_a_case_that_takes_its_time_is_repeated_less_often():
    case = Case({}, build_slow)
    (row,) = measure_in_turns(Group([case], time_limit=3.5), 10, Limits())
    assert row["status"] == "ok"
    assert row["repeats"] < 3
    assert 1 <= row["median_s"] < 3


def build_slow() -> Built:
    return Built(lambda: time.sleep(1), {})


def test_tables_come_back_as_they_were_written(tmp_path):
    rows = [
        {"network": "a", "status": "ok", "median_s": 0.25, "all_s": "0.25"},
        {"network": "b", "length": 3, "status": "time limit of 1 s", "median_s": None, "all_s": ""},
    ]
    write_rows(tmp_path / "some.csv", rows)
    with open(tmp_path / "some.csv") as file:
        assert next(csv.reader(file)) == ["network", "length", "median_s", "status", "all_s"]
    assert read_rows(tmp_path / "some.csv") == [{**rows[0], "length": None}, rows[1]]


def test_a_page_without_marks_is_refused(tmp_path):
    (tmp_path / "README.md").write_text("nothing")
    with pytest.raises(ValueError, match=r"README\.md needs the lines"):
        update_page(tmp_path / "README.md", PAGES["README.md"], tmp_path)
