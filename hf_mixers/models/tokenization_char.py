"""The tokenizer of characters, with a vocabulary from a corpus."""

from collections import Counter
from collections.abc import Iterable

from tokenizers import Tokenizer, decoders

from .tokenization_table import SPECIAL_TOKENS, TableTokenizer, build_backend


class CharTokenizer(TableTokenizer):
    """Tokenizer with one token per character of a vocabulary that was found in a corpus.

    The special tokens are `[PAD]` 0, `[UNK]` 1, `[CLS]` 2, `[SEP]` 3 and `[MASK]` 4, the
    characters follow. A character outside the vocabulary becomes one `[UNK]`.

    Args:
        characters: the vocabulary in the order of its ids; `CharTokenizer.train` finds it.
        add_cls: put `[CLS]` before the text.
        add_sep: put `[SEP]` after the text, and after each text of a pair.

    >>> tokenizer = CharTokenizer.train(["(max 1 2)", "(min 3 4)"])
    >>> tokenizer("max ?").input_ids
    [8, 13, 16, 5, 1]
    >>> tokenizer.decode([8, 13, 16])
    'max'
    """

    def __init__(
        self,
        characters: Iterable[str] | None = None,
        *,
        add_cls: bool = False,
        add_sep: bool = False,
        **kwargs,
    ):
        if not kwargs.get("tokenizer_file") and not kwargs.get("tokenizer_object"):
            kwargs["tokenizer_object"] = _build_char_backend(characters)
        super().__init__(add_cls=add_cls, add_sep=add_sep, **kwargs)

    @classmethod
    def train(
        cls,
        corpus: Iterable[str],
        max_size: int | None = None,
        min_count: int = 1,
        **kwargs,
    ) -> "CharTokenizer":
        """Tokenizer for the characters of a corpus, the most frequent first.

        Args:
            corpus: texts; they are read once.
            max_size: size of the vocabulary, with the five special tokens.
            min_count: characters seen less often are left out.
            kwargs: options of the tokenizer, such as `add_cls`.
        """
        if max_size is not None and max_size <= len(SPECIAL_TOKENS):
            raise ValueError(
                f"max_size={max_size} was given: it counts the {len(SPECIAL_TOKENS)} special tokens"
                " too, so more than that is accepted."
            )
        if min_count < 1:
            raise ValueError(f"min_count={min_count} was given: 1 or more is accepted.")
        counts: Counter[str] = Counter()
        for text in corpus:
            counts.update(text)
        # equal counts in the order of code points, so that the ids do not depend on the reading
        found = sorted(counts, key=lambda character: (-counts[character], character))
        found = [character for character in found if counts[character] >= min_count]
        room = None if max_size is None else max_size - len(SPECIAL_TOKENS)
        return cls(found[:room], **kwargs)


def _build_char_backend(characters: Iterable[str] | None) -> Tokenizer:
    if characters is None:
        raise ValueError(
            "CharTokenizer was given neither characters nor a tokenizer.json: it accepts either, or"
            " CharTokenizer.train finds the characters of a corpus."
        )
    characters = list(characters)
    for character in characters:
        # half of a surrogate pair is no character, and the backend cannot hold it
        if len(character) != 1 or "\ud800" <= character <= "\udfff":
            raise ValueError(f"characters holds {character!r}: single characters are accepted.")
    if len(set(characters)) != len(characters):
        twice = Counter(characters).most_common(1)[0][0]
        raise ValueError(f"characters holds {twice!r} twice: each character is accepted once.")
    backend = build_backend(characters)
    backend.decoder = decoders.Fuse()
    return backend
