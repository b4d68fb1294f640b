"""Variant pairs: windows around a variant with the reference and with the alternate allele.

Each pair may name a task, such as a tissue, which a pair model with `num_tasks` answers for.
"""

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from datasets import Dataset, DatasetDict
from transformers.utils import logging

from ..data.genomes import open_fasta
from ..data.records import open_plain_or_gzip
from ..data.splits import PART_NAMES, split_by_column
from ..models.tokenization_dna import DnaTokenizer
from .batches import Padding
from .rows import TaskRows
from .sources import PARTS, draw_parts, draw_validation, find_column, find_path, read_tables
from .task import Task, TaskKind

logger = logging.get_logger(__name__)

_WHERE = (
    "Variants are a table with the columns chr, pos, ref, alt, label (and tissue, split), or a VCF"
    " whose INFO names label (and tissue), such as the fine-mapped GTEx variants of"
    " https://huggingface.co/datasets/InstaDeepAI/genomics-long-range-benchmark; fasta is the"
    " reference genome, such as https://hgdownload.soe.ucsc.edu/goldenPath/hg38/bigZips/hg38.fa.gz."
)
_COLUMNS = {
    "chrom": ("chr", "chrom", "chromosome", "CHROM", "#CHROM"),
    "pos": ("pos", "position", "POS"),
    "ref": ("ref", "REF", "ref_allele"),
    "alt": ("alt", "ALT", "alt_allele"),
    "label": ("label", "labels"),
}
_BASES = frozenset("ACGTN")


@dataclass(frozen=True)
class Variant:
    """A change of bases at a place, counted from 0."""

    chrom: str
    start: int
    ref: str
    alt: str


