"""The arena table shows our runs as what they are, next to the published rows."""

import json
import mmap

import numpy as np
import pytest
from typer.testing import CliRunner

from hf_mixers.cli.main import app
from hf_mixers.reporting.arena_plots import plot_reach, plot_tradeoff
from hf_mixers.reporting.arena_published import COLUMNS, PUBLISHED, SPEED
from hf_mixers.reporting.arena_results import PeakMemory, append_result, read_results
from hf_mixers.reporting.arena_table import arena_table, collect_cells, costs_table, name_task


def entry(task="listops", model="chordmixer", score=0.4, **changes):
    made = {
        "task": task,
        "model": model,
        "protocol": None,
        "part": "test",
        "metric": "accuracy",
        "score": score,
        "parameters": 1000,
        "steps": 500,
        "seed": 0,
        "is_shortened": True,
        "seconds": 7200.0,
        "seconds_per_step": 0.5,
        "memory_mb": 300.0,
        "self_pretraining": None,
    }
    return {**made, **changes}


def test_seeds_are_averaged_and_shortened_runs_marked():
    results = [entry(seed=0, score=0.4), entry(seed=1, score=0.5), entry(steps=100, score=0.9)]
    cells = collect_cells(results)
    assert cells["chordmixer"]["listops"].scores == (40.0, 50.0)
    assert str(cells["chordmixer"]["listops"]) == "45.00 ± 5.00\\* (500 steps)"
    full = [
        entry(task, score=0.1 * n, is_shortened=False, steps=5000)
        for n, task in enumerate(COLUMNS[:5], start=1)
    ]
    table = arena_table(full, [])
    assert "10.00 (5k steps)" in table
    assert "| 30.00 |" in table
    assert "\\*" not in table


def test_seeds_alone_are_averaged():
    sizes = [entry(score=0.3), entry(score=0.6, parameters=9000, seed=1)]
    cells = collect_cells(sizes)
    assert cells["chordmixer, 1,000 parameters"]["listops"].scores == (30.0,)
    assert cells["chordmixer, 9,000 parameters"]["listops"].scores == (60.0,)
    rates = [
        entry(learning_rate=rate, seed=seed, score=rate) for rate in (0.1, 0.2) for seed in (0, 1)
    ]
    assert collect_cells(rates)["chordmixer"]["listops"].scores == (20.0, 20.0)
    lengths = [entry("text", max_length=length) for length in (256, 4096)]
    assert list(collect_cells(lengths)["chordmixer"]) == ["text, 256 tokens", "text"]
    lengths = [entry("adding", max_length=length) for length in (64, 6700)]
    assert list(collect_cells(lengths)["chordmixer"]) == [
        "adding, 64 tokens",
        "adding, 6,700 tokens",
    ]


def test_runs_that_differ_have_rows_of_their_own():
    results = [
        entry(),
        entry(self_pretraining={"loss": 1}),
        entry(protocol="lra"),
        entry(model="bert"),
        entry(part="validation", model="hidden"),
    ]
    names = list(collect_cells(results))
    assert names == ["chordmixer", "chordmixer, self-pretrained", "chordmixer, as lra", "bert"]


def test_variants_of_a_task_have_columns_of_their_own():
    """Short ListOps, another difficulty and other images are not the published task."""
    results = [
        entry(max_length=2000, score=0.3),
        entry(max_length=500, score=0.5),
        entry("pathfinder", max_length=1024, task_options={"difficulty": "hard"}, score=0.6),
        entry("pathfinder", max_length=1024, task_options={"difficulty": "easy"}, score=0.9),
        entry("image", max_length=784, score=0.97),
    ]
    cells = collect_cells(results)["chordmixer"]
    assert {name: cell.scores for name, cell in cells.items()} == {
        "listops": (30.0,),
        "listops, 500 tokens": (50.0,),
        "pathfinder": (60.0,),
        "pathfinder, easy": (90.0,),
        "image, 784 tokens": (97.0,),
    }


