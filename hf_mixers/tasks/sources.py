"""Where examples of tasks lie: lines of files, tables in parts, texts in folders."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from datasets import Dataset, DatasetDict, load_from_disk
from transformers.utils import logging

from ..data.parts import SplitOptions, make_parts
from ..data.splits import PART_NAMES, PARTS, split_by_column

logger = logging.get_logger(__name__)

_CHUNK = 1 << 24
_TABLES = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json"}


class LineFile:
    """Lines of a file by number, read when asked for.

    Args:
        path: The file.
        has_head: The first line names the columns and is left out.
    """

    def __init__(self, path: str | os.PathLike, has_head: bool = False):
        self.path = os.fspath(path)
        self._file: int | None = None
        ends = [np.zeros(1, dtype=np.int64)]
        with open(self.path, "rb") as file:
            position = 0
            while chunk := file.read(_CHUNK):
                breaks = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
                ends.append(breaks + position + 1)
                position += len(chunk)
        if ends[-1].size == 0 or ends[-1][-1] != position:
            ends.append(np.array([position]))
        self._ends = np.concatenate(ends)[1 if has_head else 0 :]

    def __len__(self) -> int:
        return max(0, len(self._ends) - 1)

    def __getitem__(self, number: int) -> bytes:
        if not 0 <= number < len(self):
            raise IndexError(f"{self.path} has {len(self)} lines, got {number}.")
        start, end = int(self._ends[number]), int(self._ends[number + 1])
        if self._file is None:
            self._file = os.open(self.path, os.O_RDONLY)
        # pread has no position that processes could share
        return os.pread(self._file, end - start, start).rstrip(b"\r\n")

    def __iter__(self) -> Iterator[bytes]:
        return (self[number] for number in range(len(self)))

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_file": None}

    def __del__(self):
        if getattr(self, "_file", None) is not None:
            os.close(self._file)


class TextSource:
    """Texts by number, which may lie anywhere."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, number: int) -> str:
        raise NotImplementedError

    def __iter__(self) -> Iterator[str]:
        return (self[number] for number in range(len(self)))

    def place(self, number: int) -> str:
        """Where a text lies, for messages."""
        return f"row {number + 1}"


class ColumnTexts(TextSource):
    """Texts of a column, from memory-mapped rows."""

    def __init__(self, rows: Dataset, column: str):
        kind = rows.features[find_column(rows, (column,), "A part")].dtype
        if kind not in ("string", "large_string"):
            raise ValueError(f"The column {column} holds {kind}: text is needed.")
        self.rows, self.column = rows.with_format(None), column
        empty = sum(values.null_count for values in self.rows.data.column(column).chunks)
        if empty:
            raise ValueError(f"The column {column} has {empty:,} rows without text.")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> str:
        return self.rows[int(number)][self.column]

    def __iter__(self) -> Iterator[str]:
        for batch in self.rows.iter(256):
            yield from batch[self.column]


class FileTexts(TextSource):
    """Texts of files, one each."""

    def __init__(self, files: Sequence[Path | str]):
        self.files = [os.fspath(file) for file in files]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> str:
        with open(self.files[number], encoding="utf-8", errors="replace", newline="") as file:
            return file.read()


def find_path(path: str | os.PathLike | None, where: str) -> Path:
    """The path if it exists, or an error that says where to get the files."""
    if path is None:
        raise ValueError(f"No path was given; {where}")
    if not Path(path).exists():
        raise ValueError(f"{os.fspath(path)} does not exist; {where}")
    return Path(path)


def find_folder(folder: Path, name: str) -> Path:
    """A folder of the official release, wherever in it the path leads; or the path itself."""
    for above in ("", "lra_release", "lra_release/lra_release"):
        if (folder / above / name).is_dir():
            return folder / above / name
    return folder


def read_tables(path: Path, where: str) -> DatasetDict:
    """Tables in parts: files that begin with the name of a part, a column `split`, or what
    `save_to_disk` of `datasets` wrote."""
    if any((path / name).is_file() for name in ("dataset_dict.json", "state.json")):
        return _name_parts(load_from_disk(str(path)), path, where)
    files: dict[str, list[str]] = {}
    if path.is_file():
        files["train"] = [str(path)]
    else:
        for file in sorted(p for p in path.rglob("*") if p.suffix in _TABLES):
            word = file.stem.lower().replace("_", "-").split("-")[0]
            part = PART_NAMES.get(word, "train" if file.stem == "data" else None)
            if part is not None:
                files.setdefault(part, []).append(str(file))
    kinds = {Path(name).suffix for names in files.values() for name in names}
    if "train" not in files or len(kinds) != 1 or not kinds <= _TABLES.keys():
        raise ValueError(
            f"{path} holds no table train or data in one of {', '.join(_TABLES)}; {where}"
        )
    suffix = kinds.pop()
    return _split_one({part: _read_table(names, suffix) for part, names in files.items()})


def _name_parts(found: Dataset | DatasetDict, path: Path, where: str) -> DatasetDict:
    """Parts of a stored data set by our names; others, such as `unsupervised`, are left out."""
    tables = found if isinstance(found, DatasetDict) else {"train": found}
    parts = {PART_NAMES[name]: rows for name, rows in tables.items() if name in PART_NAMES}
    if "train" not in parts:
        raise ValueError(f"{path} holds the parts {', '.join(tables)}, none called train; {where}")
    return _split_one(parts)


