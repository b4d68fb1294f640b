"""The table of causal language models: Combiner, full attention, and patterns without summaries."""

from pathlib import Path
from statistics import mean, stdev

from ..tables import make_table
from .tables import Record, read_records

CORPORA = {"linux": "characters of source code", "genomes": "bases of genomes"}
# rows, with the perplexity of table 4 of the paper (Wiki-40B, 2,048 tokens)
ATTENTIONS = {
    "full": ("full attention", "17.26"),
    "fixed": ("**Combiner, `fixed`**", "17.70"),
    "fixed_sparse": ("`fixed` without summaries", "18.04"),
    "axial_rowmajor": ("**Combiner, `axial_rowmajor`**", "17.56"),
    "axial_sparse": ("axial without summaries", "20.82"),
}


def make_combiner_section(folder: Path) -> str:
    """Perplexity of each attention on each corpus, next to n-grams and to the paper's."""
    records = read_records(folder)
    found = [name for name in CORPORA if f"lm_{name}_full" in records]
    if not found:
        return "Not run yet.\n"
    rows = []
    for attention, (title, published) in ATTENTIONS.items():
        cells = [_describe(records, corpus, attention) for corpus in found]
        rows.append([title, *cells, published])
    full = [records[f"lm_{corpus}_full"] for corpus in found]
    for name in (one for one in full[0]["runs"][0]["test"] if one != "model"):
        rows.append([name, *(f"{_perplexities(record, name)[0]:.3f}" for record in full), ""])
    header = ["perplexity of the test part", *(CORPORA[corpus] for corpus in found)]
    effort = ", ".join(
        f"{record['parameters']:,} parameters on {CORPORA[corpus]}"
        for corpus, record in zip(found, full, strict=True)
    )
    seeds = len(full[0]["runs"])
    note = f"Mean and standard deviation of {seeds} seeds; in brackets relative to full attention."
    return f"{make_table([*header, 'paper, Wiki-40B'], rows)}\n{note} {effort}.\n"


def _describe(records: dict[str, Record], corpus: str, attention: str) -> str:
    record = records.get(f"lm_{corpus}_{attention}")
    if record is None:
        return "not run"
    values = _perplexities(record, "model")
    share = mean(values) / mean(_perplexities(records[f"lm_{corpus}_full"], "model"))
    return f"{mean(values):.3f} ± {stdev(values):.3f} ({share:.3f})"


def _perplexities(record: Record, name: str) -> list[float]:
    return [run["test"][name]["perplexity"] for run in record["runs"]]
