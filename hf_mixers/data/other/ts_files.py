"""Files of time series in the `.ts` format of the UEA and UCR archives."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ..records import open_plain_or_gzip

_MISSING = "?"
_PART_FILE = re.compile(r"(?P<stem>.*)_(?P<part>TRAIN|TEST)\.ts(\.gz)?")
_FLAGS = ("timestamps", "missing", "univariate", "equallength")
_COUNTS = ("dimensions", "dimension", "serieslength")
# about the data, but nothing that reading needs
_NOTES = ("problemname",)


@dataclass
class TsHeader:
    """What the lines before `@data` say; None where they are silent."""

    flags: dict[str, bool] = field(default_factory=dict)
    dimensions: int | None = None
    length: int | None = None
    class_names: list[str] | None = None


def read_ts(path: str | os.PathLike) -> tuple[list[np.ndarray], list[str], list[str] | None]:
    """Series `(L, F)` of a `.ts` file, their labels as text, and the classes of its header.

    A missing value (`?`) is `nan`. What the header announces (dimensions, one length for all, the
    classes, whether values are missing) must hold; every error names file and line.
    """
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise ValueError(f"{path} does not exist.")
    header: TsHeader | None = None
    series, labels, announced = [], [], TsHeader()
    for number, line in _lines(path):
        place = f"{path}, line {number}"
        if header is None:
            if line.startswith("@"):
                header = _read_header_line(line, announced, place)
            else:
                raise ValueError(f"{place}: {line[:40]!r} stands before a line @data.")
            continue
        values, label = _read_series(line, header, place)
        # without a number in the header, the first series says how many channels there are
        header.dimensions = header.dimensions or values.shape[1]
        if header.flags.get("equallength"):
            header.length = header.length or len(values)
        series.append(values)
        labels.append(label)
    if header is None:
        raise ValueError(f"{path} has no line @data: it is not a .ts file.")
    if not series:
        raise ValueError(f"{path} holds no series after @data.")
    return series, labels, header.class_names


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """Numbers and text of the lines that are neither empty nor comments."""
    with open_plain_or_gzip(path) as handle:
        try:
            for number, raw in enumerate(handle, 1):
                line = raw.decode().strip()
                if line and not line.startswith(("#", "%")):
                    yield number, line
        except (EOFError, OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is damaged or no text: {error}.") from error


def _read_header_line(line: str, header: TsHeader, place: str) -> TsHeader | None:
    """Take one line into the header, which is given back, complete, at `@data`."""
    name, *words = line[1:].split()
    name = name.lower()
    if name == "data":
        _check_header(header, place)
        return header
    if name in _FLAGS:
        header.flags[name] = _read_flag(name, words[0] if words else "", place)
    elif name in _COUNTS:
        if len(words) != 1 or not words[0].isdecimal() or int(words[0]) < 1:
            raise ValueError(f"{place}: @{name} needs a whole number from 1 on, got {line!r}.")
        header.length = int(words[0]) if name == "serieslength" else header.length
        header.dimensions = header.dimensions if name == "serieslength" else int(words[0])
    elif name == "classlabel":
        if not words or not _read_flag(name, words[0], place):
            raise ValueError(f"{place}: the file has no class labels, which are needed.")
        header.class_names = words[1:] or None
    elif name == "targetlabel":
        if words and not _read_flag(name, words[0], place):
            return None
        raise ValueError(f"{place}: @targetLabel is for regression: @classLabel is accepted.")
    elif name not in _NOTES:
        raise ValueError(f"{place}: @{name} is no line of a .ts header that is known.")
    return None


def _read_flag(name: str, word: str, place: str) -> bool:
    if word.lower() not in ("true", "false"):
        raise ValueError(f"{place}: @{name} needs true or false, got {word!r}.")
    return word.lower() == "true"


def _check_header(header: TsHeader, place: str) -> None:
    if header.flags.get("timestamps"):
        raise ValueError(f"{place}: series with time stamps are not read, only evenly spaced ones.")
    if header.flags.get("univariate"):
        if header.dimensions not in (None, 1):
            raise ValueError(
                f"{place}: @univariate true and {header.dimensions} dimensions differ."
            )
        header.dimensions = 1
    # a length beside `@equalLength false` is that of the longest series
    if header.flags.get("equallength") is False:
        header.length = None


def _read_series(line: str, header: TsHeader, place: str) -> tuple[np.ndarray, str]:
    """One series `(L, F)` and its label."""
    *channels, label = (part.strip() for part in line.split(":"))
    if not channels:
        raise ValueError(f"{place}: there is no label: a series ends in a colon and its class.")
    if not label or label == _MISSING:
        raise ValueError(f"{place}: the label is missing.")
    if header.class_names is not None and label not in header.class_names:
        raise ValueError(
            f"{place}: the label {label[:40]!r} is none of @classLabel:"
            f" {', '.join(header.class_names)}."
        )
    if header.dimensions not in (None, len(channels)):
        raise ValueError(
            f"{place}: {len(channels)} channels where {header.dimensions} are expected."
        )
    columns = [_read_channel(text, number, place) for number, text in enumerate(channels, 1)]
    lengths = [len(column) for column in columns]
    if min(lengths) != max(lengths):
        odd = next(i for i, length in enumerate(lengths) if length != lengths[0])
        raise ValueError(
            f"{place}: channel 1 has {lengths[0]} values and channel {odd + 1} {lengths[odd]}: all"
            " channels of a series must be equally long."
        )
    if header.length not in (None, lengths[0]):
        raise ValueError(
            f"{place}: a series of {lengths[0]} values where all have {header.length}."
        )
    values = np.stack(columns, axis=1)
    if header.flags.get("missing") is False and np.isnan(values).any():
        raise ValueError(f"{place}: a value is missing where @missing false says that none is.")
    return values, label


def _read_channel(text: str, number: int, place: str) -> np.ndarray:
    if not text:
        raise ValueError(f"{place}: channel {number} is empty.")
    words = [word.strip() for word in text.split(",")]
    try:
        values = np.array([np.nan if word == _MISSING else float(word) for word in words])
    except ValueError as error:
        wrong = next(word for word in words if word != _MISSING and not _is_number(word))
        raise ValueError(
            f"{place}: channel {number} holds {wrong[:40]!r}, which is neither a number nor ?."
        ) from error
    # a value beyond what float32 holds becomes infinite
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
    if np.isinf(values).any():
        raise ValueError(f"{place}: channel {number} holds an infinite value.")
    return values


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def find_ts_pair(source: str | os.PathLike, name: str | None = None) -> dict[str, str]:
    """Files of the official parts: `<name>_TRAIN.ts` and `<name>_TEST.ts` in a folder or beside.

    Either may be gzipped, with `.gz` after its name.

    Args:
        source: A folder with the two files, or with a folder `name` that has them; or one of them.
            A file that is named otherwise is all there is, under `train`.
        name: Which set, where a folder has several.
    """
    source = os.fspath(source)
    if os.path.isdir(source):
        folder = source
        if name is not None and os.path.isdir(os.path.join(source, name)):
            folder = os.path.join(source, name)
        found = _set_names(folder)
        chosen = [one for one in found if name is None or one == name]
        if len(chosen) != 1:
            raise ValueError(
                f"{folder} should hold one set <name>_TRAIN.ts and <name>_TEST.ts"
                f"{'' if name is None else f' with the name {name}'}: it has"
                f" {', '.join(found) or 'none'}."
            )
        source = _plain_or_gzip(os.path.join(folder, f"{chosen[0]}_TRAIN.ts"))
    known = _PART_FILE.fullmatch(source)
    if known is None:
        return {"train": source}
    if known["part"] == "TRAIN":
        return {"train": source, "test": _plain_or_gzip(f"{known['stem']}_TEST.ts")}
    return {"train": _plain_or_gzip(f"{known['stem']}_TRAIN.ts"), "test": source}


def _set_names(folder: str) -> list[str]:
    """Names of the sets that have a training part in a folder."""
    known = filter(None, map(_PART_FILE.fullmatch, os.listdir(folder)))
    return sorted({one["stem"] for one in known if one["part"] == "TRAIN"})


def _plain_or_gzip(path: str) -> str:
    """The one of a file and its gzipped twin that is there."""
    found = [one for one in (path, f"{path}.gz") if os.path.isfile(one)]
    if len(found) != 1:
        state = "both are" if found else "neither is"
        raise ValueError(f"Of {path} and {path}.gz one is needed: {state} there.")
    return found[0]
