"""The tokenizer of DNA: one token per base."""

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from tokenizers import Regex, Tokenizer, decoders, normalizers
from transformers import BatchEncoding
from transformers.utils import logging

from .dna import NUCLEOTIDES, find_other_letter
from .tokenization_table import TableTokenizer, build_backend

logger = logging.get_logger(__name__)

WHITE_SPACE = " \t\n\r\v\f"
_KNOWN = (NUCLEOTIDES + NUCLEOTIDES.lower() + "Uu" + WHITE_SPACE).encode()


class DnaTokenizer(TableTokenizer):
    """Tokenizer of DNA with one token per base and the fifteen letters of IUPAC.

    Upper and lower case are the same, U is read as T, and white space is dropped: spaces, tabs and
    line ends. Every other character, such as a gap or an X, becomes one `[UNK]`; how many there
    were is said in one warning per call. The vocabulary is fixed:

        [PAD] 0  [UNK] 1  [CLS] 2  [SEP] 3  [MASK] 4
        A 5  C 6  G 7  T 8  N 9  R 10  Y 11  S 12  W 13  K 14  M 15  B 16  D 17  H 18  V 19

    Args:
        add_cls: put `[CLS]` before the text.
        add_sep: put `[SEP]` after the text, and after each text of a pair.
        unknown: what becomes of other characters: `"warn"`, or `"error"` to refuse them.

    >>> tokenizer = DnaTokenizer(add_cls=True)
    >>> tokenizer("ACG Tn").input_ids
    [2, 5, 6, 7, 8, 9]
    >>> tokenizer.decode([5, 6, 7, 8, 9])
    'ACGTN'
    """

    dropped = WHITE_SPACE

    def __init__(
        self,
        *,
        add_cls: bool = False,
        add_sep: bool = False,
        unknown: Literal["warn", "error"] = "warn",
        **kwargs,
    ):
        if unknown not in ("warn", "error"):
            raise ValueError(f"unknown={unknown!r} was given: warn and error are accepted.")
        self.unknown = unknown
        if not kwargs.get("tokenizer_file") and not kwargs.get("tokenizer_object"):
            kwargs["tokenizer_object"] = _build_dna_backend()
        super().__init__(add_cls=add_cls, add_sep=add_sep, unknown=unknown, **kwargs)
        # files of earlier releases keep white space
        self.backend_tokenizer.normalizer = _normalizer()

    def _encode_plus(self, text, text_pair=None, **options) -> BatchEncoding:
        self._check_letters(list(strings([text, text_pair])))
        return super()._encode_plus(text, text_pair, **options)

    def _check_letters(self, texts: list[str]) -> None:
        """Warn of characters that become `[UNK]`, or refuse them."""
        counts: Counter[str] = Counter()
        for text in texts:
            # quick where there is nothing to say; tokens that are spelt out are known
            if text.encode(errors="surrogatepass").translate(None, _KNOWN):
                for token in self._added_texts:
                    text = text.replace(token, " " * len(token))
                others = text.encode(errors="surrogatepass").translate(None, _KNOWN)
                counts.update(others.decode(errors="surrogatepass"))
                if others and self.unknown == "error":
                    place = find_other_letter(text, NUCLEOTIDES + "U" + WHITE_SPACE)
                    raise ValueError(
                        f"{type(self).__name__} was given {text[place]!r} at position {place}: with"
                        f" unknown='error' it accepts {NUCLEOTIDES} and U, in either case."
                    )
        if counts:
            named = ", ".join(f"{count} {letter!r}" for letter, count in counts.most_common(5))
            more = ", ..." if len(counts) > 5 else ""
            logger.warning(
                f"{counts.total()} characters are not bases and become [UNK]: {named}{more}."
            )


def strings(given) -> Iterator[str]:
    """All texts of a call, however deep its lists are."""
    if isinstance(given, str):
        yield given
    elif isinstance(given, (list, tuple)):
        for part in given:
            yield from strings(part)


def _build_dna_backend() -> Tokenizer:
    backend = build_backend(NUCLEOTIDES)
    backend.normalizer = _normalizer()
    backend.decoder = decoders.Fuse()
    return backend


def _normalizer() -> normalizers.Normalizer:
    """Drops white space and unifies the spelling."""
    drop = normalizers.Replace(Regex(r"[ \t\n\r\x0b\x0c]"), "")
    return normalizers.Sequence([drop, unify_spelling(NUCLEOTIDES)])


def unify_spelling(letters: str) -> normalizers.Normalizer:
    """Makes upper case of bases, and T of U."""
    # the backend can fold to lower case only, but bases are written in upper case
    spellings = [(base.lower(), base) for base in letters] + [("u", "T"), ("U", "T")]
    return normalizers.Sequence([normalizers.Replace(*pair) for pair in spellings])
