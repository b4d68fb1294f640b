"""A whole run over files: resumable, in one process or several, with a summary at the end."""

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from accelerate import PartialState
from tqdm.auto import tqdm

from ..data.records import find_files
from ..reporting.environment import run_environment
from ..reporting.files import write_json
from .engine import Engine, Part, prefetch
from .outputs import PartedOutput
from .records import STDIN, read_records

# what of a file's bytes are letters of sequences, about
_SHARE_OF_LETTERS = {"fasta": 0.95, "fastq": 0.48}

Rows = Sequence[Mapping[str, Any]]


@dataclass
class Summary:
    """What a run did."""

    records: int = 0
    tokens: int = 0
    seconds: float = 0.0
    tokens_per_second: float = 0.0
    records_of_earlier_runs: int = 0
    notes: dict[str, int] = field(default_factory=dict)


def run_to_file(
    engine: Engine,
    sources: Sequence[str],
    target: str | Path,
    compute: Callable[[Engine, Part], Rows],
    columns: Sequence[str],
    *,
    settings: Mapping[str, Any],
    shard: tuple[int, int] = (0, 1),
    overwrite: bool = False,
    **reading: Any,
) -> Summary:
    """Write the rows of all records to a file; a run that was stopped goes on where it was.

    Started by `accelerate launch` or `torchrun`, the processes share the parts.

    Args:
        compute: Gives the rows of a part.
        columns: Names of the values of a row.
        settings: What the rows depend on besides model and input.
        reading: Further options of `read_records`.
    """
    state = PartialState()
    run = {
        **settings,
        "token_budget": engine.token_budget,
        "both_strands": engine.both_strands,
        "shard": list(shard),
        "sources": [stamp_source(source) for source in sources],
    }
    with state.main_process_first():
        output = PartedOutput(target, run, columns, overwrite and state.is_main_process)
    done = output.done()
    state.wait_for_everyone()

    def is_mine(number: int) -> bool:
        return number not in done and number % state.num_processes == state.process_index

    summary, begin = Summary(records_of_earlier_runs=sum(done.values())), time.perf_counter()
    records = read_records(list(sources), shard=shard, **reading)
    notes: Counter[str] = Counter()
    with _make_bar(sources, shard, state) as bar:
        for part in prefetch(engine.read_parts(records, is_mine)):
            output.write(part.number, compute(engine, part))
            lengths = [len(item.ids) for item in part.items if item.ids is not None]
            notes.update(_group_note(item.note) for item in part.items if item.note)
            summary.records += len(part.items)
            summary.tokens += sum(lengths)
            bar.update(sum(lengths))
    state.wait_for_everyone()
    summary.seconds = round(time.perf_counter() - begin, 3)
    summary.tokens_per_second = round(summary.tokens / max(summary.seconds, 1e-9), 1)
    summary.notes = dict(notes)
    if state.is_main_process:
        output.join()
        _write_summary(Path(target), summary, engine, settings, sources)
    state.wait_for_everyone()
    return summary


def _group_note(note: str) -> str:
    """Notes that differ in a letter only are counted together."""
    return "other letters" if note.startswith("letter ") else note


def _write_summary(
    target: Path, summary: Summary, engine: Engine, settings: Mapping[str, Any], sources
) -> None:
    content = {
        **asdict(summary),
        "input": [Path(source).name for source in sources],
        "settings": {**settings, "token_budget": engine.token_budget},
        "model": type(engine.model).__name__,
        "environment": run_environment(),
    }
    write_json(target.with_name(f"{target.name}.summary.json"), content)


def stamp_source(source: str) -> list[Any]:
    """What tells a source from another of the same name."""
    if source == STDIN or not os.path.isfile(source):
        return [source]
    state = os.stat(source)
    return [source, state.st_size, state.st_mtime_ns]


def _make_bar(sources: Sequence[str], shard: tuple[int, int], state: PartialState) -> tqdm:
    return tqdm(
        total=_estimate_tokens(sources, shard[1]),
        unit=" tokens",
        unit_scale=True,
        disable=None if state.is_main_process else True,
    )


def _estimate_tokens(sources: Sequence[str], shards: int) -> int | None:
    """About how many tokens there are, where the size of the files tells."""
    if STDIN in sources:
        return None
    files, kind = find_files(list(sources))
    if kind not in _SHARE_OF_LETTERS or any(file.endswith((".gz", ".bgz")) for file in files):
        return None
    return int(sum(map(os.path.getsize, files)) * _SHARE_OF_LETTERS[kind] / shards)
