"""Variant pairs show both alleles where the FASTA file has the variant."""

import gzip

import numpy as np
import pytest
from datasets import Dataset

from hf_mixers import DnaTokenizer
from hf_mixers.tasks import load_arena_task

from .test_arena_loaders import PARTS, check_task, sizes

GENOME = {"chr1": "ACGT" * 100, "chr2": "GGGCCCTTTAAA" * 20}


@pytest.fixture
def fasta(tmp_path):
    file = tmp_path / "genome.fa"
    lines = []
    for name, text in GENOME.items():
        lines += [f">{name}", *(text[i : i + 50] for i in range(0, len(text), 50))]
    file.write_text("\n".join(lines) + "\n")
    return file


def write_table(file, count=30, **changes):
    rows = {name: [] for name in ("chr", "pos", "ref", "alt", "tissue", "label")}
    for number in range(count):
        chrom, pos = ("chr1", "chr2")[number % 2], 100 + number
        ref = GENOME[chrom][pos - 1]
        alt = "A" if ref != "A" else "C"
        values = (chrom, pos, ref, alt, number % 3, number % 2)
        for name, value in zip(rows, values, strict=True):
            rows[name].append(value)
    Dataset.from_dict({**rows, **changes}).to_csv(str(file))
    return rows


def decode(ids):
    return DnaTokenizer().decode(ids)


def test_windows_hold_both_alleles_in_the_middle(tmp_path, fasta):
    rows = write_table(tmp_path / "train.csv")
    task = load_arena_task("variants", tmp_path / "train.csv", fasta=fasta, window=20)
    check_task(task)
    assert sizes(task) == (24, 3, 3)
    assert (task.is_pair, task.num_tasks, task.num_labels) == (True, 3, 2)
    assert task.max_length == 20
    assert task.config_fields()["num_tasks"] == 3
    seen = set()
    for part in PARTS:
        pairs = task.parts[part]
        for index in range(len(pairs)):
            example = pairs[index]
            reference, alternate = decode(example["input_ids"]), decode(example["input_ids_2"])
            variant = pairs.variants[pairs.rows[index]]
            row = variant.start + 1 - 100
            seen.add(row)
            assert reference == GENOME[variant.chrom][variant.start - 10 : variant.start + 10]
            assert reference[10] == rows["ref"][row]
            assert alternate == reference[:10] + rows["alt"][row] + reference[11:]
            assert example["labels"] == rows["label"][row]
            assert example["task_ids"] == rows["tissue"][row]
    assert seen == set(range(30))
    batch = task.collator()([task.parts["train"][i] for i in range(3)])
    assert batch["task_ids"].shape == (3,)


def write_vcf(file, lines):
    head = "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n"
    text = head + "\n".join(lines) + "\n"
    if file.suffix == ".gz":
        file.write_bytes(gzip.compress(text.encode()))
    else:
        file.write_text(text)


@pytest.mark.parametrize("name", ["v.vcf", "v.vcf.gz"])
def test_insertions_and_deletions_of_a_vcf(tmp_path, fasta, name):
    lines = [
        f"1\t{101 + 4 * n}\t.\tA\tATT,G\t.\t.\tlabel={n % 2};tissue=t{n % 2};split={part}"
        for n, part in enumerate(["train"] * 4 + ["val"] * 2 + ["test"] * 2)
    ]
    lines.append("chr1\t201\t.\tACGT\tA\t.\t.\tlabel=1;tissue=t0;split=test")
    write_vcf(tmp_path / name, lines)
    task = load_arena_task("variants", tmp_path / name, fasta=fasta, window=8)
    check_task(task)
    assert sizes(task) == (8, 4, 5)
    first = task.parts["train"][0]
    assert decode(first["input_ids"]) == "ACGTACGT"
    assert decode(first["input_ids_2"]) == "ACGTATTC"
    deletion = task.parts["test"][4]
    assert decode(deletion["input_ids_2"]) == "ACGTAACG"
    free = load_arena_task("variants", tmp_path / name, fasta=fasta, window=8, keep_length=False)
    check_task(free)
    assert decode(free.parts["train"][0]["input_ids_2"]) == "ACGTATTCGT"
    assert decode(free.parts["test"][4]["input_ids_2"]) == "ACGTA"


