"""The figures that matter, as ratios of rows of one table, so of one run."""

from ..tables import Row, find_rows
from .commands.parts import PARTS
from .measure import Measure, Missing
from .measure import find_ratio as _ratio
from .measure import find_row as _find
from .measure import make_measure as _measure
from .measures_devices import measure_devices, measure_parallel, measure_precision

Tables = dict[str, list[Row]]


def make_measures(tables: Tables) -> list[Measure]:
    """All figures that the tables allow."""
    made = []
    for command, make in _MAKERS:
        if rows := tables.get(command):
            made += make(rows)
    return made


def _longest(rows: list[Row]) -> int:
    return max(row["length"] for row in rows)


def _blocks(rows: list[Row]) -> list[Measure]:
    length = _longest(rows)

    def ratio(memory: str) -> str:
        ours = {"network": "chordmixer", "memory": memory, "mode": "forward", "length": length}
        return f"{_ratio(rows, 'median_s', ours, {**ours, 'network': 'products'}):.2f}"

    return [
        _measure(
            f"block, forward, {length:,} tokens, {memory} memory: time relative to its two matrix"
            " products",
            "≤ 1.6",
            "1.3",
            lambda memory=memory: ratio(memory),
        )
        for memory in ("fresh", "reused")
    ]


def _peers(rows: list[Row]) -> list[Measure]:
    lengths = sorted({row["length"] for row in rows})
    # goals relative to peers are for 16k tokens, those relative to the plain twin for the longest
    middle = max((one for one in lengths if one <= 16_384), default=lengths[0])

    def compare(column: str, mode: str, length: int, upper: str, lower: str) -> float:
        labels = {"mode": mode, "length": length}
        return _ratio(rows, column, {**labels, "network": upper}, {**labels, "network": lower})

    made = []
    for mode, text, length, other, title, must, aim in (
        ("forward", "network, forward", lengths[-1], "plain", "plain", "≥ 2.0x", "3x"),
        ("training", "training step", middle, "nystromformer", "Nyströmformer", "≥ 2.5x", ""),
        ("training", "training step", middle, "fnet", "FNet", "> 1x", "2x"),
    ):
        case = ("median_s", mode, length, other, "chordmixer")
        name = f"{text}, {length:,} tokens: speed relative to {title}"
        made.append(_measure(name, must, aim, lambda case=case: f"{compare(*case):.2f}x"))
    return made


