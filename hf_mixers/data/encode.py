"""Sequences as token ids, stored in one or two bytes each and memory-mapped."""

from typing import Any, Literal

import numpy as np
import pyarrow as pa
from datasets import (
    ClassLabel,
    Dataset,
    DatasetDict,
    Features,
    IterableDataset,
    LargeList,
    List,
    Value,
)
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

from ..models.tokenization_table import TableTokenizer

logger = logging.get_logger(__name__)

# letters that are turned at once, so that memory stays small for long sequences
_BATCH_LETTERS = 1 << 25


def tokenize_sequences(
    dataset: Dataset | DatasetDict | IterableDataset,
    tokenizer: PreTrainedTokenizerBase,
    *,
    column: str = "sequence",
    label_column: str = "label",
    max_length: int | None = None,
    too_long: Literal["error", "drop"] = "error",
) -> Dataset | DatasetDict | IterableDataset:
    """Token ids of sequences, in the smallest unsigned integers that hold the vocabulary.

    Columns are `input_ids`, `length` (in tokens), `labels` if there is a column of labels, and
    `id` if there is one. Rows come out with `input_ids` as numpy array of int64.

    Args:
        dataset: Data set, or the parts of one, with a column of text.
        column: Column with the text.
        label_column: Column with whole numbers (classes), floats (values to predict), lists of
            as many numbers for every example (several labels, or several values), or lists of any
            number of `ClassLabel`, which become a vector of 0 and 1.
        max_length: Most tokens of an example, such as the model's `max_position_embeddings`.
        too_long: What becomes of longer examples: `error`, or `drop`, which reports how many.
            Nothing is ever cut.

    >>> from hf_mixers import DnaTokenizer
    >>> dataset = Dataset.from_dict({"sequence": ["ACGT", "GG"], "label": [1, 0]})
    >>> encoded = tokenize_sequences(dataset, DnaTokenizer())
    >>> encoded[0]["input_ids"], encoded["labels"][:]
    (array([5, 6, 7, 8]), [1, 0])
    """
    if too_long not in ("error", "drop"):
        raise ValueError(f"too_long={too_long!r} was given: error and drop are accepted.")
    options: dict[str, Any] = {"column": column, "label_column": label_column}
    options |= {"max_length": max_length, "too_long": too_long}
    if isinstance(dataset, DatasetDict):
        parts = dataset.items()
        return DatasetDict({n: tokenize_sequences(p, tokenizer, **options) for n, p in parts})

    known = dataset.features
    if known is None or column not in known:
        names = "unknown columns" if known is None else ", ".join(known)
        raise ValueError(f"The data set has no column {column!r}: it has {names}.")
    dtype = np.min_scalar_type(len(tokenizer) - 1)
    features = Features(input_ids=LargeList(Value(dtype.name)), length=Value("int64"))
    if label_column in known:
        features["labels"] = _choose_label_type(known[label_column], label_column)
    if "id" in known:
        features["id"] = Value("string")
    function = _Encoder(tokenizer, column, label_column, max_length, too_long == "drop", features)
    if label_column in known:
        function.num_classes = _count_classes_of_lists(known[label_column])
    options = {
        "batched": True,
        "remove_columns": [name for name in known if name not in features],
        "features": features,
    }
    if isinstance(dataset, IterableDataset):
        return dataset.with_format("arrow").map(function, **options).with_format(None)
    if len(dataset) == 0:
        raise ValueError("The data set to tokenize is empty.")
    size = _choose_batch_size(dataset, column)
    encoded = dataset.with_format("arrow").map(
        function, batch_size=size, writer_batch_size=size, desc="Tokenizing", **options
    )
    if len(encoded) < len(dataset):
        logger.warning(
            f"{len(dataset) - len(encoded)} of {len(dataset)} examples are left out: longer than"
            f" {max_length} tokens."
        )
    if len(encoded) == 0:
        raise ValueError(f"No example has at most {max_length} tokens.")
    return encoded.with_format("numpy", columns=["input_ids"], output_all_columns=True)


def fix_lengths(
    tokens: Dataset | DatasetDict, length: int, pad_token_id: int = 0
) -> Dataset | DatasetDict:
    """Tokenized sequences cut or padded at their end to `length` tokens, as flat pooling needs.

    Padding becomes part of the sequences; how many of them are changed is reported. Series of
    `input_values` are padded with zeros.

    >>> from hf_mixers import DnaTokenizer
    >>> dataset = Dataset.from_dict({"sequence": ["ACGTA", "GG"]})
    >>> fixed = fix_lengths(tokenize_sequences(dataset, DnaTokenizer()), 4, pad_token_id=0)
    >>> fixed[:]["input_ids"].tolist()
    [[5, 6, 7, 8], [7, 7, 0, 0]]
    """
    if length < 1:
        raise ValueError(f"length must be at least 1, got {length}.")
    if isinstance(tokens, DatasetDict):
        return DatasetDict(
            {name: fix_lengths(part, length, pad_token_id) for name, part in tokens.items()}
        )
    lengths = np.asarray(tokens["length"])
    logger.warning(
        f"Of {len(lengths)} sequences {(lengths > length).sum()} are cut and"
        f" {(lengths < length).sum()} padded to {length} tokens."
    )

    name = "input_ids" if "input_ids" in tokens.column_names else "input_values"
    padding = pad_token_id if name == "input_ids" else 0

    def fix(row: dict) -> dict:
        content = row[name][:length]
        # at the end of the steps, not of the channels
        ends = [(0, length - len(content)), *[(0, 0)] * (content.ndim - 1)]
        return {name: np.pad(content, ends, constant_values=padding), "length": length}

    return tokens.map(fix, features=tokens.features, desc="Fixing lengths")


