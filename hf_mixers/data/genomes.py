"""FASTA files of genomes, opened so that any part of any record can be read."""

import hashlib
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from huggingface_hub import cached_assets_path

from .fasta import BYTE_ORDER_MARK, explain_encoding
from .records import find_files
from .sequences import load_sequences


def record_names(
    files: str | os.PathLike | Sequence[str | os.PathLike],
) -> list[tuple[str, int]]:
    """Name and length of every record of FASTA files.

    >>> path = getfixture("tmp_path") / "genome.fa"
    >>> _ = path.write_text(">one\\nACGT\\nAC\\n>two\\nGG\\n")
    >>> record_names(path)
    [('one', 6), ('two', 2)]
    """
    return [
        (name, int(size))
        for file in find_fasta(files)
        for name, size in open_fasta(file).sizes.items()
    ]


def find_fasta(files: str | os.PathLike | Sequence[str | os.PathLike]) -> list[str]:
    """Sorted files of a source, all of them FASTA."""
    found, kind = find_files(files)
    if kind != "fasta":
        raise ValueError(f"{found[0]} is {kind}: windows are cut from FASTA files.")
    return found


class IndexedFasta:
    """Random access to a plain FASTA file.

    The file is mapped into memory, as processes that are forked would share, and move, one place
    in an open file.
    """

    def __init__(self, file: str):
        self._index = _read_index(file)
        self._bytes = np.memmap(file, np.uint8, mode="r")
        self.sizes = {name: record.rlen for name, record in self._index.items()}

    def read(self, name: str, start: int, length: int) -> np.ndarray:
        first, last = self._find(name, start), self._find(name, start + length - 1)
        text = np.asarray(self._bytes[first : last + 1])
        return text[(text != ord("\n")) & (text != ord("\r"))]

    def _find(self, name: str, position: int) -> int:
        """Where in the file a base is."""
        record = self._index[name]
        line, column = divmod(position, record.lenc)
        return record.offset + line * record.lenb + column


class UnpackedFasta:
    """A packed FASTA file, unpacked once into the cache of `datasets` and mapped from there."""

    def __init__(self, file: str):
        # letters are looked at where windows are read, as in plain files
        records = load_sequences(file, alphabet=None, min_length=1)
        texts = records.data.column("sequence")
        self._texts = {
            name: np.frombuffer(text.as_buffer(), np.uint8)
            for name, text in zip(records["id"], texts, strict=True)
        }
        self.sizes = {name: len(text) for name, text in self._texts.items()}

    def read(self, name: str, start: int, length: int) -> np.ndarray:
        return self._texts[name][start : start + length]


def open_fasta(file: str) -> IndexedFasta | UnpackedFasta:
    """Records of a file by name, with their `sizes`; none is without a sequence."""
    with open(file, "rb") as handle:
        start = handle.read(3)
    if not start:
        raise ValueError(f"{file} is empty.")
    is_packed = start.startswith(b"\x1f\x8b") or file.endswith(".gz")
    reader = UnpackedFasta(file) if is_packed or start == BYTE_ORDER_MARK else IndexedFasta(file)
    if not reader.sizes:
        raise ValueError(f"{file} holds no records.")
    for name, size in reader.sizes.items():
        if size == 0:
            raise ValueError(f"{file}: record {name!r} has no sequence.")
    return reader


def _read_index(file: str) -> dict[str, Any]:
    """Where the records of a FASTA file lie and how long their lines are, by name."""
    try:
        import pyfaidx
    except ImportError as error:
        raise ImportError(
            "Windows of a plain FASTA file need pyfaidx: pip install hf-mixers[bio]."
        ) from error
    try:
        try:
            return _find_or_make_index(file, f"{file}.fai")
        except OSError:
            return _find_or_make_index(file, _cached_index(file))
    except UnicodeDecodeError as error:
        raise ValueError(explain_encoding(file, error)) from None
    except (pyfaidx.FastaIndexingError, OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be indexed: {error}") from error


def _find_or_make_index(file: str, path: str) -> dict[str, Any]:
    """The index at a path, made anew if it is not that of the file as it is."""
    if os.path.isfile(path) and os.path.getmtime(path) >= os.path.getmtime(file):
        try:
            index = _load_index(file, path)
        except ValueError:
            # cut short, or of two records with one name, which is said when it is made
            index = {}
        if _reaches_end(index, file):
            return index
    # complete before it can be seen, as other processes may want it too
    with tempfile.TemporaryDirectory(prefix=".", dir=os.path.dirname(path) or ".") as folder:
        made = os.path.join(folder, "index.fai")
        index = _load_index(file, made)
        os.replace(made, path)
    return index


def _load_index(file: str, path: str) -> dict[str, Any]:
    import pyfaidx

    fasta = pyfaidx.Faidx(file, indexname=path)
    fasta.close()
    return dict(fasta.index)


def _reaches_end(index: dict[str, Any], file: str) -> bool:
    """Whether nothing follows the last record of an index, nor is missing from it.

    Otherwise the index is of a file that was here before, or somebody is still writing it.
    """
    end = max((record.bend for record in index.values()), default=0)
    # the last line may have no line break, which has two bytes at most
    if not 0 < end <= os.path.getsize(file) + 2:
        return False
    with open(file, "rb") as handle:
        handle.seek(end)
        return not handle.read(4096).strip()


def _cached_index(file: str) -> str:
    """Where the index of a file is kept that cannot have one beside it."""
    state = os.stat(file)
    key = f"{os.path.realpath(file)} {state.st_size} {state.st_mtime_ns}"
    folder = cached_assets_path("hf_mixers", "fasta")
    return str(folder / f"{hashlib.sha256(key.encode()).hexdigest()}.fai")
