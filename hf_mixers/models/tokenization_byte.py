"""The tokenizer of raw bytes: any text, one token per byte of its UTF-8."""

from collections.abc import Sequence

import numpy as np
from tokenizers import Tokenizer, decoders, pre_tokenizers

from .tokenization_table import TableTokenizer, build_backend


class ByteTokenizer(TableTokenizer):
    """Tokenizer of text as UTF-8 bytes, with nothing unknown and an exact way back.

    Byte `b` has the id `b + 5`, after `[PAD]` 0, `[UNK]` 1, `[CLS]` 2, `[SEP]` 3 and `[MASK]` 4.
    Data that is not text goes through `encode_bytes` and `decode_bytes`.

    Args:
        add_cls: put `[CLS]` before the text.
        add_sep: put `[SEP]` after the text, and after each text of a pair.

    >>> tokenizer = ByteTokenizer()
    >>> tokenizer("Né").input_ids
    [83, 200, 174]
    >>> tokenizer.decode([83, 200, 174])
    'Né'
    >>> tokenizer.encode_bytes(bytes([0, 255]))
    array([  5, 260])
    """

    def __init__(self, *, add_cls: bool = False, add_sep: bool = False, **kwargs):
        if not kwargs.get("tokenizer_file") and not kwargs.get("tokenizer_object"):
            kwargs["tokenizer_object"] = _build_byte_backend()
        super().__init__(add_cls=add_cls, add_sep=add_sep, **kwargs)

    def encode_bytes(self, data: bytes) -> np.ndarray:
        """Ids `(L,)` of any bytes, without special tokens and without looking for any."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise ValueError(f"encode_bytes was given {type(data).__name__}: it accepts bytes.")
        return self._table.take(np.frombuffer(data, np.uint8)).astype(np.int64)

    def decode_bytes(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """The bytes behind `ids`; ids of other tokens are left out."""
        places = {int(index): byte for byte, index in enumerate(self._table)}
        return bytes(places[index] for index in np.asarray(ids).tolist() if index in places)

    def _ask_table(self) -> np.ndarray:
        ids = [self.backend_tokenizer.token_to_id(token) for token in spell_bytes()]
        return np.array(ids, dtype=np.min_scalar_type(self.backend_tokenizer.get_vocab_size()))

    def _split_units(self, texts: Sequence[str], joined: str) -> tuple[np.ndarray, list[int]]:
        codes = np.frombuffer(joined.encode(), np.uint8)
        if joined.isascii():
            return codes, [len(text) for text in texts]
        return codes, [len(text.encode()) for text in texts]


def spell_bytes() -> list[str]:
    """The character by which the backend writes each byte, from 0 to 255.

    Bytes that are printable in Latin-1 stand for themselves, the others are the characters from
    U+0100 on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(substitutes)) for byte in range(256)]


def _build_byte_backend() -> Tokenizer:
    backend = build_backend(spell_bytes())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=False, trim_offsets=False, use_regex=False
    )
    backend.decoder = decoders.ByteLevel()
    return backend
