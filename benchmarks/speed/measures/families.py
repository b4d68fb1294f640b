"""Operations of the other families next to simpler ones."""

from ...tables import Row
from .base import Measure, longest, measure, ratio_of, short


def measure_links(rows: list[Row]) -> list[Measure]:
    made = []
    ours = {"network": "paramixer"}
    for other, title in (("gather", "gathering all links"), ("torch.sparse", "torch.sparse")):
        theirs = {"network": other}
        head = f"factors of a Paramixer, {longest(rows):,} tokens, forward and backward"
        for what, must, case, unit in (
            ("speed", "≥ 2x", (rows, "median_s", theirs, ours), "x"),
            ("peak memory", "≤ 0.5", (rows, "peak_mib", ours, theirs), ""),
        ):
            made.append(
                measure(
                    f"{head}: {what} relative to {title}",
                    must,
                    "",
                    lambda case=case, unit=unit: f"{short(ratio_of(*case))}{unit}",
                )
            )
    return made


def measure_heads(rows: list[Row]) -> list[Measure]:
    made = []
    for dropout, kind in ((0.0, "scores not stored"), (0.1, "dropout, scores stored")):
        pair = [{"network": name, "dropout": dropout} for name in ("mrsformer", "one scale")]
        for column, what in (("median_s", "time"), ("peak_mib", "peak memory")):
            made.append(
                measure(
                    f"heads of a MrsFormer, {longest(rows):,} tokens, forward and backward, "
                    f"{kind}: {what} relative to heads of one scale",
                    "≤ 0.6",
                    "0.33",
                    lambda case=(rows, column, *pair): f"{ratio_of(*case):.2f}",
                )
            )
    return made
