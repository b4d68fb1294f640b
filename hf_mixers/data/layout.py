"""Where the parts of a record are found in the rows of a file, whatever kind it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers.utils import logging

from .checks import RecordRules
from .labels import ColumnLabels, read_genus, split_lineage
from .records import TABLE_KINDS, Kind

logger = logging.get_logger(__name__)

_TEXTS = ("string", "large_string")


@dataclass
class Layout:
    """Where a record's parts are found in the rows of a file.

    Args:
        columns: Those of the first table, which further ones must have too.
    """

    kind: Kind
    sequence_column: str
    id_column: str | None
    columns: list[str] = field(default_factory=list)

    @property
    def text_columns(self) -> list[str]:
        """Columns of a CSV file, which are all read as text."""
        return self.columns if self.kind == "csv" else []

    def plan(self, file: str, columns: Mapping[str, Any], rules: RecordRules) -> None:
        """Take the columns of the first table, given with their types; an error if one lacks."""
        self.columns = list(columns)
        if self.id_column is None and "id" in columns:
            self.id_column = "id"
        label_column: Any = getattr(rules.labels, "column", None)
        for name in filter(None, (self.sequence_column, self.id_column, label_column)):
            if name not in columns:
                raise ValueError(f"{file} has no column {name!r}: it has {', '.join(columns)}.")
        _check_type(file, self.sequence_column, columns, "text is a sequence", _TEXTS)
        if isinstance(rules.labels, ColumnLabels):
            _check_type(file, label_column, columns, "text or numbers are labels")
        replaced = {"id"} - {self.id_column}
        if rules.labels is not None:
            replaced |= {"label"} - {label_column}
        if self.sequence_column != "sequence":
            replaced.add("sequence")
        for name in sorted(replaced.intersection(columns)):
            logger.warning(
                f"{file}: its column {name!r} is replaced, as another one was named for it."
            )

    def check(self, row: dict[str, Any], file: str) -> None:
        """See that a table has the columns of the first."""
        if self.kind in TABLE_KINDS and set(row) != set(self.columns):
            raise ValueError(
                f"{file} has the columns {', '.join(row)}, but the first file has"
                f" {', '.join(self.columns)}: tables with the same columns are accepted."
            )

    def arrange(self, row: dict[str, Any], file: str, number: int) -> dict[str, Any]:
        """A row with our columns, whatever file it is from."""
        if self.kind in TABLE_KINDS:
            name = f"{Path(file).name}:{number}"
            if self.id_column is not None:
                name = "" if row[self.id_column] is None else str(row[self.id_column])
            sequence = row[self.sequence_column] or ""
            others = {key: row[key] for key in row if key != self.sequence_column}
            if self.kind == "csv":
                others = {key: None if text == "" else text for key, text in others.items()}
            return others | {"id": name, "sequence": sequence, "length": len(sequence)}
        sequence = row["sequence"]
        ours = {"id": row["id"], "sequence": sequence, "length": len(sequence), "file": file}
        if self.kind == "genbank":
            lineage = split_lineage(row["taxonomy"])
            ours["description"] = row["definition"]
            ours["organism"], ours["taxonomy"] = row["organism"], row["taxonomy"]
            ours["species"] = read_genus(row["organism"], lineage, species=True) or ""
            ours["announced"] = row["length"]
        else:
            ours["description"] = row["description"]
        return ours


def _check_type(
    file: str,
    column: str,
    columns: Mapping[str, Any],
    accepted: str,
    kinds: tuple[str, ...] | None = None,
) -> None:
    kind = getattr(columns[column], "dtype", None)
    if kind is None or "binary" in kind or (kinds is not None and kind not in kinds):
        raise ValueError(f"{file}: its column {column!r} holds {columns[column]}: {accepted}.")
