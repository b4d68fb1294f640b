"""Trained models over files: speed, flat memory, runs that are killed, shards.

`predict` and `embed` on a FASTA file of real genes next to the model's own forward passes on the
same batches, tokenized before, and next to the text-classification pipeline of transformers, which
pads: with the same model, which leaves out what was padded, and with a ModernBERT of as many
parameters, which does not. Then one long run whose memory is watched, a run killed at random
places and resumed, and three shards; all three count rows that differ from those of a plain run.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from transformers import pipeline

from hf_mixers import ChordMixerConfig, ChordMixerForSequenceClassification, DnaTokenizer
from hf_mixers.data import load_embedded
from hf_mixers.inference import read_records
from hf_mixers.inference.embed import EMBEDDING_COLUMNS, embedding_rows
from hf_mixers.inference.engine import Engine, Part
from hf_mixers.inference.loading import load_classifier, make_engine
from hf_mixers.inference.predict import PredictionTable
from hf_mixers.inference.run import run_to_file

from ..contenders import build_network, chord_settings, count_parameters
from ..interleaved import Case, Group
from ..isolated import Built
from ..options import Options

SPEED = ("model alone", "predict", "embed", "pipeline, padded", "pipeline, ModernBERT")
RUNS = ("one long run", "killed and resumed", "three shards")
KILLS = 5
# sequences of a padded batch, as in the pipelines' own examples
BATCH_SIZE = 32
BUDGET = 65_536
# parts are small where many are needed
SMALL_BUDGET = 16_384
# settings of a model where files and not models are tested
SMALL = {"track_size": 4, "intermediate_size": 16, "max_position_embeddings": 1024}


def make_groups(options: Options) -> list[Group]:
    genes, many, kills = (20, 480, 1) if options.smoke else (1000, 200_000, KILLS)
    arguments = {"count": genes, "seed": options.seed, "longest": 400 if options.smoke else None}
    speed = Group(
        [Case({"network": name}, build_speed, {"name": name, **arguments}) for name in SPEED]
    )
    counts = {"one long run": many, "killed and resumed": many // 4, "three shards": many // 4}
    runs = Group(
        [
            Case(
                {"network": name},
                build_run,
                {"name": name, "count": counts[name], "kills": kills, "seed": options.seed},
            )
            for name in RUNS
        ],
        # the first run counts
        repeats=0,
        time_limit=4 * options.time_limit,
    )
    return [speed, runs]


# speed


def build_speed(name: str, count: int, longest: int | None, seed: int) -> Built:
    """One way to classify or embed the genes of a file."""
    folder = _make_folder()
    texts = [text[:longest] for text in load_embedded()["sequence"][:count]]
    source = _write_fasta(folder / "genes.fa", texts)
    longest_text = max(map(len, texts))
    if name == "pipeline, ModernBERT":
        model = build_network("modernbert", longest_text).eval()
        model.save_pretrained(folder / "model")
        DnaTokenizer().save_pretrained(folder / "model")
    else:
        model = _save_model(folder / "model", chord_settings(longest_text), seed)
    step = _SPEED_STEPS[name](str(folder / "model"), str(source), texts)
    tokens = sum(map(len, texts))
    facts = {"parameters": count_parameters(model), "sequences": len(texts), "tokens": tokens}
    return Built(step, facts)


def _make_alone(model: str, source: str, texts: list[str]) -> Callable[[], None]:
    """Forward passes on batches that `predict` makes, which are ready."""
    engine = make_engine(model, None, load_classifier, {"device": "cpu"}, token_budget=BUDGET)
    batches: list[dict[str, Any]] = []

    def keep(inputs: dict[str, Any], lengths: list[int]) -> list[None]:
        batches.append(inputs)
        return [None] * len(lengths)

    for part in engine.read_parts(read_records(source)):
        engine.compute(part, keep)

    def step() -> None:
        with torch.inference_mode():
            for inputs in batches:
                engine.model(**inputs)

    return step


def _make_command(verb: str) -> Callable[[str, str, list[str]], Callable[[], None]]:
    """What `hf-mixers predict` and `hf-mixers embed` do once the model is loaded."""

    def make(model: str, source: str, texts: list[str]) -> Callable[[], None]:
        options = {"device": "cpu"}
        engine = make_engine(model, None, load_classifier, options, token_budget=BUDGET)
        table = PredictionTable(engine.model.config)
        rows, columns, ending = table.rows, table.columns, ".tsv"
        if verb == "embed":
            rows = partial(embedding_rows, layer=-1, pooling="mean")
            columns, ending = EMBEDDING_COLUMNS, ".npy"
        target = Path(source).with_suffix(ending)

        def step() -> None:
            settings = {"model": model}
            run_to_file(engine, [source], target, rows, columns, settings=settings, overwrite=True)

        return step

    return make


def _make_pipeline(model: str, source: str, texts: list[str]) -> Callable[[], None]:
    classify = pipeline("text-classification", model, device="cpu", batch_size=BATCH_SIZE)
    return lambda: list(classify(texts)) and None


_SPEED_STEPS = {
    "model alone": _make_alone,
    "predict": _make_command("predict"),
    "embed": _make_command("embed"),
    "pipeline, padded": _make_pipeline,
    "pipeline, ModernBERT": _make_pipeline,
}


# whole runs


def build_run(name: str, count: int, kills: int, seed: int) -> Built:
    """A run over many short sequences that must end with the right rows."""
    folder = _make_folder()
    source = _write_fasta(folder / "many.fa", _draw_sequences(count, seed))
    model = _save_model(folder / "model", SMALL, seed)
    # a smoke run has several parts, too
    budget = SMALL_BUDGET if count >= 1000 else 256
    task = _Task(folder, str(source), budget, random.Random(seed))
    step = {
        "one long run": task.watch_memory,
        "killed and resumed": lambda: task.kill_and_resume(kills),
        "three shards": task.join_shards,
    }[name]
    return Built(step, {"parameters": count_parameters(model), "sequences": count})


class _Task:
    """Runs of `predict` over one file.

    Args:
        random: Where runs are killed.
    """

    def __init__(self, folder: Path, source: str, budget: int, random: random.Random):
        self.folder, self.source, self.budget, self.random = folder, source, budget, random
        self.model = str(folder / "model")

    def run(self, name: str, shard: tuple[int, int] = (0, 1), watch: Any = None) -> list[str]:
        """Lines of a run in this process, sorted."""
        options = {"device": "cpu"}
        engine = make_engine(self.model, None, load_classifier, options, token_budget=self.budget)
        table = PredictionTable(engine.model.config)

        def compute(engine: Engine, part: Part) -> list[dict[str, Any]]:
            if watch is not None:
                watch()
            return table.rows(engine, part)

        settings = {"model": self.model, "dtype": None, "top": 1, "all_scores": False}
        target = self.folder / name
        run_to_file(
            engine,
            [self.source],
            target,
            compute,
            table.columns,
            settings=settings,
            shard=shard,
            sequence_column="sequence",
        )
        lines = target.read_text().splitlines()[1:]
        target.unlink()
        return sorted(lines)

    def watch_memory(self) -> dict[str, float]:
        """Resident memory in the first and in the last tenth of the parts."""
        process, seen = psutil.Process(), list[int]()
        lines = self.run("long.tsv", watch=lambda: seen.append(process.memory_info().rss))
        tenth = max(1, len(seen) // 10)
        first, last = np.mean(seen[:tenth]), np.mean(seen[-tenth:])
        return {"rows": len(lines), "parts": len(seen), "growth": round(last / first, 4)}

    def kill_and_resume(self, kills: int) -> dict[str, float]:
        """Rows that differ after some kills, each after a random number of further parts."""
        seen = list[None]()
        whole = self.run("whole.tsv", watch=lambda: seen.append(None))
        target = self.folder / "killed.tsv"
        parts = target.with_name(f"{target.name}.parts")
        command = [sys.executable, "-m", "hf_mixers.cli.main", "predict", self.model, self.source]
        command += ["-o", str(target), "--token-budget", str(self.budget), "--device", "cpu"]
        environment = {**os.environ, "TQDM_DISABLE": "1"}
        done = 0
        for _ in range(kills):
            process = subprocess.Popen(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            further = self.random.randint(1, max(1, len(seen) // kills))
            goal = min(len(list(parts.glob("*.done"))) + further, len(seen) - 1)
            while process.poll() is None and len(list(parts.glob("*.done"))) < goal:
                time.sleep(0.001)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                done += 1
            process.wait()
            if target.exists():
                break
        if not target.exists():
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        resumed = sorted(target.read_text().splitlines()[1:])
        target.unlink()
        return {"rows": len(resumed), "kills": done, "different": _count_different(whole, resumed)}

    def join_shards(self) -> dict[str, float]:
        """Rows of three shards that are not those of the whole."""
        whole = self.run("whole.tsv")
        shards = [self.run(f"{index}.tsv", (index, 3)) for index in range(3)]
        joined = sorted(line for lines in shards for line in lines)
        return {"rows": len(joined), "different": _count_apart(whole, joined)}


def _count_apart(one: list[str], other: list[str]) -> int:
    """Rows with another record or class, or whose probabilities differ by more than 1e-5.

    Batches of a shard are others than those of the whole, and with them the last digits.
    """
    pairs = zip(one, other, strict=False)
    apart = 0
    for mine, theirs in ((a.split("\t"), b.split("\t")) for a, b in pairs):
        apart += mine[:3] != theirs[:3] or abs(float(mine[3]) - float(theirs[3])) > 1e-5
    return apart + abs(len(one) - len(other))


def _count_different(one: list[str], other: list[str]) -> int:
    return len(set(one) ^ set(other)) + abs(len(one) - len(other))


# files


def _make_folder() -> Path:
    """A folder that goes when this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="hf_mixers_")
    _KEPT.append(folder)
    return Path(folder.name)


_KEPT: list[tempfile.TemporaryDirectory] = []


def _write_fasta(path: Path, texts: list[str]) -> Path:
    with open(path, "w") as file:
        file.writelines(f">s{number}\n{text}\n" for number, text in enumerate(texts))
    return path


def _draw_sequences(count: int, seed: int) -> list[str]:
    """Random bases, lengths log-uniform from 30 to 300."""
    generator = np.random.default_rng(seed)
    lengths = np.exp(generator.uniform(*np.log([30, 300]), size=count)).astype(int)
    bases = np.frombuffer(b"ACGT", np.uint8)
    letters = bases[generator.integers(4, size=int(lengths.sum()))].tobytes().decode()
    ends = np.cumsum(lengths)
    return [letters[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def _save_model(folder: Path, settings: dict[str, Any], seed: int) -> torch.nn.Module:
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(seed)
    model = ChordMixerForSequenceClassification(ChordMixerConfig(num_labels=4, **settings))
    model.save_pretrained(folder)
    DnaTokenizer().save_pretrained(folder)
    return model.eval()
