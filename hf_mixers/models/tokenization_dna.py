"""The tokenizer of DNA: one token per base."""

from tokenizers import Tokenizer, decoders, normalizers

from .dna import NUCLEOTIDES
from .tokenization_table import TableTokenizer, build_backend


class DnaTokenizer(TableTokenizer):
    """Tokenizer of DNA with one token per base and the fifteen letters of IUPAC.

    Upper and lower case are the same, and U is read as T. Every other character becomes one
    `[UNK]`; this holds for spaces and line ends too, so nothing is dropped unseen and each
    character keeps its place. The vocabulary is fixed:

        [PAD] 0  [UNK] 1  [CLS] 2  [SEP] 3  [MASK] 4
        A 5  C 6  G 7  T 8  N 9  R 10  Y 11  S 12  W 13  K 14  M 15  B 16  D 17  H 18  V 19

    Args:
        add_cls: put `[CLS]` before the text.
        add_sep: put `[SEP]` after the text, and after each text of a pair.

    >>> tokenizer = DnaTokenizer(add_cls=True)
    >>> tokenizer("ACGTn").input_ids
    [2, 5, 6, 7, 8, 9]
    >>> tokenizer.decode([5, 6, 7, 8, 9])
    'ACGTN'
    """

    def __init__(self, *, add_cls: bool = False, add_sep: bool = False, **kwargs):
        if not kwargs.get("tokenizer_file") and not kwargs.get("tokenizer_object"):
            kwargs["tokenizer_object"] = _build_dna_backend()
        super().__init__(add_cls=add_cls, add_sep=add_sep, **kwargs)


def _build_dna_backend() -> Tokenizer:
    backend = build_backend(NUCLEOTIDES)
    backend.normalizer = unify_spelling(NUCLEOTIDES)
    backend.decoder = decoders.Fuse()
    return backend


def unify_spelling(letters: str) -> normalizers.Normalizer:
    """Makes upper case of bases, and T of U."""
    # the backend can fold to lower case only, but bases are written in upper case
    spellings = [(base.lower(), base) for base in letters] + [("u", "T"), ("U", "T")]
    return normalizers.Sequence([normalizers.Replace(*pair) for pair in spellings])