def test_published_rows_have_the_averages_of_the_publication():
    table = arena_table([entry(task="longdoc")])
    lines = {line.split(" | ")[0].strip("| "): line for line in table.splitlines()}
    assert lines["Transformer"].rstrip(" |").endswith("54.39")
    assert lines["BigBird"].rstrip(" |").endswith("55.01")
    assert lines["Performer"].rstrip(" |").endswith("51.41")
    assert "98.63" in lines["ChordMixer"]
    assert "longdoc" in lines["model"]
    assert all(len(row.scores) <= len(COLUMNS) for row in PUBLISHED)
    assert all(len(speed) == len(memory) == 4 for speed, memory in SPEED.values())


def test_costs_are_listed():
    text = costs_table([entry(), entry(model="bert", seconds=None, memory_mb=None)])
    assert "| listops | chordmixer | 40.00 | 1,000 | 500 | 2.00 | 0.500 | 300 | 0 |" in text


def test_results_files_are_read_back_and_repeated_runs_count_once(tmp_path):
    file = tmp_path / "results" / "arena.jsonl"
    append_result(file, entry(score=0.1))
    append_result(file, entry(score=0.2))
    append_result(file, entry(seed=1))
    found = read_results(file)
    assert [one["score"] for one in found] == [0.2, 0.4]
    with pytest.raises(ValueError, match="does not exist"):
        read_results(tmp_path / "none")
    record = tmp_path / "recorded.json"
    record.write_text(json.dumps({"runs": [{"arena": entry(seed=seed)} for seed in (0, 5)]}))
    assert [one["seed"] for one in read_results([file, record])] == [0, 1, 5]
    record.write_text("{}")
    with pytest.raises(ValueError, match="holds no result of the arena"):
        read_results(record)
    file.write_text("{]\n")
    with pytest.raises(ValueError, match="line 1 is not JSON"):
        read_results([file])
    file.write_text("\n{}\n")
    with pytest.raises(ValueError, match="line 2 has no 'task'"):
        read_results([file])


def test_the_command_writes_table_and_pictures(tmp_path):
    file = tmp_path / "arena.jsonl"
    for model in ("chordmixer", "bert"):
        append_result(file, entry(model=model, memory_mb=100.0 * len(model)))
    result = CliRunner().invoke(
        app,
        ["arena", "table", str(file), "--output", str(tmp_path / "out"), "--no-published"],
        catch_exceptions=False,
    )
    assert result.exit_code == 0
    assert (tmp_path / "out" / "tradeoff_listops.png").stat().st_size > 5_000
    assert "Longformer" not in (tmp_path / "out" / "arena.md").read_text()
    assert "chordmixer" in result.output


def test_pictures_need_what_they_show(tmp_path):
    with pytest.raises(ValueError, match="No run of the task 'text'"):
        plot_tradeoff([entry()], tmp_path / "x.png", "text")
    plot_reach({"one": np.full(50, 0.02)}, tmp_path / "reach.png")
    assert (tmp_path / "reach.png").stat().st_size > 5_000


def test_peak_memory_counts_what_comes_after():
    memory = PeakMemory()
    # pages of its own: an allocator may have kept some of earlier ones
    with mmap.mmap(-1, 40 * 2**20) as pages:
        pages.write(b"x" * (40 * 2**20 - 1))
        assert memory.read() > 30


def test_the_official_tasks_are_in_the_published_columns():
    assert name_task(entry(max_length=1996)) == "listops"
    assert name_task(entry(max_length=1024)) == "listops, 1,024 tokens"
    assert name_task(entry("text", max_length=4000)) == "text"
    easy = entry("pathfinder", max_length=1024, task_options={"difficulty": "easy"})
    assert name_task(easy) == "pathfinder, easy"
    leaks = {"difficulty": "hard", "reference_contrast": True}
    found = name_task(entry("pathfinder", max_length=1024, task_options=leaks))
    assert found == "pathfinder, reference_contrast"


def test_published_rows_say_fail_and_keep_their_average():
    rows = {line.split(" | ")[0]: line for line in arena_table([]).splitlines() if "|" in line}
    assert rows["| Transformer"].endswith("| 71.40 | FAIL | 54.39 |")
    assert rows["| IGLOO (external)"].endswith("| 67.50 |  | 62.25 |")
    assert rows["| TLB (external)"].endswith("| 79.06 | FAIL | 66.48 |")
    # the mean of these scores is 51.48
    assert rows["| Sinkhorn"].endswith("| FAIL | 51.39 |")
    assert rows["| ChordMixer"].endswith("| 98.63 | 85.16 |")
