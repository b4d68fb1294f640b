"""The letters of DNA and their reverse complement.

Bases are the fifteen letters of IUPAC: A, C, G, T, N (any base) and the letters for two or three
possible bases. `NUCLEOTIDES` lists them in the order of their token ids, from
`FIRST_NUCLEOTIDE_ID` on.
"""

from typing import overload

import numpy as np
import torch

NUCLEOTIDES = "ACGTNRYSWKMBDHV"
COMPLEMENTS = "TGCANYRSWMKVHDB"
FIRST_NUCLEOTIDE_ID = 5

# RNA is read as DNA: the partner of U is A, and that of A stays T
_PAIRS = dict(zip(NUCLEOTIDES + "U", COMPLEMENTS + "A", strict=True))
_PAIRS |= {base.lower(): partner.lower() for base, partner in _PAIRS.items()}
# 0 marks what is not a base
_BYTE_TABLE = bytes(ord(_PAIRS.get(chr(byte), "\0")) for byte in range(256))

# [UNK] and [MASK] stand for a base, so they move with the bases; these stand around them
_OUTER_IDS = (0, 2, 3)
_ID_TABLE = (
    *range(FIRST_NUCLEOTIDE_ID),
    *(NUCLEOTIDES.index(partner) + FIRST_NUCLEOTIDE_ID for partner in COMPLEMENTS),
)


def find_other_letter(text: str, letters: str) -> int:
    """Place of the first character that is none of the letters, in either case; -1 if all are.

    >>> find_other_letter("ACgtN", "ACGT"), find_other_letter("ACgt", "ACGT")
    (4, -1)
    """
    known = (letters.upper() + letters.lower()).encode()
    others = text.encode(errors="surrogatepass").translate(None, known)
    return text.index(others.decode(errors="surrogatepass")[0]) if others else -1


@overload
def reverse_complement(sequence: str) -> str: ...
@overload
def reverse_complement(sequence: list[str]) -> list[str]: ...
@overload
def reverse_complement(sequence: np.ndarray) -> np.ndarray: ...
@overload
def reverse_complement(sequence: torch.Tensor) -> torch.Tensor: ...


def reverse_complement(
    sequence: str | list[str] | np.ndarray | torch.Tensor,
) -> str | list[str] | np.ndarray | torch.Tensor:
    """The opposite strand, read in its own direction, of the same type as what was given.

    Args:
        sequence: text (upper and lower case are kept), a list of texts, or token ids of
            `DnaTokenizer` as a numpy array or torch tensor of shape `(..., L)`.

    In text the partner of `U` is `A` and the partner of `A` is `T`, so RNA comes back as DNA.
    In ids only the run of bases of each row is turned: `[PAD]`, `[CLS]` and `[SEP]` around it stay
    where they are, while `[UNK]` and `[MASK]` within it move like a base.

    >>> reverse_complement("AACGTNry")
    'ryNACGTT'
    >>> reverse_complement(np.array([2, 5, 5, 6, 3, 0]))  # [CLS] A A C [SEP] [PAD]
    array([2, 7, 8, 8, 3, 0])
    """
    if isinstance(sequence, str):
        return _turn_text(sequence)
    if isinstance(sequence, (list, tuple)) and all(isinstance(text, str) for text in sequence):
        return [_turn_text(text) for text in sequence]
    if isinstance(sequence, torch.Tensor) and not (
        sequence.is_floating_point() or sequence.is_complex() or sequence.dtype == torch.bool
    ):
        return _turn_ids(sequence.long()).to(sequence.dtype)
    if isinstance(sequence, np.ndarray) and np.issubdtype(sequence.dtype, np.integer):
        # a copy, as torch knows neither negative strides nor read-only arrays
        ids = torch.from_numpy(sequence.astype(np.int64, order="C"))
        return _turn_ids(ids).numpy().astype(sequence.dtype)
    kind = getattr(sequence, "dtype", type(sequence).__name__)
    raise ValueError(
        f"reverse_complement was given {kind}: it accepts a str, a list of str, or a numpy array or"
        " torch tensor of integer token ids."
    )


def _turn_text(text: str) -> str:
    # "?" stands for every character beyond ascii, and is not a base either
    turned = text.encode("ascii", "replace").translate(_BYTE_TABLE)
    wrong = turned.find(0)
    if wrong >= 0:
        raise ValueError(
            f"reverse_complement was given {text[wrong]!r} at position {wrong}: it accepts the"
            f" letters {NUCLEOTIDES} and U, in upper or lower case."
        )
    return turned[::-1].decode("ascii")


def _turn_ids(ids: torch.Tensor) -> torch.Tensor:
    if ids.dim() == 0:
        raise ValueError("reverse_complement was given a single id: it accepts ids in (..., L).")
    if ids.numel() == 0:
        return ids.clone()
    wrong = ids[(ids < 0) | (ids >= len(_ID_TABLE))]
    if wrong.numel():
        raise ValueError(
            f"reverse_complement was given the id {wrong[0].item()}: it accepts token ids of"
            f" DnaTokenizer, 0 to {len(_ID_TABLE) - 1}."
        )
    inside = torch.stack([ids != outer for outer in _OUTER_IDS]).all(0)
    position = torch.arange(ids.shape[-1], device=ids.device)
    first = inside.long().argmax(-1, keepdim=True)
    last = ids.shape[-1] - 1 - inside.flip(-1).long().argmax(-1, keepdim=True)
    run = (position >= first) & (position <= last) & inside.any(-1, keepdim=True)
    if not inside[run].all():
        raise ValueError(
            "reverse_complement was given ids with [PAD], [CLS] or [SEP] between bases: it accepts"
            " one run of bases in each row."
        )
    source = torch.where(run, first + last - position, position)
    return ids.new_tensor(_ID_TABLE)[ids.gather(-1, source)]


def reverse_complement_scores(scores: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Scores `(L, 4)` of A, C, G and T, predicted on the opposite strand, at the places of `ids`.

    Rows of `[PAD]`, `[CLS]` and `[SEP]` around the bases stay where they are, as in
    `reverse_complement`.

    >>> scores = np.array([[0, 0, 0, 0], [1, 2, 3, 4], [5, 6, 7, 8]])
    >>> reverse_complement_scores(scores, np.array([2, 5, 6])).tolist()  # [CLS] A C
    [[0, 0, 0, 0], [8, 7, 6, 5], [4, 3, 2, 1]]
    """
    places = np.flatnonzero(~np.isin(ids, _OUTER_IDS))
    turned = scores.copy()
    turned[places] = scores[places[::-1], ::-1]
    return turned