def test_windows_at_the_ends_of_a_record_are_shorter(tmp_path, fasta):
    lines = [
        f"chr1\t{pos}\t.\t{GENOME['chr1'][pos - 1]}\tN\t.\t.\tlabel={pos % 2};split={part}"
        for pos, part in ((1, "train"), (2, "train"), (399, "test"), (400, "val"))
    ]
    write_vcf(tmp_path / "v.vcf", lines)
    task = load_arena_task("variants", tmp_path / "v.vcf", fasta=fasta, window=10)
    check_task(task)
    assert task.num_tasks is None
    assert decode(task.parts["train"][0]["input_ids"]) == GENOME["chr1"][:5]
    assert decode(task.parts["validation"][0]["input_ids_2"]) == GENOME["chr1"][394:399] + "N"


def test_alleles_that_the_genome_does_not_have_are_refused_or_counted(tmp_path, fasta):
    rows = write_table(tmp_path / "right.csv")
    ref = ["C" if rows["ref"][0] != "C" else "G", *rows["ref"][1:]]
    alt = ["T", *rows["alt"][1:]]
    write_table(tmp_path / "train.csv", ref=ref, alt=alt)
    with pytest.raises(ValueError, match=r"has the reference allele .*mismatches='drop'"):
        load_arena_task("variants", tmp_path / "train.csv", fasta=fasta)
    task = load_arena_task("variants", tmp_path / "train.csv", fasta=fasta, mismatches="drop")
    assert sum(sizes(task)) == 29
    assert len(task.notes) == 1
    assert "do not match the FASTA file" in task.notes[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("chr9\t5\t.\tA\tC\t.\t.\tlabel=1", "is not in the FASTA file"),
        ("chr1\t500\t.\tA\tC\t.\t.\tlabel=1", "is not in the FASTA file"),
        ("chr1\t5\t.\tA\t<DEL>\t.\t.\tlabel=1", "letters A, C, G, T and N"),
        ("chr1\t5\t.\tA\tC\t.\t.\tother=1", "has no label in INFO"),
        ("chr1\tx\t.\tA", "is not a line of a VCF"),
        ("", "holds no variants"),
    ],
)
def test_broken_variants_are_refused(tmp_path, fasta, line, words):
    parts = ("train", "val", "test")
    write_vcf(tmp_path / "v.vcf", [f"{line};split={part}" for part in parts if line])
    with pytest.raises(ValueError, match=words):
        load_arena_task("variants", tmp_path / "v.vcf", fasta=fasta)


def test_the_genome_is_asked_for(tmp_path):
    write_table(tmp_path / "train.csv")
    with pytest.raises(ValueError, match=r"No path was given; .*fasta is the reference genome"):
        load_arena_task("variants", tmp_path / "train.csv")


def test_a_pair_model_learns_from_a_batch(tmp_path, fasta):
    import hf_mixers

    write_table(tmp_path / "train.csv")
    task = load_arena_task("variants", tmp_path / "train.csv", fasta=fasta, window=16)
    config = hf_mixers.ChordMixerConfig(**task.config_fields())
    model = hf_mixers.ChordMixerForSequencePairClassification(config)
    batch = task.collator()([task.parts["train"][index] for index in range(4)])
    output = model(**batch)
    output.loss.backward()
    assert output.logits.shape == (4, 2)
    assert np.isfinite(output.loss.item())


@pytest.mark.parametrize("parts", [("all",), ("train", "test")])
def test_a_variant_that_was_seen_in_several_tissues_is_in_one_part(tmp_path, fasta, parts):
    rows = write_table(tmp_path / "variants.csv", 40)
    doubled = {name: values * 2 for name, values in rows.items()}
    doubled["tissue"] = ["liver"] * 40 + ["brain"] * 40
    if "test" in parts:
        doubled["split"] = (["train"] * 36 + ["test"] * 4) * 2
    Dataset.from_dict(doubled).to_csv(str(tmp_path / "variants.csv"))
    task = load_arena_task("variants", tmp_path / "variants.csv", fasta=fasta, window=20)
    seen = {part: {rows.variants[row] for row in rows.rows} for part, rows in task.parts.items()}
    assert sum(map(len, seen.values())) == 40
    assert not seen["train"] & seen["validation"]
    assert not seen["train"] & seen["test"]