class VariantPairs(TaskRows):
    """Reference window as `input_ids` and alternate window as `input_ids_2`.

    Args:
        fasta: The reference genome.
        variants: What changes where.
        labels: Classes or numbers.
        task_ids: Task of each variant; None if there is one.
        window: Bases of the reference window, with the variant in the middle; windows at the end
            of a record are shorter.
        keep_length: Cut or extend the alternate window to the bases of the reference window, so
            that insertions and deletions do not change the length.
    """

    def __init__(
        self,
        fasta: str,
        variants: Sequence[Variant],
        labels: np.ndarray,
        task_ids: np.ndarray | None,
        window: int,
        keep_length: bool = True,
    ):
        super().__init__(len(variants))
        self.fasta, self.variants, self.all_labels = fasta, variants, labels
        self.task_ids, self.window, self.keep_length = task_ids, window, keep_length
        self.tokenizer, self._reader = DnaTokenizer(), None

    @property
    def reader(self):
        if self._reader is None:
            self._reader = open_fasta(self.fasta)
        return self._reader

    def __getstate__(self) -> dict[str, Any]:
        # memory maps are opened anew in each process
        return {**self.__dict__, "_reader": None}

    def read(self, row: int) -> dict[str, Any]:
        windows = self.windows(row)
        first, second = self.tokenizer(list(windows), return_attention_mask=False)["input_ids"]
        example = {
            "input_ids": np.array(first, dtype=np.uint8),
            "input_ids_2": np.array(second, dtype=np.uint8),
            "labels": self.all_labels[row].item(),
        }
        if self.task_ids is not None:
            example["task_ids"] = int(self.task_ids[row])
        return example

    def windows(self, row: int) -> tuple[str, str]:
        """Bases of both windows."""
        variant = self.variants[row]
        start, length = self._place(variant)
        before = self._bases(variant.chrom, start, variant.start - start)
        end = variant.start + len(variant.ref)
        reference = self._bases(variant.chrom, start, length)
        if not self.keep_length:
            return reference, before + variant.alt + reference[end - start :]
        # what a deletion takes away is filled with the bases that follow
        room = max(0, length - len(before) - len(variant.alt))
        room = min(room, self.reader.sizes[variant.chrom] - end)
        after = self._bases(variant.chrom, end, room)
        return reference, (before + variant.alt + after)[:length]

    def _place(self, variant: Variant) -> tuple[int, int]:
        start = max(0, variant.start - self.window // 2)
        end = min(self.reader.sizes[variant.chrom], variant.start - self.window // 2 + self.window)
        return start, max(end, variant.start + len(variant.ref)) - start

    def _bases(self, chrom: str, start: int, length: int) -> str:
        if length <= 0:
            return ""
        return self.reader.read(chrom, start, length).tobytes().decode("ascii").upper()

    def find_labels(self, rows: np.ndarray) -> np.ndarray:
        return self.all_labels[rows]


def load(
    path: str | os.PathLike,
    *,
    fasta: str | os.PathLike | None = None,
    window: int = 1000,
    label: str = "label",
    task_column: str = "tissue",
    keep_length: bool = True,
    mismatches: Literal["error", "drop"] = "error",
    validation_fraction: float = 0.1,
    data_seed: int = 0,
    padding: Padding = "none",
) -> Task:
    """Variant pairs from a table or a VCF, and a FASTA file.

    Args:
        path: A table, tables in parts, or a VCF, plain or gzipped. Positions count from 1.
        fasta: The reference genome.
        window, keep_length: See `VariantPairs`.
        label: Column of the classes, or their key in INFO.
        task_column: Column of the tasks, or their key in INFO; without it there is one task.
        mismatches: What becomes of variants whose reference allele is not what the FASTA file
            has: `error`, or `drop`, which counts them.
        validation_fraction, data_seed: Parts that are missing are drawn from the training part:
            a tenth each.
        padding: See `TaskCollator`.
    """
    source = find_path(path, _WHERE)
    genome = os.fspath(find_path(fasta, _WHERE))
    if mismatches not in ("error", "drop"):
        raise ValueError(f"mismatches={mismatches!r} was given: error and drop are accepted.")
    if window < 2:
        raise ValueError(f"window={window} was given: at least 2 bases are accepted.")
    is_vcf = source.name.lower().endswith((".vcf", ".vcf.gz"))
    tables = _read_vcf(source, label, task_column) if is_vcf else read_tables(source, _WHERE)
    columns = _find_columns(tables["train"], source, label)
    tables = _complete(tables, columns, validation_fraction, data_seed)
    names = sorted({value for rows in tables.values() for value in rows[columns["label"]][:]})
    tasks = _name_tasks(tables, task_column)
    sizes, longest = open_fasta(genome).sizes, 0
    notes: list[str] = []
    parts = {}
    for part in PARTS:
        rows = tables[part]
        variants = _read_variants(rows, columns, sizes, source)
        labels = np.array([names.index(value) for value in rows[columns["label"]][:]])
        numbers = None
        if tasks is not None:
            numbers = np.array([tasks.index(value) for value in rows[task_column][:]])
        pairs = VariantPairs(genome, variants, labels, numbers, window, keep_length)
        parts[part] = _check_alleles(pairs, mismatches, part, notes)
        longest = max(longest, *(_longest(pairs, row) for row in parts[part].rows))
    tokenizer = DnaTokenizer()
    special = set(tokenizer.all_special_ids)
    return Task(
        "variants",
        parts,
        inputs="ids",
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        mask_token_id=tokenizer.mask_token_id,
        maskable_ids=tuple(sorted(set(range(len(tokenizer))) - special)),
        tokenizer=tokenizer,
        max_length=longest,
        class_names=tuple(map(str, names)),
        is_pair=True,
        num_tasks=None if tasks is None else len(tasks),
        mask_ratio=0.3,
        padding=padding,
        notes=notes,
    )


def _longest(pairs: VariantPairs, row: int) -> int:
    """Bases that neither window of a pair exceeds."""
    variant, window = pairs.variants[row], pairs.window
    added = 0 if pairs.keep_length else max(0, len(variant.alt) - len(variant.ref))
    return max(window, window // 2 + len(variant.ref)) + added


def _find_columns(rows: Dataset, source: Path, label: str) -> dict[str, str]:
    accepted = {**_COLUMNS, "label": (label,)}
    return {name: find_column(rows, names, source) for name, names in accepted.items()}


def _complete(
    tables: DatasetDict, columns: Mapping[str, str], fraction: float, seed: int
) -> DatasetDict:
    """Parts that are missing are drawn; a variant that was seen in several tissues is in one."""
    rows, label = tables["train"], columns["label"]
    if "test" in tables and "validation" in tables:
        return tables
    if not 0 < fraction < 0.5:
        raise ValueError(
            f"validation_fraction={fraction} was given: a share between 0 and 0.5 is accepted."
        )
    places = (rows[columns[name]][:] for name in ("chrom", "pos", "ref", "alt"))
    keys = (":".join(map(str, place)) for place in zip(*places, strict=True))
    if list(tables) == ["train"]:
        shares = (1 - 2 * fraction, fraction, fraction)
        return DatasetDict(draw_parts(rows, label, shares, seed, keys))
    if "test" not in tables:
        raise ValueError(f"There is no part test: {', '.join(tables)} are there.")
    return DatasetDict({**tables, **draw_validation(rows, label, fraction, seed, keys)})


def _name_tasks(tables: DatasetDict, column: str) -> list | None:
    if column not in tables["train"].column_names:
        return None
    return sorted({value for rows in tables.values() for value in rows[column][:]})


def _read_variants(
    rows: Dataset, columns: Mapping[str, str], sizes: Mapping[str, int], source: Path
) -> list[Variant]:
    found = []
    values = (rows[columns[name]][:] for name in ("chrom", "pos", "ref", "alt"))
    for number, (chrom, pos, ref, alt) in enumerate(zip(*values, strict=True)):
        name = _find_record(str(chrom), sizes)
        ref, alt = str(ref).upper(), str(alt).upper()
        if name is None or not 1 <= int(pos) <= sizes[name] - len(ref) + 1:
            raise ValueError(
                f"{source}: variant {number} at {chrom}:{pos} is not in the FASTA file."
            )
        if not ref or not alt or not _BASES.issuperset(ref + alt):
            raise ValueError(
                f"{source}: variant {number} at {chrom}:{pos} is {ref[:20]} to {alt[:20]}: letters"
                " A, C, G, T and N are accepted."
            )
        found.append(Variant(name, int(pos) - 1, ref, alt))
    return found


def _find_record(chrom: str, sizes: Mapping[str, int]) -> str | None:
    """The record of a chromosome, which some files call chr1 and others 1."""
    for name in (chrom, f"chr{chrom}", chrom.removeprefix("chr")):
        if name in sizes:
            return name
    return None


def _check_alleles(pairs: VariantPairs, mismatches: str, part: str, notes: list[str]):
    kept = []
    for row, variant in enumerate(pairs.variants):
        found = pairs._bases(variant.chrom, variant.start, len(variant.ref))
        if found == variant.ref:
            kept.append(row)
        elif mismatches == "error":
            raise ValueError(
                f"Variant {row} of {part} at {variant.chrom}:{variant.start + 1} has the reference"
                f" allele {variant.ref[:20]}, the FASTA file has {found[:20]}: mismatches='drop'"
                " leaves such variants out."
            )
    if not kept:
        raise ValueError(f"No variant of {part} has the reference allele of the FASTA file.")
    if len(kept) < len(pairs):
        dropped = len(pairs) - len(kept)
        notes.append(f"{dropped} of {len(pairs)} variants of {part} do not match the FASTA file.")
        logger.warning(notes[-1])
    return pairs.select(kept)


def _read_vcf(file: Path, label: str, task_column: str) -> DatasetDict:
    """Variants of a VCF with a label in INFO, one row per alternate allele."""
    rows: dict[str, list] = {name: [] for name in ("chrom", "pos", "ref", "alt", label)}
    tasks, splits = [], []
    with open_plain_or_gzip(os.fspath(file)) as lines:
        for number, line in enumerate(io.TextIOWrapper(lines, "utf-8"), start=1):
            if line.startswith("#") or not line.strip():
                continue
            fields = line.rstrip("\r\n").split("\t")
            if len(fields) < 8 or not fields[1].isdigit():
                raise ValueError(f"{file}, line {number} is not a line of a VCF with INFO.")
            info = dict(entry.partition("=")[::2] for entry in fields[7].split(";"))
            if label not in info:
                raise ValueError(f"{file}, line {number} has no {label} in INFO; {_WHERE}")
            for alt in fields[4].split(","):
                rows["chrom"].append(fields[0])
                rows["pos"].append(int(fields[1]))
                rows["ref"].append(fields[3])
                rows["alt"].append(alt)
                rows[label].append(info[label])
                tasks.append(info.get(task_column))
                splits.append(info.get("split"))
    if not tasks:
        raise ValueError(f"{file} holds no variants; {_WHERE}")
    if None not in tasks:
        rows[task_column] = tasks
    elif any(task is not None for task in tasks):
        raise ValueError(f"{file} has {task_column} in the INFO of some variants, not of all.")
    table = Dataset.from_dict(rows)
    if all(str(split).lower() in PART_NAMES for split in splits):
        return split_by_column(table.add_column("split", splits), "split")
    return DatasetDict(train=table)


TASK = TaskKind("variants", "effect of variants from both alleles' windows", _WHERE, load=load)
