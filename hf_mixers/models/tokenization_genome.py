"""The tokenizer of published genome classifiers: few letters, padding after them, nothing else."""

from collections import Counter

from tokenizers import AddedToken, Tokenizer, decoders
from tokenizers.models import BPE
from transformers import BatchEncoding

from .dna import NUCLEOTIDES, find_other_letter
from .tokenization_dna import strings, unify_spelling
from .tokenization_table import SPECIAL_TOKENS, TableTokenizer

_PAD = SPECIAL_TOKENS["pad_token"]


class GenomeTokenizer(TableTokenizer):
    """Tokenizer of DNA with the vocabulary of the genome tasks of the Paramixer paper.

    Its ids, for the first task and, with `letters="AGCTN"`, for the second one:

        A 0  G 1  C 2  T 3  [PAD] 4
        A 0  G 1  C 2  T 3  N 4  [PAD] 5

    Upper and lower case are the same, and U is read as T. There are no other special tokens, so
    that every other character is an error.

    Args:
        letters: bases in the order of their ids; padding follows them.

    >>> tokenizer = GenomeTokenizer()
    >>> tokenizer(["ACGT", "gu"], padding=True).input_ids
    [[0, 2, 1, 3], [1, 3, 4, 4]]
    >>> tokenizer("GATTNCA")
    Traceback (most recent call last):
        ...
    ValueError: GenomeTokenizer was given 'N' at position 4: it accepts AGCT and U, in either case.
    """

    def __init__(self, letters: str = "AGCT", **kwargs):
        if not kwargs.get("tokenizer_file") and not kwargs.get("tokenizer_object"):
            kwargs["tokenizer_object"] = _build_genome_backend(letters)
        nothing_else = dict.fromkeys(SPECIAL_TOKENS.keys() - {"pad_token"})
        super().__init__(**nothing_else | kwargs)

    @property
    def letters(self) -> str:
        """Bases in the order of their ids."""
        return "".join(self.convert_ids_to_tokens(list(range(self.pad_token_id))))

    def _encode_plus(self, text, text_pair=None, **options) -> BatchEncoding:
        # here, because the backend knows no error: it would drop the character, or read padding
        letters = self.letters
        for part in strings([text, text_pair]):
            place = find_other_letter(part, letters + "U")
            if place >= 0:
                raise ValueError(
                    f"{type(self).__name__} was given {part[place]!r} at position {place}: it"
                    f" accepts {letters} and U, in either case."
                )
        return super()._encode_plus(text, text_pair, **options)


def _build_genome_backend(letters: str) -> Tokenizer:
    wrong = [letter for letter in letters if letter not in NUCLEOTIDES]
    wrong += [letter for letter, count in Counter(letters).items() if count > 1]
    if wrong or "T" not in letters:
        raise ValueError(
            f"letters={letters!r} was given: letters of {NUCLEOTIDES}, each once and T among them,"
            " are accepted."
        )
    vocabulary = {token: index for index, token in enumerate([*letters, _PAD])}
    backend = Tokenizer(BPE(vocab=vocabulary, merges=[], unk_token=_PAD))
    backend.add_special_tokens([AddedToken(_PAD, special=True, normalized=False)])
    backend.normalizer = unify_spelling(letters)
    backend.decoder = decoders.Fuse()
    return backend