def _memory(rows: list[Row]) -> list[Measure]:
    made = []
    task = find_rows(rows, task="training step")
    # operation by operation, autograd stores all activations
    stored = {"network": "unfused"}
    for name, must, aim in (("reversible", "≤ 0.35", "0.2"), ("chordmixer", "", "")):
        title = "default" if name == "chordmixer" else name
        made.append(
            _measure(
                f"training step, {_longest(task):,} tokens: peak memory, {title} relative to all"
                " stored",
                must,
                aim,
                lambda name=name: f"{_ratio(task, 'peak_mib', {'network': name}, stored):.2f}",
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
                _measure(
                    f"training step, {_longest(task):,} tokens, {title}: {what} relative to plain",
                    must,
                    aim,
                    lambda case=case, unit=unit: f"{_ratio(*case):.2f}{unit}",
                )
            )

    def peak(labels: dict) -> str:
        mib = _find(rows, **labels)["peak_mib"]
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
            made.append(_measure(name, must, aim or "", lambda labels=labels: peak(labels)))
    return made


def _mixed(rows: list[Row]) -> list[Measure]:
    def over_ideal(batch: str, mode: str) -> str:
        one = _find(rows, network="chordmixer", mode=mode, batch="one long sequence")
        row = _find(rows, network="chordmixer", mode=mode, batch=batch)
        ideal = one["median_s"] / one["token_blocks"] * row["token_blocks"]
        return f"{row['median_s'] / ideal:.2f}"

    def speed_of_one() -> str:
        labels = {"mode": "training", "batch": "one long sequence"}
        pair = [{**labels, "network": network} for network in ("plain", "chordmixer")]
        return f"{_ratio(rows, 'median_s', *pair):.2f}x"

    longest = max(row["longest"] for row in rows)
    name = f"training step, {longest:,} tokens, default, in the run of the mixed batches: speed"
    name += " relative to plain"
    return [_measure(name, "≥ 1.5x", "2x", speed_of_one)] + [
        _measure(
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


def _parts(rows: list[Row]) -> list[Measure]:
    def describe(network: str) -> str:
        row = _find(rows, network=network)
        seconds = {part: row[f"{part}_s"] / max(1, row["repeats"]) for part in (*PARTS, "rest")}
        return ", ".join(f"{part} {value:.2g} s" for part, value in seconds.items())

    return [
        _measure(
            f"training step, {_longest(rows):,} tokens, {title}: where the time goes",
            "",
            "",
            lambda network=network: describe(network),
        )
        for network, title in (("chordmixer", "default"), ("plain", "plain"))
    ]


def _scaling(rows: list[Row]) -> list[Measure]:
    lengths = sorted({row["length"] for row in rows})
    start = next((one for one in lengths if one >= 65_536), lengths[0])
    end = lengths[-1]

    def growth(mode: str) -> str:
        labels = {"network": "chordmixer", "mode": mode}
        long, short = (_find(rows, **labels, length=length) for length in (end, start))
        grown = long["median_s"] / short["median_s"]
        return f"{grown / (long['token_blocks'] / short['token_blocks']):.2f}"

    return [
        _measure(
            f"{mode}, growth from {start:,} to {end:,} tokens relative to N log N",
            "≤ 1.2",
            "1.05",
            lambda mode=mode: growth(mode),
        )
        for mode in ("forward", "training")
    ]


def _throughput(rows: list[Row]) -> list[Measure]:
    def rate(network: str, layout: str) -> float:
        return tokens_per_second(_find(rows, network=network, layout=layout))

    return [
        _measure(
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


def _links(rows: list[Row]) -> list[Measure]:
    made = []
    ours = {"network": "paramixer"}
    for other, title in (("gather", "gathering all links"), ("torch.sparse", "torch.sparse")):
        theirs = {"network": other}
        head = f"factors of a Paramixer, {_longest(rows):,} tokens, forward and backward"
        for what, must, case, unit in (
            ("speed", "≥ 2x", (rows, "median_s", theirs, ours), "x"),
            ("peak memory", "≤ 0.5", (rows, "peak_mib", ours, theirs), ""),
        ):
            made.append(
                _measure(
                    f"{head}: {what} relative to {title}",
                    must,
                    "",
                    lambda case=case, unit=unit: f"{_short(_ratio(*case))}{unit}",
                )
            )
    return made


def _heads(rows: list[Row]) -> list[Measure]:
    made = []
    for dropout, kind in ((0.0, "scores not stored"), (0.1, "dropout, scores stored")):
        pair = [{"network": name, "dropout": dropout} for name in ("mrsformer", "one scale")]
        for column, what in (("median_s", "time"), ("peak_mib", "peak memory")):
            made.append(
                _measure(
                    f"heads of a MrsFormer, {_longest(rows):,} tokens, forward and backward, "
                    f"{kind}: {what} relative to heads of one scale",
                    "≤ 0.6",
                    "0.33",
                    lambda case=(rows, column, *pair): f"{_ratio(*case):.2f}",
                )
            )
    return made


def _tokenizers(rows: list[Row]) -> list[Measure]:
    made = []
    for count, letters in dict.fromkeys((row["sequences"], row["letters"]) for row in rows):
        shape = {"sequences": count, "letters": letters}
        ours = {**shape, "tokenizer": "DnaTokenizer"}
        for other, title in (("numpy table", "a numpy table"), ("tokenizers", "tokenizers")):
            case = (rows, "median_s", {**shape, "tokenizer": other}, ours)
            name = f"DnaTokenizer, {count:,} x {letters:,} bases: speed relative to {title}"
            made.append(_measure(name, "", "", lambda case=case: f"{_short(_ratio(*case))}x"))
    return made


def _inference(rows: list[Row]) -> list[Measure]:
    alone = {"network": "model alone"}
    made = []
    for name in ("predict", "embed"):
        ours = {"network": name}
        for other, title, must in (
            (alone, "the model's own forward passes", "≥ 0.9"),
            ({"network": "pipeline, padded"}, "the pipeline of transformers, padded", "≥ 5"),
        ):
            case = (rows, "median_s", other, ours)
            title = f"`{name}` on a file of genes: speed relative to {title}"
            made.append(_measure(title, must, "", lambda case=case: f"{_ratio(*case):.2f}x"))

    def per_hour(name: str) -> str:
        row = _find(rows, network=name)
        return f"{3600 * row['sequences'] / row['median_s']:,.0f}"

    made += [
        _measure(f"`{name}`: genes an hour", "", "", lambda name=name: per_hour(name))
        for name in ("predict", "embed", "pipeline, padded")
    ]
    for name, column, text, must in (
        ("one long run", "growth", "memory in the last tenth relative to the first", "≤ 1.1"),
        ("killed and resumed", "different", "rows that differ", "0"),
        ("three shards", "different", "rows that differ", "0"),
    ):
        counted = next((row["sequences"] for row in rows if row["network"] == name), 0)
        title = f"`predict`, {counted:,} sequences, {name}: {text}"
        case = (name, column)
        made.append(
            _measure(
                title, must, "", lambda case=case: f"{_find(rows, network=case[0])[case[1]]:g}"
            )
        )
    return made


def _records(rows: list[Row]) -> list[Measure]:
    def find() -> Row:
        return _find(rows, network="load and split")

    name = f"{rows[0]['records']:,} records of {rows[0]['letters']} bases, loaded, compared, split"
    return [
        _measure(f"{name}: seconds", "≤ 60", "", lambda: f"{find()['median_s']:.0f}"),
        _measure(f"{name}: GiB", "≤ 2", "", lambda: f"{find()['peak_mib'] / 1024:.2f}"),
    ]


def _short(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def tokens_per_second(row: Row) -> float:
    """Real tokens of all timed runs over their time."""
    return row["tokens"] / sum(float(seconds) for seconds in row["all_s"].split())


_MAKERS = (
    ("blocks", _blocks),
    ("peers", _peers),
    ("memory", _memory),
    ("parts", _parts),
    ("mixed", _mixed),
    ("scaling", _scaling),
    ("throughput", _throughput),
    ("links", _links),
    ("heads", _heads),
    ("tokenizers", _tokenizers),
    ("inference", _inference),
    ("records", _records),
    ("devices", measure_devices),
    ("parallel", measure_parallel),
    ("precision", measure_precision),
)
