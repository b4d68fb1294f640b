"""Tokenizers that give every character, or every byte, one token.

The truth is an ordinary `tokenizer.json` run by the rust backend of transformers. Because one
character is one token, the usual call (ids and masks of single texts) is also one look-up in a
table of ids. The table is filled by asking the backend, so the two ways cannot disagree; whatever
the table cannot answer (pairs, offsets, overflow, text with special tokens, ...) goes to the
backend.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NoReturn

import numpy as np
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing
from transformers import BatchEncoding, TokenizersBackend
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils import PaddingStrategy

from ._compat import encode_by_backend, warn_of_length
from .token_rows import convert_rows, fill_rows

# in the order of their ids, 0 to 4
SPECIAL_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def build_backend(tokens: Sequence[str]) -> Tokenizer:
    """Rust tokenizer with the special tokens as ids 0 to 4 and then `tokens`, one per character."""
    special = list(SPECIAL_TOKENS.values())
    vocabulary = {token: index for index, token in enumerate([*special, *tokens])}
    # byte-pair encoding without merges is the backend's quickest way to split into characters,
    # and gives one [UNK] for each unknown character
    backend = Tokenizer(BPE(vocab=vocabulary, merges=[], unk_token=SPECIAL_TOKENS["unk_token"]))
    backend.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    return backend


class LazyEncodings(Sequence):
    """The rust encodings of one call, made when they are first asked for."""

    def __init__(self, make: Callable[[], BatchEncoding], size: int):
        self._make, self._size, self._made = make, size, None

    def __len__(self):
        return self._size

    def __getitem__(self, index):
        if self._made is None:
            self._made = self._make().encodings
        return self._made[index]


class TableTokenizer(TokenizersBackend):
    """Base of the tokenizers whose every character, or every byte, is one token.

    Args:
        add_cls: put `[CLS]` before the text.
        add_sep: put `[SEP]` after the text, and after each text of a pair.

    Subclasses give the backend, and override `_ask_table` and `_split_units` where the unit is not
    the character.
    """

    vocab_files_names = {"tokenizer_file": "tokenizer.json"}
    model_input_names = ["input_ids", "attention_mask"]
    # characters that the backend drops
    dropped = ""

    def __init__(self, *, add_cls: bool = False, add_sep: bool = False, **kwargs):
        self._add_cls, self._add_sep = add_cls, add_sep
        # a copy saved without code must not point to code: saving with code writes this anew
        kwargs.pop("auto_map", None)
        # only what is given here is saved as it stands then
        kwargs.setdefault("model_input_names", list(self.model_input_names))
        super().__init__(**SPECIAL_TOKENS | kwargs, add_cls=add_cls, add_sep=add_sep)
        self.update_post_processor()
        self._fill_table()

    @classmethod
    def convert_to_native_format(
        cls, trust_remote_code: bool = False, **kwargs: Any
    ) -> dict[str, Any]:
        # transformers would rebuild the backend from its vocabulary: the file holds all of it
        return kwargs

    @property
    def add_cls(self) -> bool:
        """Whether `[CLS]` is put before the text."""
        return self._add_cls

    @add_cls.setter
    def add_cls(self, value: bool) -> None:
        self._add_cls = value
        self.update_post_processor()

    @property
    def add_sep(self) -> bool:
        """Whether `[SEP]` is put after each text."""
        return self._add_sep

    @add_sep.setter
    def add_sep(self, value: bool) -> None:
        self._add_sep = value
        self.update_post_processor()

    def update_post_processor(self) -> None:
        """Make the backend add `[CLS]` and `[SEP]` as the options say."""
        if self.add_cls and self.cls_token is None:
            raise ValueError("add_cls=True was given with cls_token=None: it needs a cls_token.")
        if self.add_sep and self.sep_token is None:
            raise ValueError("add_sep=True was given with sep_token=None: it needs a sep_token.")
        start = [f"{self.cls_token}:0"] if self.add_cls else []
        end_a, end_b = ([f"{self.sep_token}:{i}"] if self.add_sep else [] for i in (0, 1))
        used = [self.cls_token] * self.add_cls + [self.sep_token] * self.add_sep
        self.backend_tokenizer.post_processor = TemplateProcessing(
            single=[*start, "$A:0", *end_a],
            pair=[*start, "$A:0", *end_a, "$B:1", *end_b],
            special_tokens=[(token, self.backend_tokenizer.token_to_id(token)) for token in used],
        )

    def get_special_tokens_mask(
        self,
        token_ids_0: list[int],
        token_ids_1: list[int] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        """1 for each special token and 0 for each other, as transformers defines it."""
        if already_has_special_tokens:
            return super().get_special_tokens_mask(token_ids_0, token_ids_1, True)
        start, end = [1] * self.add_cls, [1] * self.add_sep
        second = [] if token_ids_1 is None else [0] * len(token_ids_1) + end
        return start + [0] * len(token_ids_0) + end + second

    def train_new_from_iterator(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not available: the inherited training would merge characters into longer tokens."""
        raise ValueError(
            f"{type(self).__name__}.train_new_from_iterator was called, but one character stays one"
            " token here: use CharTokenizer.train for a vocabulary from a corpus."
        )

    def save_vocabulary(
        self, save_directory: str, filename_prefix: str | None = None
    ) -> tuple[str, ...]:
        """Write `tokenizer.json`, which holds the vocabulary, and return its path."""
        return self._save_pretrained(save_directory, (), filename_prefix=filename_prefix)

    def _save_pretrained(self, *args, **kwargs) -> tuple[str, ...]:
        # the padding and truncation of the last call must not become those of the saved tokenizer
        self.backend_tokenizer.no_padding()
        self.backend_tokenizer.no_truncation()
        return super()._save_pretrained(*args, **kwargs)

    def _add_tokens(self, new_tokens, special_tokens: bool = False) -> int:
        count = super()._add_tokens(new_tokens, special_tokens=special_tokens)
        self._fill_table()
        return count

    # --- the table ---

    def _fill_table(self) -> None:
        """Note what the look-up needs to know of the backend."""
        self._table = self._ask_table()
        self._table_size = self.backend_tokenizer.get_vocab_size()
        added = self.added_tokens_decoder.values()
        self._added_texts = tuple(token.content for token in added)
        self._added_starts = tuple(sorted({text[0] for text in self._added_texts}))
        # such a token is found in the normalized text, which the look-up never makes
        self._added_hide = self.backend_tokenizer.normalizer is not None and any(
            token.normalized for token in added
        )

    def _ask_table(self) -> np.ndarray:
        """Ids of the code points; the last entry is [UNK] and stands for all that follow."""
        known = {token for token in self.backend_tokenizer.get_vocab() if len(token) == 1}
        characters = sorted(known.union(map(chr, range(256))).difference(self.dropped))
        text = "".join(characters)
        if self.backend_tokenizer.normalizer is not None:
            text = self.backend_tokenizer.normalizer.normalize_str(text)
        ids = [token.id for token in self.backend_tokenizer.model.tokenize(text)]
        if len(ids) != len(characters):
            raise ValueError(
                f"{type(self).__name__} was given a tokenizer.json that makes {len(ids)} tokens of"
                f" {len(characters)} characters: it accepts one token for each character."
            )
        unknown = self.backend_tokenizer.token_to_id(self.backend_tokenizer.model.unk_token)
        table = np.full(ord(characters[-1]) + 2, unknown)
        table[[ord(c) for c in characters]] = ids
        return table.astype(np.min_scalar_type(self.backend_tokenizer.get_vocab_size()))

    def _split_units(self, texts: Sequence[str], joined: str) -> tuple[np.ndarray, list[int]]:
        """Code points of the joined texts, and how many each text has."""
        try:
            codes = np.frombuffer(joined.encode("latin-1"), np.uint8)
        except UnicodeEncodeError:
            codes = np.frombuffer(joined.encode("utf-32-le"), np.uint32)
        return codes, [len(text) for text in texts]

    def _look_up(self, texts: Any) -> tuple[np.ndarray, list[int]] | None:
        """Ids of all texts in a row and the length of each, or None if only the backend can."""
        if not isinstance(texts, (list, tuple)) or not texts:
            return None
        if not all(isinstance(text, str) for text in texts):
            return None
        if self.backend_tokenizer.get_vocab_size() != self._table_size:
            self._fill_table()  # tokens were added behind our back, on the backend
        joined = "".join(texts)
        # the search for one character is far quicker than the search for a word
        if self._added_hide or (
            any(start in joined for start in self._added_starts)
            and any(text in joined for text in self._added_texts)
        ):
            return None
        if any(character in joined for character in self.dropped):
            texts = [text.translate(dict.fromkeys(map(ord, self.dropped))) for text in texts]
            joined = "".join(texts)
        try:
            codes, lengths = self._split_units(texts, joined)
        except UnicodeEncodeError:  # lone surrogates: the backend has its own error for them
            return None
        ids = np.empty(len(codes), self._table.dtype)
        # numpy widens indices to eight bytes: in parts, that stays within the processor's cache
        for start in range(0, len(codes), 1 << 16):
            part = slice(start, start + (1 << 16))
            self._table.take(codes[part], out=ids[part], mode="clip")
        return ids, lengths

    # --- one call ---

    def _encode_plus(self, text, text_pair=None, **options) -> BatchEncoding:
        found = None
        if text_pair is None and self._asks_for_rows(options):
            found = self._look_up([text] if isinstance(text, str) else text)
        if found is None:
            return super()._encode_plus(text, text_pair, **options)

        tensors = options.get("return_tensors")
        data, widths = self._lay_out(*found, options)
        data = {name: convert_rows(rows, tensors) for name, rows in data.items()}
        if isinstance(text, str) and tensors is None:
            data = {name: rows[0] for name, rows in data.items()}
        if options.get("return_length", False):
            data["length"] = widths
        # a copy, as sides of padding and truncation may be set anew before the encodings are made
        quiet = options | {"return_tensors": None, "verbose": False}
        make = partial(encode_by_backend, copy.copy(self), text, **quiet)
        encodings = LazyEncodings(make, len(widths))
        return BatchEncoding(data, encodings, tensor_type=tensors, n_sequences=1)

    def _asks_for_rows(self, options: dict[str, Any]) -> bool:
        """Whether the look-up can give all that a call with these options asks for."""
        asked = options.get
        slow = ("is_split_into_words", "return_overflowing_tokens", "return_offsets_mapping")
        if any(map(asked, (*slow, "stride"))) or self._wants("token_type_ids", options):
            return False
        if asked("return_tensors") not in (None, "pt", "np"):
            return False
        if asked("padding_side") not in (None, "left", "right"):
            return False
        if any((asked(name) or 0) < 0 for name in ("max_length", "pad_to_multiple_of")):
            return False
        if not truncates(options):
            return True
        added = self.num_special_tokens_to_add() if asked("add_special_tokens", True) else 0
        only_second = asked("truncation_strategy") == TruncationStrategy.ONLY_SECOND
        return not only_second and (asked("max_length") or 0) > added

    def _wants(self, name: str, options: dict[str, Any]) -> bool:
        choice = options.get(f"return_{name}")
        return name in self.model_input_names if choice is None else bool(choice)

    def _lay_out(self, ids: np.ndarray, lengths: list[int], options: dict[str, Any]):
        """Rows of ids and masks, cut and padded as the options say, and the width of each row."""
        asked = options.get
        prefix, suffix = self._find_affixes() if asked("add_special_tokens", True) else ([], [])
        extra = len(prefix) + len(suffix)
        limit = options["max_length"] - extra if truncates(options) else max(lengths)
        sizes = [min(length, limit) + extra for length in lengths]
        widths = find_widths(sizes, options)
        for width in widths:
            if width > self.model_max_length:
                warn_of_length(self, width, asked("max_length"), asked("verbose", True))

        is_left = self.truncation_side == "left"
        texts: Iterable[np.ndarray] = np.split(ids, np.cumsum(lengths)[:-1])
        texts = (text[-limit:] if is_left else text[:limit] for text in texts)
        if extra:
            before, after = np.array(prefix, ids.dtype), np.array(suffix, ids.dtype)
            texts = (np.concatenate((before, text, after)) for text in texts)
        side = self.padding_side if asked("padding_side") is None else options["padding_side"]
        pads = [w - s if side == "left" else 0 for w, s in zip(widths, sizes, strict=True)]
        spans = [(pad, pad + size) for pad, size in zip(pads, sizes, strict=True)]
        data = {"input_ids": fill_rows(widths, spans, texts, self.pad_token_id)}
        if self._wants("attention_mask", options):
            data["attention_mask"] = fill_rows(widths, spans, repeat(1), 0)
        if asked("return_special_tokens_mask", False):
            inner = [(begin + len(prefix), end - len(suffix)) for begin, end in spans]
            data["special_tokens_mask"] = fill_rows(widths, inner, repeat(0), 1)
        return data, widths

    def _find_affixes(self) -> tuple[list[int], list[int]]:
        """Ids that the backend puts before and after a text."""
        self.set_truncation_and_padding(
            padding_strategy=PaddingStrategy.DO_NOT_PAD,
            truncation_strategy=TruncationStrategy.DO_NOT_TRUNCATE,
            max_length=None,
            stride=0,
            pad_to_multiple_of=None,
            padding_side=None,
        )
        probe = self.backend_tokenizer.encode("A")
        begin = probe.sequence_ids.index(0)
        return probe.ids[:begin], probe.ids[begin + 1 :]


def truncates(options: dict[str, Any]) -> bool:
    """Whether a call with these options may cut texts."""
    keep_all = TruncationStrategy.DO_NOT_TRUNCATE
    return options.get("truncation_strategy", keep_all) != keep_all


def find_widths(sizes: list[int], options: dict[str, Any]) -> list[int]:
    """Width of each row after padding; rows longer than the padding stay as they are."""
    padding = options.get("padding_strategy", PaddingStrategy.DO_NOT_PAD)
    if padding == PaddingStrategy.DO_NOT_PAD:
        return sizes
    width = options.get("max_length") if padding == PaddingStrategy.MAX_LENGTH else None
    width = max(sizes) if width is None else width
    width += -width % (options.get("pad_to_multiple_of") or 1)
    return [max(size, width) for size in sizes]
