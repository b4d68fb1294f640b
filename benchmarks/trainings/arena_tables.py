"""Tables and pictures of the recorded trainings on tasks of the arena."""

from collections.abc import Callable
from pathlib import Path

from hf_mixers.reporting.arena_plots import plot_tradeoff
from hf_mixers.reporting.arena_table import name_task

from ..tables import make_table
from .arena import MODELS, SELF_PRETRAINED, STEPS, TASKS
from .tables import Record, read_records

TITLES = {
    "listops_short": "ListOps, 100 to 500 tokens",
    "listops_full": "ListOps, 500 to 2,000 tokens",
    "pathfinder_easy": "Pathfinder 32, easy",
    "pathfinder_hard": "Pathfinder 32, hard",
    "mnist": "MNIST as pixels",
    "imdb": "IMDb as bytes, up to 4,096",
    "longdoc": "documents as characters, 4.5k to 124k",
}
NAMES = {
    "chordmixer": "ChordMixer",
    "paramixer": "Paramixer",
    "mrsformer": "MrsFormer",
    "combiner": "Combiner",
    "bert": "BERT",
    "nystromformer": "Nyströmformer",
}
# scores of regressions on words, by those who made the data sets
REGRESSIONS = {"imdb": "88.0 (TF-IDF)", "longdoc": "92.2 (TF-IDF)"}


def make_arena_section(folder: Path) -> str:
    """Accuracy of each model on each task, then time and memory of its training steps."""
    records = read_records(folder)
    runs = [(task, end) for task in TASKS for end in _ends(task)]
    shown = [run for run in runs if any(_name(*run, model) in records for model in MODELS)]
    if not shown:
        return "Not run yet.\n"
    scores = [_row(records, *run, _score, _choose_above(_chance(records, run[0]))) for run in shown]
    for row, (task, _) in zip(scores, shown, strict=True):
        row += [_constant(records, task), REGRESSIONS.get(task, "")]
    names = [NAMES[model] for model in MODELS]
    tables = [
        make_table(["accuracy in %, test part", *names, "constant answer", "regression"], scores)
    ]
    for title, measure in (("seconds a step", _pace), ("peak memory in MB", _memory)):
        rows = [_row(records, *run, measure, min) for run in shown if not run[1]]
        tables.append(make_table([f"training: {title}", *names], rows))
    steps = "; ".join(
        f"{TITLES[task]}: {count:,} of {tokens:,} tokens"
        for task, (tokens, count) in STEPS.items()
        if (task, "") in shown
    )
    note = f"Steps: {steps}. One seed and one thread, on a machine with other work.\n"
    pictures = "".join(
        f"\n![{TITLES[task]}: score over speed, circles as large as the peak memory]"
        f"(../images/{_picture(task)})\n"
        for task in TASKS
        if len(_entries(records, task)) > 1
    )
    return "\n".join([*tables, note]) + pictures


def draw_arena(folder: Path, images: Path) -> list[Path]:
    """Score over speed for each task, circles as large as the peak memory."""
    records = read_records(folder)
    found = []
    for task in TASKS:
        if len(entries := _entries(records, task)) > 1:
            found.append(images / _picture(task))
            plot_tradeoff(entries, found[-1], name_task(entries[0]))
    return found


def _entries(records: dict[str, Record], task: str) -> list[Record]:
    """What is recorded of a task without self-pretraining, by the names of models."""
    found = {model: records.get(_name(task, "", model)) for model in MODELS}
    return [{**record["arena"], "model": NAMES[model]} for model, record in found.items() if record]


def _picture(task: str) -> str:
    return f"arena_{task}.png"


def _ends(task: str) -> tuple[str, ...]:
    return ("", "_pretrained") if task in SELF_PRETRAINED else ("",)


def _name(task: str, end: str, model: str) -> str:
    return f"arena_{task}_{model}{end}"


def _row(
    records: dict[str, Record],
    task: str,
    end: str,
    measure: Callable[[Record], tuple[float, str]],
    choose: Callable[..., float | None],
) -> list[str]:
    """A task and the figure of each model, the one that is chosen bold."""
    found = {
        model: measure(records[name])
        for model in MODELS
        if (name := _name(task, end, model)) in records
    }
    best = choose([value for value, _ in found.values()]) if found else None
    cells = [
        "" if model not in found else _emphasise(found[model][1], found[model][0] == best)
        for model in MODELS
    ]
    return [TITLES[task] + (", self-pretrained" if end else ""), *cells]


def _emphasise(text: str, is_best: bool) -> str:
    return f"**{text}**" if is_best else text


def _score(record: Record) -> tuple[float, str]:
    score = 100 * record["arena"]["score"]
    return round(score, 1), f"{score:.1f}"


def _pace(record: Record) -> tuple[float, str]:
    pace = record["arena"]["seconds_per_step"]
    return pace, f"{pace:.2g}"


def _memory(record: Record) -> tuple[float, str]:
    memory = record["arena"]["memory_mb"]
    return memory, f"{memory:,.0f}"


def _constant(records: dict[str, Record], task: str) -> str:
    """The score of the most frequent answer, which is the same for all models."""
    found = _find(records, task)
    return f"{100 * found['value']:.1f}" if found else ""


def _chance(records: dict[str, Record], task: str) -> float:
    """What a score must exceed to be better than the most frequent answer, in %."""
    found = _find(records, task)
    return 100 * found["high"] if found else 0.0


def _find(records: dict[str, Record], task: str) -> Record | None:
    """The accuracy of the most frequent answer with its interval."""
    for model in MODELS:
        if record := records.get(_name(task, "", model)):
            return record["test"]["constant"]["overall"]["accuracy"]
    return None


def _choose_above(least: float) -> Callable[[list[float]], float | None]:
    """The greatest of some values, if it exceeds what is given."""
    return lambda values: max((value for value in values if value > least), default=None)
