"""Text: the sentiment of IMDb reviews, read by bytes or characters."""

import hashlib
import os
from pathlib import Path

import numpy as np

from ..batches import Padding
from ..codes import TextCode, Tokenization, check_max_length
from ..rows import TaskRows
from ..sources import (
    PARTS,
    ColumnTexts,
    FileTexts,
    TextSource,
    complete_parts,
    find_column,
    find_path,
    name_labels,
    number_labels,
    read_tables,
)
from ..task import Task, TaskKind

_WHERE = (
    "IMDb is the folder aclImdb of https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
    " (train/pos/*.txt and so on), or tables train and test with the columns text and label, as"
    " https://huggingface.co/datasets/stanfordnlp/imdb has them."
)
_CLASSES = ("neg", "pos")
MASK_RATIO = 0.15


class TextRows(TaskRows):
    """Texts with classes, turned into ids when asked for.

    Args:
        texts: Texts by number.
        labels: Class of each text.
        code: How text becomes ids.
        max_length: Cut longer texts.
        keep_end: Cut them at their beginning.
    """

    def __init__(
        self,
        texts: TextSource,
        labels: np.ndarray,
        code: TextCode,
        max_length: int | None = None,
        keep_end: bool = False,
    ):
        super().__init__(len(texts))
        self.texts, self.all_labels, self.code = texts, labels, code
        self.max_length, self.keep_end = max_length, keep_end

    def read(self, row: int) -> dict:
        ids = self.code.encode(self.texts[row], self.max_length, keep_end=self.keep_end)
        return {"input_ids": ids, "labels": int(self.all_labels[row])}

    def find_labels(self, rows: np.ndarray) -> np.ndarray:
        return self.all_labels[rows]

    def find_lengths(self, rows: np.ndarray) -> np.ndarray:
        return np.array([self.code.count(self.texts[int(row)], self.max_length) for row in rows])


class BytesRepr(TextSource):
    """Texts as Python writes their bytes: b'...' with escapes, as a published loader reads them."""

    def __init__(self, texts: TextSource):
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, number: int) -> str:
        return str(self.texts[number].encode())


def load(
    path: str | os.PathLike,
    *,
    tokenization: Tokenization = "bytes",
    max_length: int | None = 4096,
    min_count: int = 1,
    append_eos: bool = False,
    padding: Padding = "none",
    validation_fraction: float = 0.1,
    data_seed: int = 0,
    reference_validation: bool = False,
    reference_repr: bool = False,
    vocabulary_of_all_parts: bool = False,
) -> Task:
    """IMDb from files.

    Args:
        path: The folder `aclImdb`, or tables in parts (or with a column `split`).
        tokenization, min_count, append_eos: See `TextCode`; published loaders of characters have
            min_count 15 or 10 and append an end.
        max_length: Cut longer texts; 1000 to 4000 in the arena, None for none.
        padding: See `TaskCollator`.
        validation_fraction: Share of the training part that becomes the validation part where
            there is none, drawn by `data_seed`.
        reference_validation: Take the test part as validation part, as the published code does.
        reference_repr: Read `str(bytes)` with its b'...' and escapes, as one published loader.
        vocabulary_of_all_parts: Characters of all parts make the vocabulary, not of train alone.
    """
    check_max_length(max_length)
    folder = find_path(path, _WHERE)
    if (folder / "aclImdb").is_dir():
        folder = folder / "aclImdb"
    is_official = all((folder / part / c).is_dir() for part in ("train", "test") for c in _CLASSES)
    names: tuple[str, ...] = _CLASSES
    sources: dict[str, tuple[TextSource, np.ndarray]]
    if is_official:
        found = {part: _read_folder(folder / part) for part in ("train", "test")}
        sources, notes = _complete(found, reference_validation, validation_fraction, data_seed)
    else:
        tables, notes, label, text = _read_tables(
            folder, reference_validation, validation_fraction, data_seed
        )
        names = name_labels(tables["train"], label)
        sources = {
            part: (ColumnTexts(rows, text), number_labels(rows, label, names))
            for part, rows in tables.items()
        }
    if reference_repr:
        sources = {part: (BytesRepr(t), labels) for part, (t, labels) in sources.items()}
    used = PARTS if vocabulary_of_all_parts else ("train",)
    corpus = (text for part in used for text in sources[part][0])
    code = TextCode(tokenization, corpus, min_count=min_count, append_eos=append_eos)
    parts = {
        part: TextRows(texts, labels, code, max_length) for part, (texts, labels) in sources.items()
    }
    return Task(
        "text",
        parts,
        max_length=max_length or max(int(part.lengths.max()) for part in parts.values()),
        class_names=names,
        mask_ratio=MASK_RATIO,
        padding=padding,
        notes=notes,
        **code.code.task_fields(),
    )


def _read_tables(folder: Path, reference_validation, fraction, seed):
    tables = read_tables(folder, _WHERE)
    label = find_column(tables["train"], ("label", "labels"), folder)
    text = find_column(tables["train"], ("text", "content"), folder)
    tables, notes = complete_parts(
        tables,
        label,
        reference_validation=reference_validation,
        fraction=fraction,
        seed=seed,
        text_column=text,
    )
    return tables, notes, label, text


def _read_folder(folder: Path) -> tuple[FileTexts, np.ndarray]:
    files = [sorted((folder / name).glob("*.txt")) for name in _CLASSES]
    for name, found in zip(_CLASSES, files, strict=True):
        if not found:
            raise ValueError(f"{folder / name} holds no .txt files; {_WHERE}")
    labels = np.repeat(np.arange(len(_CLASSES)), [len(found) for found in files])
    return FileTexts([file for found in files for file in found]), labels


def _complete(sources, reference_validation, fraction, seed):
    """Parts of the official folder with a validation part."""
    from datasets import Dataset, DatasetDict

    # the same draw as for tables: rows stand for texts
    tables = DatasetDict(
        {
            part: Dataset.from_dict(
                {"label": labels, "row": np.arange(len(labels)), "text": _shorten(texts)}
            )
            for part, (texts, labels) in sources.items()
        }
    )
    tables, notes = complete_parts(
        tables,
        "label",
        reference_validation=reference_validation,
        fraction=fraction,
        seed=seed,
        text_column="text",
    )
    texts = {"train": "train", "validation": "train", "test": "test"}
    if reference_validation:
        texts["validation"] = "test"
    found: dict[str, tuple[TextSource, np.ndarray]] = {}
    for part, rows in tables.items():
        files = sources[texts[part]][0].files
        chosen = FileTexts([files[row] for row in rows["row"][:]])
        found[part] = (chosen, np.asarray(rows["label"][:]))
    return found, notes


def _shorten(texts: FileTexts) -> list[str]:
    """What tells texts apart, without holding them."""
    return [hashlib.sha256(text.encode()).hexdigest() for text in texts]


TASK = TaskKind("text", "sentiment of IMDb reviews by bytes, 2 classes", _WHERE, load=load)
