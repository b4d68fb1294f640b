"""Labels of records: from folders, descriptions, tables, columns or the GenBank lineage."""

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .records import TABLE_KINDS, Kind, open_plain_or_gzip

Label = str | int | float
# what can be read from a GenBank record without further files
_NAME_RANKS = ("organism", "species", "genus")


@dataclass(frozen=True)
class FolderLabels:
    """The name of the folder a file is in."""

    def __call__(self, row: dict[str, Any], file: str) -> str:
        return Path(file).resolve().parent.name


@dataclass(frozen=True)
class PatternLabels:
    """The group of a regular expression in the description, or else in the id."""

    pattern: re.Pattern

    def __call__(self, row: dict[str, Any], file: str) -> str | None:
        for text in (row.get("description"), row["id"]):
            if text and (match := self.pattern.search(text)):
                return match.group(1)
        return None


@dataclass(frozen=True)
class TableLabels:
    """What a table says about an id."""

    table: dict[str, str]

    def __call__(self, row: dict[str, Any], file: str) -> str | None:
        return self.table.get(row["id"])


@dataclass(frozen=True)
class ColumnLabels:
    """A column of a CSV or parquet file; text and numbers stay what they are.

    Args:
        number: `int` or `float` for a column of text that is to be read as such.
    """

    column: str
    number: type | None = None

    def __call__(self, row: dict[str, Any], file: str) -> Label | None:
        value = row[self.column]
        if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
            return None
        if self.number is None:
            return value
        try:
            number = self.number(value)
        except ValueError:
            number = math.nan
        # 1_0 is the number ten for Python only
        if "_" in value or not math.isfinite(number):
            whole = "whole " if self.number is int else ""
            raise ValueError(
                f"{file}: record {row['id']!r} has the label {value!r}, but the first labels are"
                f" {whole}numbers: a stream accepts others with label_names only."
            )
        return number


@dataclass(frozen=True)
class LineageLabels:
    """A part of a GenBank record's organism and lineage.

    Args:
        rank: `organism`, `species`, `genus`, or any rank if `members` is given.
        members: Names to look for in the lineage, the last of which is taken.
    """

    rank: str
    # a dictionary, as the order of a set, and so the name of the cache, differs between processes
    members: dict[str, None] | None = None

    def __call__(self, row: dict[str, Any], file: str) -> str | None:
        organism, lineage = row["organism"], split_lineage(row["taxonomy"])
        if self.members is not None:
            found = [name for name in (*lineage, organism) if name in self.members]
            return found[-1] if found else None
        if self.rank == "organism":
            return organism or None
        return read_genus(organism, lineage, species=self.rank == "species")


def split_lineage(taxonomy: str) -> list[str]:
    """Names of a GenBank lineage, from the domain down.

    >>> split_lineage("Eukaryota; Metazoa; Muridae; Murinae; Mus; Mus.")
    ['Eukaryota', 'Metazoa', 'Muridae', 'Murinae', 'Mus', 'Mus']
    """
    return [name.strip() for name in taxonomy.rstrip(". ").split(";") if name.strip()]


def read_genus(organism: str, lineage: Sequence[str], *, species: bool = False) -> str | None:
    """The word of an organism's name that is also in its lineage, with the next for the species.

    Without a lineage it is the first word. A name such as "uncultured bacterium" has no genus.

    >>> read_genus("Mus musculus", ["Murinae", "Mus", "Mus"])
    'Mus'
    >>> read_genus("Candidatus Carsonella ruddii", ["Carsonella"], species=True)
    'Carsonella ruddii'
    >>> read_genus("uncultured bacterium", ["Bacteria", "environmental samples"])
    """
    words = [word.strip("[]'\"") for word in organism.split()]
    known = set(lineage) if lineage else set(words[:1])
    for place, word in enumerate(words):
        if word in known:
            if species:
                return " ".join(words[place : place + 2]) if place + 1 < len(words) else None
            return word
    return None


