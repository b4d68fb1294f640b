"""A model over a stream of records: packed in batches by tokens, results in the order of input."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Queue
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from ..auto import FAMILIES
from ..data.reading_frame import MAX_LETTERS, MAX_SEQUENCES, is_in_frame
from ..data.records import find_files
from ..models.dna import reverse_complement
from ..models.tokenization_dna import DnaTokenizer
from ..models.tokenization_genome import GenomeTokenizer
from ..models.tokenization_table import TableTokenizer
from .records import Record, read_files

logger = logging.get_logger(__name__)

Result = TypeVar("Result")

# batches of tokens that are read ahead, so that sequences of like length go together
LOOK_AHEAD = 16
KNOWN_BASES = frozenset("ACGTUacgtu")
# what of a file's bytes are letters of sequences, about
_SHARE_OF_LETTERS = {"fasta": 0.95, "fastq": 0.48}


class Item(NamedTuple):
    """A record as a model reads it, or a note why it does not."""

    record: Record
    ids: np.ndarray | None
    note: str

    @property
    def length(self) -> int:
        """Letters of the record."""
        return len(self.record.sequence)

    @property
    def tokens(self) -> int:
        """What the model reads of it."""
        return 0 if self.ids is None else len(self.ids)


class Part(NamedTuple):
    """Records that are batched together; their results are written together."""

    number: int
    items: list[Item]


@dataclass
class Engine:
    """A model with its tokenizer, and how sequences are given to it.

    Args:
        token_budget: Most tokens in a batch; one longer sequence is a batch of its own.
        both_strands: Give every sequence as its reverse complement, too; outputs are averaged.
        strict: A record that cannot be read is an error instead of a note.
        look_ahead: Batches of tokens in a part; `LOOK_AHEAD` by default.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    token_budget: int = 65536
    both_strands: bool = False
    strict: bool = False
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    look_ahead: int = field(default_factory=lambda: LOOK_AHEAD)

    def __post_init__(self):
        if self.token_budget < 1:
            raise ValueError(f"token_budget={self.token_budget} was given: at least 1 is accepted.")
        config = self.model.config
        self.is_mixer = config.model_type in FAMILIES
        is_flat = getattr(config, "pooling", None) == "flat"
        self.fixed_length = config.max_position_embeddings if is_flat else None
        self.limit = getattr(config, "length_limit", None)
        if not self.is_mixer:
            self.limit = getattr(config, "max_position_embeddings", None)
        self.letters = frozenset(getattr(self.tokenizer, "letters", ""))
        self.is_dna = isinstance(self.tokenizer, (DnaTokenizer, GenomeTokenizer))
        if self.both_strands and not isinstance(self.tokenizer, DnaTokenizer):
            name = type(self.tokenizer).__name__
            raise ValueError(f"Both strands require ids of DnaTokenizer, got {name}.")
        self.word_size = getattr(config, "kmer_size", None) or 0
        self.counts_codons = self.word_size > 0 and config.kmer_phases > 1
        self._first: list[str] = []
        self.model.eval().to(self.device)

    # reading

    def find_files(self, sources: Sequence[str]) -> list[str]:
        """The files that sources stand for."""
        return find_files(list(sources), keep_order=True)[0]

    def read(self, sources: Sequence[str], **options: Any) -> Iterator[Record]:
        """Records of files, see `read_files`."""
        return read_files(sources, **options)

    def estimate_tokens(self, sources: Sequence[str]) -> int | None:
        """About how many tokens there are, where the size of the files tells."""
        files, kind = find_files(list(sources))
        if kind not in _SHARE_OF_LETTERS or any(file.endswith((".gz", ".bgz")) for file in files):
            return None
        return int(sum(map(os.path.getsize, files)) * _SHARE_OF_LETTERS[kind])

    def read_parts(
        self, records: Iterable[Record], wanted: Callable[[int], bool] = lambda number: True
    ) -> Iterator[Part]:
        """Parts of about `LOOK_AHEAD` batches, in the order of the records.

        What a part holds depends on the records and the budget alone, so a run that goes on finds
        the same parts.

        Args:
            wanted: Which parts to give, by their number; others are passed over.
        """
        for number, group in enumerate(self._group(records)):
            if wanted(number):
                yield Part(number, self.encode(group))

    def _group(self, records: Iterable[Record]) -> Iterator[list[Record]]:
        group: list[Record] = []
        tokens = 0
        for record in records:
            group.append(record)
            tokens += len(record.sequence) + 2
            if tokens >= self.look_ahead * self.token_budget:
                yield group
                group, tokens = [], 0
        if group:
            yield group

    def encode(self, records: Sequence[Record]) -> list[Item]:
        """Records as the model reads them, each with what is to be said of it."""
        notes = [self._find_note(record) for record in records]
        readable = [r.sequence for r, note in zip(records, notes, strict=True) if not note[0]]
        ids = iter(self._tokenize(readable) if readable else ())
        return [
            Item(record, None if is_bad else next(ids), text)
            for record, (is_bad, text) in zip(records, notes, strict=True)
        ]

    def _tokenize(self, texts: list[str]) -> list[np.ndarray]:
        # arrays as they are made by our tokenizers; others give lists, as lengths differ
        kind = "np" if isinstance(self.tokenizer, TableTokenizer) else None
        found = self.tokenizer(texts, return_attention_mask=False, return_tensors=kind)["input_ids"]
        return [np.asarray(ids, dtype=np.int64) for ids in found]

    def _find_note(self, record: Record) -> tuple[bool, str]:
        """Whether a record cannot be read, and what is to be said of it."""
        sequence, problem, note = record.sequence, "", ""
        letters = set(sequence)
        length = len(sequence) + self.tokenizer.num_special_tokens_to_add()
        if not sequence:
            problem = "no sequence"
        elif self.is_dna and not letters <= _LETTERS:
            problem = f"letter {sorted(letters - _LETTERS)[0]!r}"
        elif self.letters and not {c.upper() for c in letters} <= self.letters | {"U"}:
            problem = f"other letters than {''.join(sorted(self.letters))}"
        elif self.limit is not None and self.fixed_length is None and length > self.limit:
            problem = f"longer than {self.limit} tokens"
        elif self.is_dna and not letters & KNOWN_BASES:
            note = "no known base"
        elif len(sequence) < self.word_size:
            note = f"shorter than the words of {self.word_size} letters that the model counts"
        if self.fixed_length is not None and not problem and len(sequence) != self.fixed_length:
            note = "cut" if len(sequence) > self.fixed_length else "padded"
        if problem and self.strict:
            raise ValueError(f"Record {record.id!r} cannot be read: {problem}.")
        return bool(problem), problem or note

    def watch_frame(self, part: Part) -> None:
        """Say once if a model that counts words by codon position is given other sequences than
        genes that begin with their first codon."""
        if not self.counts_codons:
            return
        room = MAX_SEQUENCES - len(self._first)
        self._first += [item.record.sequence[: MAX_LETTERS + 3] for item in part.items[:room]]
        frame = is_in_frame(self._first)
        if frame is None and len(self._first) < MAX_SEQUENCES:
            return
        self.counts_codons, self._first = False, []
        if frame is False:
            logger.warning(
                "The sequences are no genes that begin with their first codon, by which this model"
                " counts words: its answers mean little."
            )
        elif self.both_strands:
            logger.warning(
                "This model counts words by codon position, which the other strand of a gene has"
                " not: the average of both strands is worse than the gene itself."
            )

    # computing

    def restore(self, outputs: np.ndarray) -> np.ndarray:
        """Outputs of a regression in the units of its target."""
        return outputs

    def compute(
        self,
        part: Part,
        forward: Callable[[dict[str, Tensor], list[int]], list[Any]],
        turn_back: Callable[[Any, np.ndarray], Any] = lambda result, ids: result,
    ) -> list[Any]:
        """Results of a part, None for records that cannot be read.

        Args:
            forward: Gives one result per sequence of a batch, from model inputs and lengths.
            turn_back: The result of the opposite strand at the places of the ids that are given;
                results without places stay as they are.
        """
        results: list[Any] = [None] * len(part.items)
        rows = [row for row, item in enumerate(part.items) if item.ids is not None]
        for batch in self._make_batches(part.items, rows):
            ids = [part.items[row].ids for row in batch]
            found = forward(self._collate(ids), [len(one) for one in ids])
            if self.both_strands:
                turned = [reverse_complement(one) for one in ids]
                other = forward(self._collate(turned), [len(one) for one in ids])
                found = [
                    (own + turn_back(result, one)) / 2
                    for own, result, one in zip(found, other, ids, strict=True)
                ]
            for row, result in zip(batch, found, strict=True):
                results[row] = result
        return results

    def _make_batches(self, items: Sequence[Item], rows: list[int]) -> Iterator[list[int]]:
        """Rows of like length within the budget, longest first."""
        lengths = {row: len(items[row].ids) for row in rows}
        batch: list[int] = []
        tokens = 0
        for row in sorted(rows, key=lambda row: (-lengths[row], row)):
            # in a padded batch every sequence costs what the longest does
            cost = lengths[row] if self.is_mixer or not batch else lengths[batch[0]]
            if batch and tokens + cost > self.token_budget:
                yield batch
                batch, tokens = [], 0
            batch.append(row)
            tokens += cost
        if batch:
            yield batch

    def _collate(self, ids: Sequence[np.ndarray]) -> dict[str, Tensor]:
        """Model inputs: flat for mixers, padded for other models and for flat pooling."""
        if self.fixed_length is not None:
            rows = [_fit(one, self.fixed_length, self.tokenizer.pad_token_id) for one in ids]
            return {"input_ids": torch.from_numpy(np.stack(rows)).to(self.device)}
        if self.is_mixer:
            lengths = np.array([len(one) for one in ids])
            boundaries = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]))
            flat = torch.from_numpy(np.concatenate(ids))[None].to(self.device)
            return {"input_ids": flat, "cu_seq_lens_q": boundaries.to(self.device, torch.int32)}
        rows = {"input_ids": [one.tolist() for one in ids]}
        batch = self.tokenizer.pad(rows, return_tensors="pt")
        return {name: value.to(self.device) for name, value in batch.items()}


