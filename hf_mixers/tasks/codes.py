"""Text and symbols as ids: bytes, characters, and the vocabularies of published loaders."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from ..models.tokenization_byte import ByteTokenizer
from ..models.tokenization_char import CharTokenizer
from ..models.tokenization_table import SPECIAL_TOKENS
from .listops_trees import SYMBOLS

Tokenization = Literal["bytes", "lra_bytes", "chars"]
TOKENIZATIONS = ("bytes", "lra_bytes", "chars")
ListOpsVocabulary = Literal["hf_mixers", "lra", "s4", "paramixer"]
_NUM_BYTES = 256


@dataclass(frozen=True)
class Code:
    """Ids of a task: how many, and which are special.

    Args:
        vocab_size: Ids, with padding and mask.
        maskable_ids: Ids that stand for content.
        tokenizer: That gives these ids, if there is one.
        eos_id: Id that ends every sequence, if one does.
    """

    vocab_size: int
    pad_token_id: int
    mask_token_id: int
    maskable_ids: tuple[int, ...]
    tokenizer: PreTrainedTokenizerBase | None = None
    eos_id: int | None = None

    def task_fields(self) -> dict:
        """Fields of a `Task`."""
        names = ("vocab_size", "pad_token_id", "mask_token_id", "maskable_ids", "tokenizer")
        return {"inputs": "ids", **{name: getattr(self, name) for name in names}}


class TextCode:
    """Turns text into ids, one per byte or character.

    Args:
        tokenization: `bytes` are those of `ByteTokenizer`; `lra_bytes` are byte + 1 with padding 0,
            as in the arena; `chars` are the characters of a corpus, the most frequent first.
        corpus: Texts whose characters make the vocabulary; for `chars` only.
        min_count: Characters seen less often are unknown.
        append_eos: End every text with `[SEP]`.
        unknown_is_padding: Give unknown characters the id of padding, as the published loader of
            long documents does.
    """

    def __init__(
        self,
        tokenization: Tokenization = "bytes",
        corpus: Iterable[str] | None = None,
        *,
        min_count: int = 1,
        append_eos: bool = False,
        unknown_is_padding: bool = False,
    ):
        if tokenization not in TOKENIZATIONS:
            raise ValueError(
                f"tokenization={tokenization!r} was given: {', '.join(TOKENIZATIONS)} are accepted."
            )
        if tokenization == "lra_bytes" and append_eos:
            raise ValueError("append_eos was given with lra_bytes, which have no such id.")
        self.tokenization, self.append_eos = tokenization, append_eos
        self.unknown_is_padding = unknown_is_padding
        if tokenization == "lra_bytes":
            content = tuple(range(1, _NUM_BYTES + 1))
            self.code = Code(_NUM_BYTES + 2, 0, _NUM_BYTES + 1, content)
            return
        tokenizer: ByteTokenizer | CharTokenizer
        if tokenization == "bytes":
            tokenizer = ByteTokenizer(add_sep=append_eos)
        elif corpus is None:
            raise ValueError("tokenization='chars' was given without a corpus.")
        else:
            tokenizer = CharTokenizer.train(corpus, min_count=min_count, add_sep=append_eos)
            if len(tokenizer) == len(tokenizer.all_special_ids):
                raise ValueError(f"min_count={min_count} was given: no character is as frequent.")
        special = tokenizer.all_special_ids
        self.code = Code(
            len(tokenizer),
            tokenizer.pad_token_id,
            tokenizer.mask_token_id,
            tuple(sorted(set(range(len(tokenizer))) - set(special))),
            tokenizer,
            tokenizer.sep_token_id if append_eos else None,
        )

    def encode(
        self, text: str | bytes, max_length: int | None = None, *, keep_end: bool = False
    ) -> np.ndarray:
        """Ids `(L,)` of a text, cut to `max_length`; an empty text is one id of padding."""
        room = max_length
        if max_length is not None and self.append_eos:
            room = max_length - 1
        if self.tokenization == "chars":
            text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
            ids = self._encode_chars(_cut(text, room, keep_end))
        else:
            data = _cut(text.encode() if isinstance(text, str) else text, room, keep_end)
            ids = np.frombuffer(data, np.uint8).astype(np.int16)
            ids = ids + (1 if self.tokenization == "lra_bytes" else len(SPECIAL_TOKENS))
        if self.code.eos_id is not None:
            ids = np.append(ids, self.code.eos_id)
        if len(ids) == 0:
            ids = np.array([self.code.pad_token_id])
        return ids.astype(np.min_scalar_type(self.code.vocab_size))

    def _encode_chars(self, text: str) -> np.ndarray:
        tokenizer = self.code.tokenizer
        if not text or tokenizer is None:
            return np.empty(0, dtype=np.int64)
        ids = tokenizer(
            [text],
            add_special_tokens=False,
            return_attention_mask=False,
            return_tensors="np",
            verbose=False,
        )["input_ids"][0]
        if self.unknown_is_padding:
            ids = np.where(ids == tokenizer.unk_token_id, tokenizer.pad_token_id, ids)
        return ids

    def count(self, text: str | bytes, max_length: int | None = None) -> int:
        """Ids that `encode` gives."""
        if self.tokenization == "chars":
            size = len(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)
        else:
            size = len(text.encode() if isinstance(text, str) else text)
        size += self.append_eos
        return max(1, size if max_length is None else min(size, max_length))


def _cut(content, room: int | None, keep_end: bool):
    if room is None or len(content) <= room:
        return content
    return content[len(content) - room :] if keep_end else content[:room]


def check_max_length(max_length: int | None) -> None:
    """Refuse a length that no sequence could be cut to."""
    if max_length is not None and max_length < 1:
        raise ValueError(f"max_length={max_length} was given: at least 1 is accepted, and none.")


def listops_tokenizer() -> PreTrainedTokenizerFast:
    """Tokenizer of ListOps expressions, with or without the parentheses of the files.

    The ids are those of `[PAD]` 0, `[UNK]` 1, `[CLS]` 2, `[SEP]` 3, `[MASK]` 4, and from 5 on the
    digits, `[MIN`, `[MAX`, `[MED`, `[SM` and `]`.

    >>> listops_tokenizer()("( ( ( [MAX 2 ) 9 ) ] )").input_ids
    [16, 7, 14, 19]
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    names = [*SPECIAL_TOKENS.values(), *SYMBOLS]
    backend = Tokenizer(
        models.WordLevel({name: number for number, name in enumerate(names)}, "[UNK]")
    )
    backend.normalizer = normalizers.Sequence(
        [normalizers.Replace("(", " "), normalizers.Replace(")", " ")]
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_input_names=["input_ids", "attention_mask"],
        **SPECIAL_TOKENS,
    )


