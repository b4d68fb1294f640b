"""What is accepted of a record, and what is said of one that is not."""

from dataclasses import dataclass
from typing import Any

from ..models.dna import NUCLEOTIDES, find_other_letter

DNA_LETTERS = NUCLEOTIDES + "U"


@dataclass
class RecordRules:
    """What is accepted of a record."""

    alphabet: str | None
    min_length: int
    max_length: int | None
    drops: bool
    duplicate_ids: str
    labels: Any
    streaming: bool
    names: list[str] | None = None

    def find_problem(self, row: dict[str, Any], seen: set[str]) -> tuple[str, str] | None:
        """What is wrong with a record, in general and in particular; None if it is fine."""
        name, sequence = row["id"], row["sequence"]
        if not name:
            return "without id", "has no id"
        if self.labels is not None and row["label"] is None:
            return "without label", "has no label"
        label = row.get("label")
        if self.names is not None and isinstance(label, str) and label not in self.names:
            return "of other classes", f"has the label {label!r}, which is not in label_names"
        if not sequence:
            return "without sequence", "has no sequence"
        if row.get("announced", len(sequence)) != len(sequence):
            text = f"has {len(sequence)} letters where its LOCUS line says {row['announced']}"
            return "cut short", text
        if len(sequence) < self.min_length:
            text = f"has {len(sequence)} letters: at least {self.min_length} are accepted"
            return f"shorter than {self.min_length}", text
        if self.max_length is not None and len(sequence) > self.max_length:
            text = f"has {len(sequence)} letters: at most {self.max_length} are accepted"
            return f"longer than {self.max_length}", text
        if self.alphabet is not None:
            place = find_other_letter(sequence, self.alphabet)
            if place >= 0:
                text = f"has {sequence[place]!r} at position {place}: {self.alphabet} and"
                return "with other letters", f"{text} lower case are accepted"
        if self.duplicate_ids != "keep":
            if name in seen:
                return "with an id that came before", "has an id that came before"
            seen.add(name)
        return None

    def forgives(self, problem: str) -> bool:
        """Whether a record with this problem is left out instead of stopping everything."""
        return self.duplicate_ids == "drop" if "came before" in problem else self.drops
