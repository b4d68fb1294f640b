"""One file with the results of arena runs, a line of JSON each."""

import contextlib
import json
import os
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_REQUIRED = ("task", "model", "score", "steps", "parameters", "seed")


def append_result(path: str | os.PathLike, entry: Mapping[str, Any]) -> None:
    """Add one run to a results file."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "a", encoding="utf-8") as handle:
        handle.write(json.dumps(dict(entry)) + "\n")


def read_results(paths: str | os.PathLike | Sequence[str | os.PathLike]) -> list[dict[str, Any]]:
    """All runs of some files; a run that was repeated counts by its last line.

    Args:
        paths: Files of `arena run --results`, `metrics.json` of run folders, or files of
            `benchmarks/results`.
    """
    files = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: dict[tuple, dict[str, Any]] = {}
    for path in map(Path, files):
        if not path.is_file():
            raise ValueError(f"{path} does not exist: arena run --results writes such a file.")
        for place, entry in _read_entries(path):
            missing = [name for name in _REQUIRED if name not in entry]
            if missing:
                raise ValueError(f"{path}, {place} has no {missing[0]!r}.")
            found[*identify_settings(entry), entry["seed"]] = entry
    return list(found.values())


def _read_entries(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where an entry stands in a file, and the entry."""
    text = path.read_text("utf-8")
    if path.suffix == ".json":
        content = json.loads(text)
        for number, run in enumerate(content.get("runs", [content])):
            if "arena" not in run:
                raise ValueError(f"{path} holds no result of the arena.")
            yield f"run {number}", run["arena"]
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}, line {number} is not JSON: {error}.") from error


def identify_settings(entry: Mapping[str, Any]) -> tuple:
    """What is the same for runs that differ in nothing but their seed."""
    names = ("task", "model", "protocol", "steps", "parameters", "max_length", "part")
    names += ("learning_rate", "muon_learning_rate", "batch")
    options, sizes = (
        json.dumps(entry.get(name), sort_keys=True) for name in ("task_options", "examples")
    )
    before = (entry.get("self_pretraining") or {}).get("steps")
    return (*(entry.get(name) for name in names), options, sizes, before)


class PeakMemory:
    """Most memory in MB that this process has taken since, on top of what it had."""

    def __init__(self):
        import torch

        self.is_cuda = torch.cuda.is_available()
        if self.is_cuda:
            torch.cuda.reset_peak_memory_stats()
            self.before = torch.cuda.memory_allocated() / 2**20
            return
        with contextlib.suppress(OSError):
            # Linux forgets the peak so far
            Path("/proc/self/clear_refs").write_text("5")
        self.before = _status("VmRSS") or _peak()

    def read(self) -> float:
        import torch

        if self.is_cuda:
            return torch.cuda.max_memory_allocated() / 2**20 - self.before
        return max(0.0, (_status("VmHWM") or _peak()) - self.before)


def _status(name: str) -> float | None:
    """A size that Linux tells about this process, in MB."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 2**10
    return None


def _peak() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # bytes on macOS, kilobytes elsewhere
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