def _split_one(parts: dict[str, Dataset]) -> DatasetDict:
    if list(parts) == ["train"] and "split" in parts["train"].column_names:
        return split_by_column(parts["train"], "split")
    return DatasetDict(parts)


def _read_table(files: list[str], suffix: str) -> Dataset:
    options = {"sep": "\t"} if suffix == ".tsv" else {}
    read = {"parquet": Dataset.from_parquet, "csv": Dataset.from_csv, "json": Dataset.from_json}
    try:
        return read[_TABLES[suffix]](files, **options)
    except Exception as error:
        # datasets wraps whatever its readers say, in several ways
        text = " ".join(str(error.__cause__ or error).split())
        raise ValueError(f"{files[0]} cannot be read as {suffix[1:]}: {text}") from error


def find_column(rows: Dataset, names: Sequence[str], path: Path | str) -> str:
    """The first of some columns that a table has."""
    for name in names:
        if name in rows.column_names:
            return name
    raise ValueError(
        f"{path} has no column {' or '.join(names)}: it has {', '.join(rows.column_names)}."
    )


def complete_parts(
    parts: DatasetDict,
    label_column: str,
    *,
    reference_validation: bool,
    fraction: float,
    seed: int,
    text_column: str | None = None,
) -> tuple[DatasetDict, list[str]]:
    """Parts with `test` and `validation`, and a note on where these come from.

    Published parts stay as they are; where a validation part is drawn, identical texts go together.
    """
    notes = []
    if "test" not in parts:
        raise ValueError(f"There is no part test: {', '.join(parts)} are there.")
    if reference_validation:
        parts = DatasetDict({**parts, "validation": parts["test"]})
        notes.append("The validation part is the test part, as in the published code.")
    elif "validation" not in parts:
        if not 0 < fraction < 1:
            raise ValueError(
                f"validation_fraction={fraction} was given: there is no validation part, which"
                " needs a share between 0 and 1."
            )
        texts = None if text_column is None else ColumnTexts(parts["train"], text_column)
        drawn = draw_validation(parts["train"], label_column, fraction, seed, texts)
        parts = DatasetDict({**parts, **drawn})
        notes.append(f"The validation part is {fraction:.0%} of train, drawn at random.")
    return DatasetDict({part: parts[part] for part in PARTS}), notes


def draw_validation(
    rows: Dataset, label_column: str, fraction: float, seed: int, keys: Iterable[str] | None = None
) -> dict[str, Dataset]:
    """Rows in parts `train` and `validation`; see `draw_parts`."""
    return draw_parts(rows, label_column, (1 - fraction, fraction, 0), seed, keys)


def draw_parts(
    rows: Dataset,
    label_column: str,
    shares: Sequence[float],
    seed: int,
    keys: Iterable[str] | None = None,
) -> dict[str, Dataset]:
    """Rows in parts `train`, `validation` and `test`, every class in proportion.

    Args:
        shares: Of the three parts; one with none is not drawn.
        keys: Of all rows: rows with the same key go to the same part.
    """
    _, validation, test = shares
    stand_in = {"label": rows.with_format(None)[label_column][:], "row": range(len(rows))}
    # one row of another part, with a key that is nowhere else, where no test part is to be drawn
    other: dict[str, list] = {"label": stand_in["label"][:1], "row": [-1]}
    if keys is not None:
        stand_in["sequence"] = [hashlib.sha256(key.encode()).hexdigest() for key in keys]
        other["sequence"] = ["none"]
    given = {"train": Dataset.from_dict(stand_in)}
    options = SplitOptions(validation_fraction=validation, split_seed=seed, allow_conflicts=True)
    if test:
        options = replace(options, test_fraction=test)
    else:
        given["test"] = Dataset.from_dict(other)
    parts = make_parts(DatasetDict(given), options)
    wanted = [part for part, share in zip(PARTS, shares, strict=True) if share]
    return {part: rows.select(parts[part]["row"][:]) for part in wanted if part in parts}


def name_labels(rows: Dataset, column: str) -> tuple[str, ...]:
    """Names of the classes of a column, in the order of their numbers."""
    feature = rows.features[column]
    if getattr(feature, "names", None):
        return tuple(feature.names)
    values = set(rows.with_format(None)[column][:])
    if None in values:
        raise ValueError(f"The column {column} has rows without a label.")
    return tuple(str(value) for value in sorted(values))


def number_labels(rows: Dataset, column: str, names: Sequence[str]) -> np.ndarray:
    """Classes of all rows as numbers."""
    values = rows.with_format(None)[find_column(rows, (column,), "A part")][:]
    own = getattr(rows.features[column], "names", None)
    if own:
        # numbers of a part's own list of classes, which may have another order
        values = [own[value] if value is not None and value >= 0 else None for value in values]
    if None in values:
        raise ValueError(f"The column {column} has rows without a label.")
    numbers = {name: number for number, name in enumerate(names)}
    unknown = next((value for value in values if str(value) not in numbers), None)
    if unknown is not None:
        raise ValueError(f"The label {unknown!r} is not in the training part: {', '.join(names)}.")
    return np.array([numbers[str(value)] for value in values])