class SymbolCode:
    """Turns ListOps symbols into ids.

    Args:
        vocabulary: `hf_mixers` are the ids of `listops_tokenizer`. `lra`: padding 0, the symbols 1
            to 15 and one unknown, 16. `s4`: padding 0, unknown 1, end 2, then symbols by their
            frequency; the end is appended to every sequence. `paramixer`: the symbols 0 to 14 in
            the order of their text, padding 15. The mask follows where there is none.
        counts: Frequency of the symbols, for `s4`.
    """

    def __init__(
        self, vocabulary: ListOpsVocabulary = "hf_mixers", counts: Mapping[str, int] | None = None
    ):
        # by their text, the closing bracket last: the published loaders write X for it
        ordered = [*sorted(SYMBOLS[:-1]), SYMBOLS[-1]]
        tokenizer = eos_id = None
        if vocabulary == "hf_mixers":
            tokenizer = listops_tokenizer()
            first, size, pad, mask, order = 5, 20, 0, 4, list(SYMBOLS)
        elif vocabulary == "lra":
            first, size, pad, mask, order = 1, 18, 0, 17, ordered
        elif vocabulary == "s4":
            counts = counts or {}
            order = sorted(ordered, key=lambda symbol: -counts.get(symbol, 0))
            first, size, pad, mask, eos_id = 3, 19, 0, 18, 2
        elif vocabulary == "paramixer":
            first, size, pad, mask, order = 0, 17, 15, 16, ordered
        else:
            raise ValueError(
                f"vocabulary={vocabulary!r} was given: hf_mixers, lra, s4 and paramixer are"
                " accepted."
            )
        self.ids = {symbol: first + number for number, symbol in enumerate(order)}
        content = tuple(sorted(self.ids.values()))
        self.code = Code(size, pad, mask, content, tokenizer, eos_id)

    def encode(self, symbols: Iterable[str], max_length: int | None = None) -> np.ndarray:
        """Ids `(L,)`, cut to `max_length` with the end that `s4` appends."""
        try:
            ids = [self.ids[symbol] for symbol in symbols]
        except KeyError as error:
            raise ValueError(f"{error.args[0]!r} is not a symbol of ListOps.") from error
        if self.code.eos_id is not None:
            ids = [*ids[: None if max_length is None else max_length - 1], self.code.eos_id]
        return np.array(ids[:max_length], dtype=np.uint8)

    def recode(self, symbols: np.ndarray, max_length: int | None = None) -> np.ndarray:
        """Ids of symbol numbers, as in `SYMBOLS`; see `encode`."""
        ids = np.array([self.ids[symbol] for symbol in SYMBOLS], dtype=np.uint8)[symbols]
        if self.code.eos_id is not None:
            ids = np.append(ids[: None if max_length is None else max_length - 1], self.code.eos_id)
        return ids[:max_length].astype(np.uint8)


def count_symbols(rows: Iterable[Iterable[str]]) -> Counter:
    """How often each symbol stands in some rows."""
    counts: Counter = Counter()
    for row in rows:
        counts.update(row)
    return counts
