"""ChordMixer next to a plain implementation, to other networks and to what is ideal."""

from ...tables import Row, find_rows
from ..commands.parts import PARTS
from .base import Measure, Missing, find, longest, measure, ratio_of, tokens_per_second


def measure_blocks(rows: list[Row]) -> list[Measure]:
    length = longest(rows)

    def ratio(memory: str) -> str:
        ours = {"network": "chordmixer", "memory": memory, "mode": "forward", "length": length}
        return f"{ratio_of(rows, 'median_s', ours, {**ours, 'network': 'products'}):.2f}"

    return [
        measure(
            f"block, forward, {length:,} tokens, {memory} memory: time relative to its two matrix"
            " products",
            "≤ 1.6",
            "1.3",
            lambda memory=memory: ratio(memory),
        )
        for memory in ("fresh", "reused")
    ]


def measure_peers(rows: list[Row]) -> list[Measure]:
    lengths = sorted({row["length"] for row in rows})
    # goals relative to peers are for 16k tokens, those relative to the plain twin for the longest
    middle = max((one for one in lengths if one <= 16_384), default=lengths[0])

    def compare(column: str, mode: str, length: int, upper: str, lower: str) -> float:
        labels = {"mode": mode, "length": length}
        return ratio_of(rows, column, {**labels, "network": upper}, {**labels, "network": lower})

    made = []
    for mode, text, length, other, title, must, aim in (
        ("forward", "network, forward", lengths[-1], "plain", "plain", "≥ 2.0x", "3x"),
        ("training", "training step", middle, "nystromformer", "Nyströmformer", "≥ 2.5x", ""),
        ("training", "training step", middle, "fnet", "FNet", "> 1x", "2x"),
    ):
        case = ("median_s", mode, length, other, "chordmixer")
        name = f"{text}, {length:,} tokens: speed relative to {title}"
        made.append(measure(name, must, aim, lambda case=case: f"{compare(*case):.2f}x"))
    return made


def measure_memory(rows: list[Row]) -> list[Measure]:
    made = []
    task = find_rows(rows, task="training step")
    # operation by operation, autograd stores all activations
    stored = {"network": "unfused"}
    for name, must, aim in (("reversible", "≤ 0.35", "0.2"), ("chordmixer", "", "")):
        title = "default" if name == "chordmixer" else name
        made.append(
            measure(
                f"training step, {longest(task):,} tokens: peak memory, {title} relative to all"
                " stored",
                must,
                aim,
                lambda name=name: f"{ratio_of(task, 'peak_mib', {'network': name}, stored):.2f}",
            )
        )

    for name in ("chordmixer", "checkpointed", "reversible"):
        title = "default" if name == "chordmixer" else name
        for column, what, must, aim, flip in (
            ("median_s", "speed", "≥ 1.5x", "2x", True),
            ("peak_mib", "peak memory", "≤ 0.45", "0.25", False),
        ):
            pair = [{"network": name}, {"network": "plain"}]
            case = (task, column, *(reversed(pair) if flip else pair))
            unit = "x" if flip else ""
            made.append(
                measure(
                    f"training step, {longest(task):,} tokens, {title}: {what} relative to plain",
                    must,
                    aim,
                    lambda case=case, unit=unit: f"{ratio_of(*case):.2f}{unit}",
                )
            )

    def peak(labels: dict) -> str:
        mib = find(rows, **labels)["peak_mib"]
        if mib is None:
            raise Missing("not measured")
        return f"{mib / 1024:.1f} GiB"

    for task, network, text, aim in (
        ("long training step", "chordmixer", "default", None),
        ("long training step", "checkpointed", "checkpointed", ""),
        ("long training step", "reversible", "reversible", "8 GiB"),
        ("long inference", "chordmixer", "inference", ""),
    ):
        lengths = sorted({row["length"] for row in find_rows(rows, task=task)})
        for length in lengths:
            labels = {"task": task, "network": network, "length": length}
            what = text if task == "long inference" else f"one optimiser step, {text}"
            name = f"one sequence of {length:,} tokens, {what}: peak memory"
            # the default is not meant for it, and more than the shortest is a bonus
            must = "≤ 20 GiB" if aim is not None and length == lengths[0] else ""
            made.append(measure(name, must, aim or "", lambda labels=labels: peak(labels)))
    return made


def measure_mixed(rows: list[Row]) -> list[Measure]:
    def over_ideal(batch: str, mode: str) -> str:
        one = find(rows, network="chordmixer", mode=mode, batch="one long sequence")
        row = find(rows, network="chordmixer", mode=mode, batch=batch)
        ideal = one["median_s"] / one["token_blocks"] * row["token_blocks"]
        return f"{row['median_s'] / ideal:.2f}"

    def speed_of_one() -> str:
        labels = {"mode": "training", "batch": "one long sequence"}
        pair = [{**labels, "network": network} for network in ("plain", "chordmixer")]
        return f"{ratio_of(rows, 'median_s', *pair):.2f}x"

    longest = max(row["longest"] for row in rows)
    name = f"training step, {longest:,} tokens, default, in the run of the mixed batches: speed"
    name += " relative to plain"
    return [measure(name, "≥ 1.5x", "2x", speed_of_one)] + [
        measure(
            f"{text}, a batch of {described}: time relative to ideal",
            "≤ 1.3",
            "1.1",
            lambda batch=batch, mode=mode: over_ideal(batch, mode),
        )
        for mode, text in (("forward", "forward"), ("training", "training step"))
        for batch, described in (
            ("genes", "genes"),
            ("spread", "very different lengths"),
            ("short", "many short sequences"),
        )
    ]


def measure_parts(rows: list[Row]) -> list[Measure]:
    def describe(network: str) -> str:
        row = find(rows, network=network)
        seconds = {part: row[f"{part}_s"] / max(1, row["repeats"]) for part in (*PARTS, "rest")}
        return ", ".join(f"{part} {value:.2g} s" for part, value in seconds.items())

    return [
        measure(
            f"training step, {longest(rows):,} tokens, {title}: where the time goes",
            "",
            "",
            lambda network=network: describe(network),
        )
        for network, title in (("chordmixer", "default"), ("plain", "plain"))
    ]


def measure_scaling(rows: list[Row]) -> list[Measure]:
    lengths = sorted({row["length"] for row in rows})
    start = next((one for one in lengths if one >= 65_536), lengths[0])
    end = lengths[-1]

    def growth(mode: str) -> str:
        labels = {"network": "chordmixer", "mode": mode}
        long, short = (find(rows, **labels, length=length) for length in (end, start))
        grown = long["median_s"] / short["median_s"]
        return f"{grown / (long['token_blocks'] / short['token_blocks']):.2f}"

    return [
        measure(
            f"{mode}, growth from {start:,} to {end:,} tokens relative to N log N",
            "≤ 1.2",
            "1.05",
            lambda mode=mode: growth(mode),
        )
        for mode in ("forward", "training")
    ]


def measure_throughput(rows: list[Row]) -> list[Measure]:
    def rate(network: str, layout: str) -> float:
        return tokens_per_second(find(rows, network=network, layout=layout))

    return [
        measure(
            f"training on genes: real tokens per second relative to {text}",
            must,
            "",
            lambda other=other: f"{rate('chordmixer', 'flat') / rate(*other):.1f}x",
        )
        for other, text, must in (
            (("plain", "padded"), "plain, padded to the longest gene", "≥ 5x"),
            (
                ("plain", "padded to the batch"),
                "plain, padded to the longest gene of the batch",
                "",
            ),
            (("chordmixer", "padded"), "ChordMixer, padded to the longest gene", ""),
        )
    ]
