"""What is done with files and trained models."""

from ...tables import Row
from .base import Measure, Missing, find, measure, ratio_of, short


def measure_tokenizers(rows: list[Row]) -> list[Measure]:
    made = []
    for count, letters in dict.fromkeys((row["sequences"], row["letters"]) for row in rows):
        shape = {"sequences": count, "letters": letters}
        ours = {**shape, "tokenizer": "DnaTokenizer"}
        for other, title in (("numpy table", "a numpy table"), ("tokenizers", "tokenizers")):
            case = (rows, "median_s", {**shape, "tokenizer": other}, ours)
            name = f"DnaTokenizer, {count:,} x {letters:,} bases: speed relative to {title}"
            made.append(measure(name, "", "", lambda case=case: f"{short(ratio_of(*case))}x"))
    return made


def measure_inference(rows: list[Row]) -> list[Measure]:
    alone = {"network": "model alone"}
    made = []
    for name in ("predict", "embed"):
        ours = {"network": name}
        for other, title, must in (
            (alone, "the model's own forward passes", "≥ 0.9"),
            ({"network": "pipeline, padded"}, "transformers' pipeline, padded, same model", ""),
            (
                {"network": "pipeline, ModernBERT"},
                "transformers' pipeline, padded, a ModernBERT of the same size",
                "≥ 5",
            ),
        ):
            case = (rows, "median_s", other, ours)
            title = f"`{name}` on a file of genes: speed relative to {title}"
            made.append(measure(title, must, "", lambda case=case: f"{ratio_of(*case):.2f}x"))

    def per_hour(name: str) -> str:
        row = find(rows, network=name)
        return f"{3600 * row['sequences'] / row['median_s']:,.0f}"

    made += [
        measure(f"`{name}`: genes an hour", "", "", lambda name=name: per_hour(name))
        for name in ("predict", "embed", "pipeline, padded", "pipeline, ModernBERT")
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
            measure(title, must, "", lambda case=case: f"{find(rows, network=case[0])[case[1]]:g}")
        )
    return made


def measure_records(rows: list[Row]) -> list[Measure]:
    def row() -> Row:
        return find(rows, network="load and split")

    name = f"{rows[0]['records']:,} records of {rows[0]['letters']} bases, loaded, compared, split"
    return [
        measure(f"{name}: seconds", "≤ 60", "", lambda: f"{row()['median_s']:.0f}"),
        measure(f"{name}: GiB", "≤ 2", "", lambda: f"{row()['peak_mib'] / 1024:.2f}"),
    ]


def measure_generators(rows: list[Row]) -> list[Measure]:
    def rate(name: str) -> str:
        row = find(rows, network=name)
        return f"{row['examples'] / row['median_s']:,.0f}"

    goals = {"listops": "≥ 400", "pathfinder": "≥ 100"}
    return [
        measure(
            f"generator, {row['network']}: examples a second",
            goals[row["network"].partition(",")[0]],
            "",
            lambda name=row["network"]: rate(name),
        )
        for row in rows
    ]


def measure_variants(rows: list[Row]) -> list[Measure]:
    made = []
    for scores in dict.fromkeys(row["scores"] for row in rows):
        packed, single = ({"scores": scores, "network": name} for name in ("packed", "one by one"))

        def per_hour(packed=packed) -> str:
            row = find(rows, **packed)
            if not row.get("scored"):
                raise Missing("not measured")
            return f"{3600 * row['scored'] / row['median_s']:,.0f}"

        title = f"`score-variants`, scores: {scores}"
        case = (rows, "median_s", single, packed)
        made += [
            measure(f"{title}: variants an hour", "", "", per_hour),
            measure(
                f"{title}: speed of packed batches relative to one by one",
                "",
                "",
                lambda case=case: f"{ratio_of(*case):.2f}x",
            ),
        ]
    return made
