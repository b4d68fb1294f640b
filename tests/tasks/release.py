"""Small files laid out as the official release of the arena lays them out."""

import pickle
from pathlib import Path

import numpy as np
from PIL import Image

from hf_mixers.tasks import listops, pathfinder
from hf_mixers.tasks.listops_trees import SYMBOLS, write_source


def write_listops(folder: Path, sizes=(6, 3, 3)) -> dict[str, list]:
    """basic_*.tsv, with the symbols and values that they hold."""
    folder.mkdir(parents=True)
    data, row, kept = listops(sum(sizes), 20, 60, seed=8, first_id=0), 0, {}
    for part, size in zip(("train", "val", "test"), sizes, strict=True):
        lines, kept[part] = ["Source\tTarget"], []
        for _ in range(size):
            symbols = [SYMBOLS[number] for number in data[row]["input_ids"]]
            lines.append(f"{write_source(symbols)}\t{data[row]['labels']}")
            kept[part].append((symbols, data[row]["labels"]))
            row += 1
        (folder / f"basic_{part}.tsv").write_text("\n".join(lines) + "\n")
    return kept


def write_imdb(folder: Path, count=10) -> None:
    """aclImdb/{train,test}/{neg,pos}/*.txt."""
    for part in ("train", "test"):
        for label, word in (("neg", "bad"), ("pos", "good")):
            (folder / part / label).mkdir(parents=True)
            for number in range(count):
                text = f"{part} {word} film é number {number} " * (number + 1)
                (folder / part / label / f"{number}_7.txt").write_text(text)
    (folder / "train" / "unsup").mkdir()
    (folder / "train" / "unsup" / "0_0.txt").write_text("not labelled")


def write_aan(folder: Path, sizes=(6, 3, 3)) -> dict[str, list]:
    """new_aan_pairs.*.tsv: label, two names, two texts; no head, no quoting."""
    folder.mkdir(parents=True)
    kept = {}
    for part, size in zip(("train", "eval", "test"), sizes, strict=True):
        rows = [
            (float(number % 2), f'"First" of {part} {number} ä', f"second {number} " * (number + 1))
            for number in range(size)
        ]
        lines = [f"{label}\tP{n}-1\tP{n}-2\t{a}\t{b}" for n, (label, a, b) in enumerate(rows)]
        (folder / f"new_aan_pairs.{part}.tsv").write_text("\n".join(lines) + "\n")
        kept[part] = rows
    return kept


def write_cifar(folder: Path, per_batch=4) -> dict[str, np.ndarray]:
    """Pickled batches as Python 2 wrote them: keys are bytes, pixels are red, green, blue."""
    folder.mkdir(parents=True, exist_ok=True)
    chance, kept = np.random.default_rng(0), {}
    for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
        data = chance.integers(0, 256, (per_batch, 3072), dtype=np.uint8)
        labels = [int(label) for label in chance.integers(0, 10, per_batch)]
        stored = {b"data": data, b"labels": labels, b"batch_label": b"x", b"filenames": [b"a"]}
        (folder / name).write_bytes(pickle.dumps(stored, protocol=2))
        kept[name] = (data, labels)
    names = [f"class {number}".encode() for number in range(10)]
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": names}, protocol=2))
    return kept


def write_pathfinder(folder: Path, resolution=32, tables=3, per_table=10) -> dict[str, list]:
    """curv_*/imgs/<k>/sample_<i>.png and metadata/<k>.npy, one file of each folder empty."""
    kept = {}
    for name, difficulty in (
        ("curv_baseline", "easy"),
        ("curv_contour_length_9", "intermediate"),
        ("curv_contour_length_14", "hard"),
    ):
        root, kept[difficulty] = folder / name, []
        data = pathfinder(tables * per_table, resolution, "easy", seed=3)
        (root / "metadata").mkdir(parents=True)
        for table in range(tables):
            (root / "imgs" / str(table)).mkdir(parents=True)
            lines = []
            for number in range(per_table):
                example = data[table * per_table + number]
                file = root / "imgs" / str(table) / f"sample_{number}.png"
                image = example["input_ids"].reshape(resolution, resolution)
                Image.fromarray(image).save(file)
                fields = [f"imgs/{table}", file.name, number, example["labels"], 1.8, 6, 2, 5, 1.5]
                lines.append(" ".join(map(str, [*fields, 4, 1])))
                kept[difficulty].append((example["input_ids"], example["labels"]))
            (root / "metadata" / f"{table}.npy").write_text("\n".join(lines) + "\n")
        (root / "imgs" / "0" / "sample_4.png").write_bytes(b"")
        del kept[difficulty][4]
    return kept


def write_longdoc(folder: Path, count=10) -> None:
    """Four CSV files with content and label."""
    folder.mkdir(parents=True)
    for name, label in (("cs.AI", 0), ("cs.NE", 1), ("math.AC", 2), ("math.GR", 3)):
        rows = [
            f'"arXiv [cs.AI] paper {name} {number}, ""quotes""\n{"text " * (3 * number)}",{label}'
            for number in range(count)
        ]
        (folder / f"{name}.csv").write_text("content,label\n" + "\n".join(rows) + "\n")


def write_uea(folder: Path, name="Tiny") -> None:
    """<name>_TRAIN.ts and <name>_TEST.ts with two channels."""
    folder.mkdir(parents=True)
    head = (
        f"@problemName {name}\n@timeStamps false\n@missing false\n@univariate false\n"
        "@dimensions 2\n@equalLength false\n@classLabel true up down\n@data\n"
    )
    for part, count in (("TRAIN", 12), ("TEST", 4)):
        rows = []
        for number in range(count):
            steps = range(3 + number % 3)
            sign = 1 if number % 2 else -1
            one = ",".join(str(sign * step) for step in steps)
            two = ",".join(str(step + number) for step in steps)
            rows.append(f"{one}:{two}:{'up' if number % 2 else 'down'}")
        (folder / f"{name}_{part}.ts").write_text(head + "\n".join(rows) + "\n")