def make_labels(
    kind: Kind,
    *,
    label_from: str | None,
    label_pattern: str | None,
    label_table: str | os.PathLike | None,
    label_column: str | None,
    label_names: Sequence[str] | None,
    taxonomy_dump: str | os.PathLike | None,
):
    """The function that gives a record its label, or None where no source is named."""
    given = {
        name: value
        for name, value in {
            "label_from": label_from,
            "label_pattern": label_pattern,
            "label_table": label_table,
            "label_column": label_column,
        }.items()
        if value is not None
    }
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} were given together: one of them is accepted.")
    if not given:
        if label_names is not None:
            raise ValueError("label_names was given without a source of labels.")
        return None
    if label_pattern is not None:
        try:
            pattern = re.compile(label_pattern)
        except re.error as error:
            raise ValueError(
                f"label_pattern {label_pattern!r} is no regular expression: {error}."
            ) from error
        if pattern.groups != 1:
            raise ValueError(
                f"label_pattern {label_pattern!r} has {pattern.groups} groups: exactly one, which"
                " is the label, is accepted."
            )
        return PatternLabels(pattern)
    if label_table is not None:
        return TableLabels(read_label_table(label_table))
    if label_column is not None:
        if kind not in TABLE_KINDS:
            raise ValueError(f"label_column was given for {kind} files: it is for CSV and parquet.")
        return ColumnLabels(label_column)
    if label_from == "folder":
        return FolderLabels()
    return _make_lineage_labels(kind, label_from, label_names, taxonomy_dump)


def _make_lineage_labels(kind, label_from, label_names, taxonomy_dump) -> LineageLabels:
    if kind != "genbank":
        raise ValueError(
            f"label_from={label_from!r} was given for {kind} files: they accept 'folder', and"
            " GenBank files also a part of the lineage."
        )
    if label_from == "taxonomy":
        if label_names is None:
            raise ValueError(
                "label_from='taxonomy' was given without label_names: it needs the names of the"
                " taxa to look for in the lineage."
            )
        return LineageLabels(label_from, dict.fromkeys(label_names))
    if taxonomy_dump is not None:
        return LineageLabels(label_from, read_rank_members(taxonomy_dump, label_from))
    if label_from not in _NAME_RANKS:
        raise ValueError(
            f"label_from={label_from!r} was given without taxonomy_dump: 'folder', 'taxonomy',"
            f" {', '.join(map(repr, _NAME_RANKS))} are accepted, and every other rank with the"
            " folder of NCBI's nodes.dmp and names.dmp, as GenBank lineages do not name ranks."
        )
    return LineageLabels(label_from)


def read_label_table(path: str | os.PathLike) -> dict[str, str]:
    """Labels by id from lines of an id, a tab and a label; a first line `id`, `label` is a head."""
    path = os.fspath(path)
    table: dict[str, str] = {}
    if not os.path.isfile(path):
        raise ValueError(f"The label table {path} does not exist.")
    with open_plain_or_gzip(path) as handle:
        # some programs put a mark before the first line
        lines = handle.read().decode("utf-8-sig").splitlines()
    for number, line in enumerate(lines, 1):
        fields = [field.strip() for field in line.split("\t")]
        if not line.strip() or (number == 1 and line.lower().split() == ["id", "label"]):
            continue
        if len(fields) != 2 or not fields[0]:
            raise ValueError(f"{path}, line {number}: {line[:60]!r} is not an id, a tab, a label.")
        if table.get(fields[0], fields[1]) != fields[1]:
            raise ValueError(
                f"{path}, line {number}: {fields[0]!r} has the labels {table[fields[0]]!r} and"
                f" {fields[1]!r}."
            )
        # an empty label is a missing one
        if fields[1]:
            table[fields[0]] = fields[1]
    if not table:
        raise ValueError(f"The label table {path} holds no labels.")
    return table


def read_rank_members(folder: str | os.PathLike, rank: str) -> dict[str, None]:
    """Scientific names of all taxa of a rank, by NCBI's `nodes.dmp` and `names.dmp`."""
    for name in ("nodes.dmp", "names.dmp"):
        if not os.path.isfile(os.path.join(folder, name)):
            raise ValueError(
                f"taxonomy_dump {os.fspath(folder)} has no {name}: it is a folder with the content"
                " of taxdump.tar.gz from https://ftp.ncbi.nlm.nih.gov/pub/taxonomy."
            )
    with open(os.path.join(folder, "nodes.dmp"), encoding="utf-8") as lines:
        nodes = (line.split("\t|\t", 3) for line in lines)
        taxa = {fields[0] for fields in nodes if fields[2] == rank}
    if not taxa:
        raise ValueError(f"{os.fspath(folder)}/nodes.dmp has no taxon of the rank {rank!r}.")
    with open(os.path.join(folder, "names.dmp"), encoding="utf-8") as lines:
        names = (line.rstrip("\t|\n").split("\t|\t") for line in lines)
        return dict.fromkeys(
            fields[1] for fields in names if fields[0] in taxa and fields[3] == "scientific name"
        )