class _Encoder:
    """Turns tables of text into tables of token ids."""

    def __init__(self, tokenizer, column, label_column, max_length, drops, features):
        self.tokenizer, self.column, self.label_column = tokenizer, column, label_column
        self.max_length, self.drops, self.features = max_length, drops, features
        self.width = None  # of labels that are lists
        self.num_classes: int | None = None  # of labels that are lists of classes

    def __call__(self, table: pa.Table) -> pa.Table:
        texts = table[self.column].to_pylist()
        for row, text in enumerate(texts):
            if not text:
                raise ValueError(f"{_name_row(table, row)} has no sequence: length 1 is the least.")
        ids = self._encode(texts)
        for row, one in enumerate(ids):
            if len(one) == 0:
                raise ValueError(f"{_name_row(table, row)} has only white space as its sequence.")
        rows = [row for row, one in enumerate(ids) if self._fits(table, row, len(one))]
        ids = [ids[row] for row in rows]
        lengths = np.array([len(one) for one in ids], dtype=np.int64)
        dtype = np.dtype(self.features["input_ids"].feature.dtype)
        flat = np.concatenate([np.asarray(one, dtype=dtype) for one in ids] or [np.empty(0, dtype)])
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        columns = {
            "input_ids": pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(flat)),
            "length": pa.array(lengths),
        }
        kept = table.take(pa.array(rows, pa.int64()))
        if "labels" in self.features:
            labels = kept[self.label_column]
            if labels.null_count:
                row = labels.to_pylist().index(None)
                raise ValueError(f"{_name_row(kept, row)} has no label.")
            if self.num_classes is not None:
                labels = _mark_classes(labels.to_pylist(), self.num_classes)
            elif isinstance(self.features["labels"], List):
                self._check_vectors(kept, labels)
            columns["labels"] = labels
        if "id" in self.features:
            columns["id"] = kept["id"]
        return pa.table(columns).cast(self.features.arrow_schema)

    def _check_vectors(self, table: pa.Table, labels: pa.ChunkedArray) -> None:
        """Refuse lists of labels of different lengths, or with gaps."""
        for row, vector in enumerate(labels.to_pylist()):
            self.width = len(vector) if self.width is None else self.width
            if len(vector) != self.width or not vector:
                raise ValueError(
                    f"{_name_row(table, row)} has {len(vector)} labels and others {self.width}: as"
                    " many for every example, at least one, are accepted."
                )
            if None in vector:
                raise ValueError(f"{_name_row(table, row)} has no label at {vector.index(None)}.")

    def _encode(self, texts: list[str]) -> list:
        # only our own tokenizers give arrays for texts of different lengths
        tensors = "np" if isinstance(self.tokenizer, TableTokenizer) else None
        options = {"return_attention_mask": False, "return_tensors": tensors, "verbose": False}
        return list(self.tokenizer(texts, **options)["input_ids"])

    def _fits(self, table: pa.Table, row: int, length: int) -> bool:
        if self.max_length is None or length <= self.max_length:
            return True
        if not self.drops:
            raise ValueError(
                f"{_name_row(table, row)} has {length} tokens: at most {self.max_length} are"
                " accepted, and too_long='drop' leaves longer ones out."
            )
        return False


def _name_row(table: pa.Table, row: int) -> str:
    name = f"Record {table['id'][row].as_py()!r}" if "id" in table.column_names else "An example"
    if "file" in table.column_names:
        name = f"{table['file'][row].as_py()}: {name.lower()}"
    return name


def _count_classes_of_lists(feature) -> int | None:
    """How many classes there are, if labels are lists of classes."""
    inner = getattr(feature, "feature", None)
    return inner.num_classes if isinstance(inner, ClassLabel) else None


def _mark_classes(rows: list[list[int]], num_classes: int) -> pa.Array:
    """Vectors with 1 at the classes of each row and 0 elsewhere."""
    marks = np.zeros((len(rows), num_classes), dtype=np.float32)
    for row, classes in enumerate(rows):
        marks[row, classes] = 1
    return pa.FixedSizeListArray.from_arrays(pa.array(marks.ravel()), num_classes).cast(
        pa.list_(pa.float32())
    )


def _choose_label_type(feature, label_column: str):
    kind = getattr(feature, "dtype", None)
    if kind in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"):
        return Value("int64")
    if kind in ("float16", "float32", "float64"):
        return Value("float32")
    if isinstance(feature, (List, LargeList)) and not isinstance(
        feature.feature, (List, LargeList)
    ):
        _choose_label_type(feature.feature, label_column)
        # several labels are shares or numbers, never classes
        return List(Value("float32"))
    raise ValueError(
        f"The column {label_column!r} holds {feature}: classes as ClassLabel or whole numbers, or"
        " floats to predict, or lists of them, are accepted."
    )


def _choose_batch_size(dataset: Dataset, column: str) -> int:
    letters = dataset.data.nbytes if "length" not in dataset.column_names else None
    if letters is None:
        letters = sum(dataset.with_format(None)["length"][:])
    return int(max(1, min(1000, _BATCH_LETTERS * len(dataset) // max(1, letters))))
