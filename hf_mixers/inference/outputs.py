"""Results on their way to a file: written in parts, each complete or absent, and joined at the end.

A run that was killed finds its parts again and goes on behind the last one, so nothing is lost and
nothing is written twice.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from accelerate import PartialState

from ..reporting.files import write_json


class Format(Protocol):
    """How rows of results are written to a part, and how parts become one file.

    `join` writes to a path that gets its `name` when all is there.
    """

    def write_part(self, path: Path, rows: Sequence[Mapping[str, Any]]) -> None: ...

    def join(self, parts: Sequence[Path], target: Path, name: Path) -> None: ...


class TextFormat:
    """Tab-separated text with a header."""

    def write_part(self, path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
        path.write_text("".join(format_row(row.values()) for row in rows), encoding="utf-8")

    def join(self, parts: Sequence[Path], target: Path, name: Path) -> None:
        with open(target, "wb") as file:
            file.write(format_row(_read_columns(parts[0].parent)).encode())
            for part in parts:
                with open(part, "rb") as source:
                    shutil.copyfileobj(source, file)


def _read_columns(folder: Path) -> list[str]:
    """Names of the columns of a run, from its folder of parts."""
    return json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))["columns"]


class ParquetFormat:
    """Parquet, one row group a part."""

    def write_part(self, path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
        names = rows[0] if rows else ()
        columns = {name: _make_column([row[name] for row in rows]) for name in names}
        pq.write_table(pa.table(columns), path)

    def join(self, parts: Sequence[Path], target: Path, name: Path) -> None:
        # a column without a value in one part has a type in another
        schemas = [pq.read_schema(part) for part in parts]
        schema = pa.unify_schemas(schemas, promote_options="permissive")
        if not schema.names:
            # there are no rows, which would have told the columns
            schema = pa.schema([(column, pa.null()) for column in _read_columns(parts[0].parent)])
            parts = []
        with pq.ParquetWriter(target, schema) as writer:
            for part in parts:
                writer.write_table(pq.read_table(part).cast(schema))


def _make_column(values: list[Any]) -> pa.Array:
    """A column; arrays of numbers become lists without a Python object per number."""
    first = next((value for value in values if value is not None), None)
    if not isinstance(first, np.ndarray):
        return pa.array(values)
    sizes = [0 if value is None else value.size for value in values]
    mask = pa.array([value is None for value in values])
    offsets = pa.array(np.cumsum([0, *sizes]), pa.int64())
    flat = pa.array(np.concatenate([value.reshape(-1) for value in values if value is not None]))
    if first.ndim == 1:
        return pa.LargeListArray.from_arrays(offsets, flat, mask=mask)
    # the vectors of a sequence's tokens, all of one width
    inner = pa.LargeListArray.from_arrays(
        pa.array(np.arange(0, len(flat) + 1, first.shape[1]), pa.int64()), flat
    )
    outer = pa.array(np.cumsum([0, *sizes]) // first.shape[1], pa.int64())
    return pa.LargeListArray.from_arrays(outer, inner, mask=mask)


class ArrayFormat:
    """A numpy matrix of the column `vector`; ids go to a text file next to it.

    A record without a vector has a row of `nan`.

    Args:
        width: Numbers of a vector, for an output in which no record has one.
    """

    def __init__(self, width: int = 0):
        self.width = width

    def write_part(self, path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
        vectors = [row["vector"] for row in rows]
        width = next((len(vector) for vector in vectors if vector is not None), 0)
        matrix = np.full((len(rows), width), np.nan, dtype=np.float32)
        for number, vector in enumerate(vectors):
            if vector is not None:
                matrix[number] = vector
        # one line of text each
        ids = np.array([_format_value(row["id"]) for row in rows], dtype=str)
        with open(path, "wb") as file:
            np.savez(file, matrix=matrix, ids=ids)

    def join(self, parts: Sequence[Path], target: Path, name: Path) -> None:
        shapes = [np.load(part)["matrix"].shape for part in parts]
        total = sum(shape[0] for shape in shapes)
        width = max(shape[1] for shape in shapes) or self.width
        joined = np.lib.format.open_memmap(
            target, mode="w+", dtype=np.float32, shape=(total, width)
        )
        names, start = name.with_suffix(".ids.txt"), 0
        with open(f"{names}.part", "w", encoding="utf-8") as file:
            for part in parts:
                content = np.load(part)
                rows = content["matrix"]
                # a part without any vector does not know how long they are
                joined[start : start + len(rows)] = rows if rows.shape[1] else np.nan
                file.writelines(f"{name}\n" for name in content["ids"])
                start += len(rows)
        joined.flush()
        os.replace(f"{names}.part", names)


FORMATS: dict[str, type[Format]] = {
    ".tsv": TextFormat,
    ".parquet": ParquetFormat,
    ".npy": ArrayFormat,
}
RUN_FILE = "run.json"


def choose_format(path: Path, accepted: Iterable[str] = FORMATS) -> Format:
    """The format that the ending of a file stands for."""
    if path.suffix not in accepted:
        raise ValueError(f"{path} must end in {', '.join(accepted)}.")
    return FORMATS[path.suffix]()


def format_row(values: Iterable[Any]) -> str:
    """A line of tab-separated values.

    >>> format_row(["a\\tb", 0.5, None])
    'a b\\t0.5\\t\\n'
    """
    return "\t".join(map(_format_value, values)) + "\n"


def _format_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value).replace("\t", " ").replace("\n", " ").replace("\r", " ")


class PartedOutput:
    """A file that grows in parts.

    Args:
        target: The file to write in the end.
        run: What the results depend on; parts of a run with other settings are refused.
        columns: Names of the columns.
        format: How parts are written; by default the ending of the file tells.
    """

    def __init__(
        self,
        target: str | Path,
        run: Mapping[str, Any],
        columns: Sequence[str],
        format: Format | None = None,
    ):
        self.target = Path(target)
        self.folder = self.target.with_name(f"{self.target.name}.parts")
        self.format = format or choose_format(self.target)
        self.content = json.loads(json.dumps({**run, "columns": list(columns)}, default=str))

    def prepare(self, *, overwrite: bool = False, resume: bool = True) -> None:
        """Make the folder of parts; of several processes, one does.

        Args:
            overwrite: Write a file that exists again, and leave out parts of an earlier run.
            resume: Whether parts of an earlier run are used.
        """
        path = self.folder / RUN_FILE
        # parts without their settings are what is left of a folder that was being removed
        if overwrite or not resume or not path.exists():
            is_equal = False
        else:
            is_equal = json.loads(path.read_text(encoding="utf-8")) == self.content
            if not is_equal and not self.target.exists():
                raise ValueError(
                    f"{self.folder} holds parts of a run with other settings or input: --overwrite"
                    " leaves them out."
                )
        # the output of a run that was stopped after joining is joined again
        if self.target.exists() and not overwrite and not is_equal:
            if not path.exists():
                self.remove()
            raise ValueError(f"{self.target} is there already: --overwrite writes it again.")
        if not is_equal:
            self.remove()
            self.folder.mkdir(parents=True)
            write_json(path, self.content)

    def remove(self) -> None:
        """Remove the folder of parts; stopped halfway, what is left is not taken for a run."""
        (self.folder / RUN_FILE).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def share(self, state: PartialState, **options: Any) -> dict[int, int]:
        """Prepare the folder once for all processes; return what `done` does, the same in all.

        Args:
            options: Those of `prepare`.
        """
        if state.is_main_process:
            self.prepare(**options)
        state.wait_for_everyone()
        if not (self.folder / RUN_FILE).exists():
            raise ValueError(f"{self.folder} must be in a place that all processes share.")
        done = self.done()
        # before any process adds to it
        state.wait_for_everyone()
        return done

    @contextmanager
    def keep_parts(self) -> Iterator[None]:
        """An error leaves parts for the next run, and nothing at all where there are none."""
        try:
            yield
        except ValueError:
            if not self.done():
                self.remove()
            raise

    def done(self) -> dict[int, int]:
        """Records of every part that is complete, by the number of the part."""
        names = (path.stem.split("-") for path in self.folder.glob("part-*-*.done"))
        return {int(number): int(count) for _, number, count in names}

    def write(
        self,
        number: int,
        rows: Sequence[Mapping[str, Any]],
        counts: Mapping[str, int] | None = None,
    ) -> None:
        """Write a part, which appears when it is complete, and what is counted of it."""
        write_json(self.folder / f"part-{number:06d}.counts.json", counts or {})
        path = self.folder / f"part-{number:06d}-{len(rows)}.done"
        partial = path.with_suffix(".writing")
        self.format.write_part(partial, rows)
        os.replace(partial, path)

    def count(self, numbers: Iterable[int] | None = None) -> Counter[str]:
        """What was counted of some parts, or of all."""
        total: Counter[str] = Counter()
        for number in sorted(self.done()) if numbers is None else numbers:
            path = self.folder / f"part-{number:06d}.counts.json"
            total.update(json.loads(path.read_text(encoding="utf-8")))
        return total

    def join(self) -> Path:
        """Join all parts to the file, which appears when it is complete; `end` is the last step."""
        found = {int(path.stem.split("-")[1]): path for path in self.folder.glob("part-*.done")}
        if not found:
            raise ValueError("There were no records: nothing is written.")
        numbers = sorted(found)
        parts = [found[number] for number in numbers]
        if numbers != list(range(len(parts))):
            missing = min(set(range(len(parts))) - set(numbers))
            raise ValueError(f"{self.folder} has no part {missing}: run the command again.")
        partial = self.target.with_name(f".{self.target.name}")
        self.format.join(parts, partial, self.target)
        os.replace(partial, self.target)
        return self.target

    def end(self, summary: Mapping[str, Any]) -> None:
        """Write the summary next to the joined file, and remove the parts."""
        draft = self.folder / "summary.json"
        write_json(draft, summary)
        os.replace(draft, self.target.with_name(f"{self.target.name}.summary.json"))
        self.remove()
