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

from ..reporting.environment import run_environment
from .engine import Engine, Part, prefetch
from .loading import join_processes
from .memory import HeapTrimmer
from .outputs import Format, PartedOutput
from .records import STDIN

# counts that are not those of a note
_COUNTED = ("records", "tokens")
# what of the folder of a model its results depend on
_MODEL_FILES = (
    "*.safetensors",
    "*.bin",
    "config.json",
    "tokenizer*.json",
    "vocab*",
    "preparation.json",
)

Rows = Sequence[Mapping[str, Any]]


@dataclass
class Summary:
    """What a run did; counts are of all records of the output.

    Args:
        records_of_earlier_runs: How many of the records were there already.
        notes: Records by what is said of them.
    """

    records: int = 0
    tokens: int = 0
    seconds: float = 0.0
    tokens_per_second: float = 0.0
    processes: int = 1
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
    format: Format | None = None,
    **reading: Any,
) -> Summary:
    """Write the rows of all records to a file; a run that was stopped goes on where it was.

    Started by `accelerate launch` or `torchrun`, the processes share the parts. Standard input
    cannot be compared with that of an earlier run, so it is always read from the start.

    Args:
        compute: Gives the rows of a part.
        columns: Names of the values of a row.
        settings: What the rows depend on besides input; `model` may be a folder.
        format: How rows are written; by default the ending of the file tells.
        reading: Further options of `read_records`.
    """
    state = join_processes(engine.device)
    is_stream = STDIN in sources
    if is_stream and state.num_processes > 1:
        raise ValueError("Standard input is read by one process, got several: give files.")
    run = _describe(engine, sources, {**settings, **reading}, shard)
    run_settings = {
        "token_budget": engine.token_budget,
        "rc_average": engine.both_strands,
        "strict": engine.strict,
        "shard": "/".join(map(str, shard)),
        **reading,
    }
    output = PartedOutput(target, run, columns, format)
    done = output.share(state, overwrite=overwrite, resume=not is_stream)

    def is_mine(number: int) -> bool:
        return number not in done and number % state.num_processes == state.process_index

    begin = time.perf_counter()
    records = engine.read(sources, shard=shard, **reading)
    trim = HeapTrimmer()
    with output.keep_parts(), _make_bar(engine, sources, shard, state) as bar:
        for part in prefetch(engine.read_parts(records, is_mine)):
            counts = count_items(part)
            output.write(part.number, compute(engine, part), counts)
            bar.update(counts["tokens"])
            trim()
    if state.is_main_process and shard[0] > 0 and not output.done():
        # fewer records than shards
        output.write(0, [])
    state.wait_for_everyone()
    summary = _summarise(output, done, time.perf_counter() - begin, state.num_processes)
    # no process reads counts after this, so that the folder can go
    state.wait_for_everyone()
    if state.is_main_process:
        with output.keep_parts():
            output.join()
        output.end(_tell(summary, engine, {**settings, **run_settings}, sources))
    state.wait_for_everyone()
    return summary


def count_items(part: Part) -> Counter[str]:
    """Records, tokens and notes of a part."""
    counts = Counter(_group_note(item.note) for item in part.items if item.note)
    counts["records"] = len(part.items)
    counts["tokens"] = sum(item.tokens for item in part.items)
    return counts


def _group_note(note: str) -> str:
    """Notes that differ in a letter only are counted together."""
    return "other letters" if note.startswith("letter ") else note


def _summarise(
    output: PartedOutput, done: Mapping[int, int], seconds: float, processes: int
) -> Summary:
    """Counts of all processes and of the runs before."""
    total, earlier = output.count(), output.count(done)
    rate = (total["tokens"] - earlier["tokens"]) / max(seconds, 1e-9)
    return Summary(
        records=total["records"],
        tokens=total["tokens"],
        seconds=round(seconds, 3),
        tokens_per_second=round(rate, 1),
        processes=processes,
        records_of_earlier_runs=earlier["records"],
        notes={name: count for name, count in total.items() if name not in _COUNTED},
    )


def _describe(
    engine: Engine, sources: Sequence[str], settings: Mapping[str, Any], shard: tuple[int, int]
) -> dict[str, Any]:
    """What the parts of a run depend on: they are used again only where all of it is equal."""
    files = sources if STDIN in sources else engine.find_files(sources)
    model = Path(str(settings.get("model", "")))
    made = [str(path) for name in _MODEL_FILES for path in sorted(model.glob(name))]
    return {
        **settings,
        # of a folder its files, of a repository its commit
        "weights": [stamp_source(path) for path in made] if model.is_dir() else [],
        "commit": getattr(engine.model.config, "_commit_hash", None),
        "token_budget": engine.token_budget,
        "look_ahead": engine.look_ahead,
        "both_strands": engine.both_strands,
        "strict": engine.strict,
        "shard": list(shard),
        "sources": [stamp_source(file) for file in files],
    }


def _tell(
    summary: Summary, engine: Engine, settings: Mapping[str, Any], sources: Sequence[str]
) -> dict[str, Any]:
    """What the summary of a run says."""
    return {
        **asdict(summary),
        "input": [Path(source).name for source in sources],
        "settings": settings,
        "model": type(engine.model).__name__,
        "environment": run_environment(),
    }


def stamp_source(source: str) -> list[Any]:
    """What tells a source from another of the same name."""
    if source == STDIN or not os.path.isfile(source):
        return [source]
    state = os.stat(source)
    return [source, state.st_size, state.st_mtime_ns]


def _make_bar(
    engine: Engine, sources: Sequence[str], shard: tuple[int, int], state: PartialState
) -> tqdm:
    """Progress of this process: tokens, tokens per second, time left."""
    total = None if STDIN in sources else engine.estimate_tokens(sources)
    return tqdm(
        total=total and total // (shard[1] * state.num_processes),
        unit=" tokens",
        unit_scale=True,
        disable=None if state.is_main_process else True,
    )
