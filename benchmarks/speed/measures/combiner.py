"""Combiner's patterns next to full attention."""

import math

from ...tables import Row
from ..commands.patterns import NEARLY_LINEAR, PATTERNS
from .base import Measure, Missing, measure, ratio_of

# goals are for these lengths: of growth from the first one on, and of speed
_SHORT, _MIDDLE = 4096, 16_384


def measure_patterns(rows: list[Row]) -> list[Measure]:
    made = []
    for name in PATTERNS:
        made += _measure_pattern(rows, name)
    lengths = _lengths(rows, "sdpa")
    middle = _MIDDLE if _MIDDLE in lengths else lengths[-1]
    ours, full = ({"network": name, "length": middle, "count": 1} for name in ("fixed", "sdpa"))
    speed = measure(
        f"Combiner, `fixed`, {middle:,} tokens: speed relative to full attention",
        "≥ 4x",
        "8x",
        lambda: f"{ratio_of(rows, 'median_s', full, ours):.1f}x",
    )
    return [speed, *made]


def _measure_pattern(rows: list[Row], name: str) -> list[Measure]:
    title = f"Combiner, `{name}`"
    ours = {"network": name, "count": 1}
    lengths, stored = _lengths(rows, "sdpa"), _lengths(rows, "eager")[0]
    short, long = _SHORT if _SHORT in lengths else lengths[0], lengths[-1]

    def growth() -> str:
        grown = ratio_of(rows, "median_s", ours | {"length": long}, ours | {"length": short})
        return f"{math.log(grown) / math.log(long / short):.2f}"

    def crossover() -> str:
        full = ours | {"network": "sdpa"}
        for length in lengths:
            at = {"length": length}
            if ratio_of(rows, "median_s", full | at, ours | at) > 1:
                return f"{length:,}"
        raise Missing("none of these")

    def memory() -> str:
        at = ours | {"length": stored}
        return f"{ratio_of(rows, 'peak_mib', at, at | {'network': 'eager'}):.2f}"

    def many() -> str:
        shapes = [row for row in rows if row["network"] == name and row["count"] > 1]
        if not shapes:
            raise Missing("not measured")
        count, length = shapes[0]["count"], shapes[0]["length"]
        one = ours | {"length": count * length}
        return f"{ratio_of(rows, 'median_s', ours | {'count': count, 'length': length}, one):.2f}"

    goal = "≤ 1.2" if name in NEARLY_LINEAR else "≤ 1.6"
    return [
        measure(f"{title}: exponent of growth, {short:,} to {long:,} tokens", goal, "", growth),
        measure(f"{title}: measured length from which it beats sdpa", "≤ 8,192", "", crossover),
        measure(
            f"{title}, {stored:,} tokens: peak memory relative to all scores stored",
            "≤ 0.25",
            "",
            memory,
        ),
        measure(f"{title}: time of many short sequences relative to one long", "", "", many),
    ]


def _lengths(rows: list[Row], network: str) -> list[int]:
    return sorted({row["length"] for row in rows if row["network"] == network})


def measure_generation(rows: list[Row]) -> list[Measure]:
    contexts = sorted({row["context"] for row in rows})
    short, long = contexts[0], contexts[-1]
    made = []
    for name in dict.fromkeys(row["network"] for row in rows if row["network"] != "llama"):
        ours = {"network": name}
        growth = (rows, "median_s", ours | {"context": long}, ours | {"context": short})
        at = {"context": long}
        full = (rows, "median_s", at | {"network": "llama"}, ours | at)
        made += [
            measure(
                f"generation, `{name}`: time per token after {long:,} tokens relative to {short:,}",
                "≤ 2" if name == "fixed" else "",
                "",
                lambda case=growth: f"{ratio_of(*case):.2f}",
            ),
            measure(
                f"generation, `{name}`, after {long:,} tokens: speed relative to full attention",
                "≥ 5x" if name == "fixed" else "",
                "",
                lambda case=full: f"{ratio_of(*case):.1f}x",
            ),
        ]
    return made