_LETTERS = frozenset("ACGTURYSWKMBDHVNacgturyswkmbdhvn")


def _fit(ids: np.ndarray, length: int, padding: int) -> np.ndarray:
    """Ids cut or padded to a length."""
    return np.pad(ids[:length], (0, max(0, length - len(ids))), constant_values=padding)


def prefetch(parts: Iterator[Part]) -> Iterator[Part]:
    """The same parts, the next of which is read and encoded while one is computed."""
    queue: Queue = Queue(maxsize=1)
    stop = threading.Event()
    end = object()

    def read() -> None:
        try:
            for part in parts:
                if stop.is_set():
                    return
                queue.put(part)
            queue.put(end)
        except BaseException as error:  # handed over to the reader
            queue.put(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        while (found := queue.get()) is not end:
            if isinstance(found, BaseException):
                raise found
            yield found
    finally:
        stop.set()
        if not queue.empty():
            queue.get_nowait()


def stream_parts(
    engine: Engine, records: Iterable[Record], compute: Callable[[Engine, Part], Iterable[Result]]
) -> Iterator[Result]:
    """Results of all records, one by one; the next part is read while one is computed."""
    for part in prefetch(engine.read_parts(records)):
        yield from compute(engine, part)


def load_tokenizer(checkpoint: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a checkpoint, or one sentence that there is none."""
    try:
        return AutoTokenizer.from_pretrained(checkpoint)
    except (OSError, ValueError) as error:
        raise ValueError(f"{checkpoint} has no tokenizer: {error}") from error
