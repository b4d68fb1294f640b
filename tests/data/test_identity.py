"""Identical sequences are found whatever their case, and as other strands by option."""

import numpy as np
import pytest
from datasets import ClassLabel, Dataset
from hypothesis import given
from hypothesis import strategies as st

from hf_mixers import reverse_complement
from hf_mixers.data import find_identical
from hf_mixers.data.identity import check_conflicts

SEQUENCES = st.lists(st.text("ACGT", min_size=1, max_size=3), min_size=1, max_size=30)


def make(sequences, **columns):
    return Dataset.from_dict({"sequence": sequences, **columns})


@given(SEQUENCES, st.booleans())
def test_rows_are_of_one_unit_exactly_if_their_sequences_are_identical(sequences, match_strands):
    identity = find_identical(make(sequences), match_strands=match_strands)
    numbers, first = {}, []
    for row, sequence in enumerate(sequences):
        if match_strands:
            sequence = min(sequence, reverse_complement(sequence))
        if sequence not in numbers:
            numbers[sequence] = len(numbers)
            first.append(row)
        assert identity.units[row] == numbers[sequence]
    assert identity.first.tolist() == first
    assert identity.copies == len(sequences) - len(first)


def test_case_and_rna_make_no_difference():
    sequences = ["acgu", "ACGT", "AcGt", "ACGU", "ACGA"]
    assert find_identical(make(sequences)).units.tolist() == [0, 0, 0, 0, 1]


def test_a_palindrome_is_its_own_strand():
    assert find_identical(make(["ACGT", "ACGT", "TGCA"]), match_strands=True).copies == 1


def test_many_batches_are_compared_with_each_other():
    sequences = ["A" * (1 + n % 7) + "C" * (n % 11) for n in range(21_000)]
    identity = find_identical(make(sequences))
    assert identity.first.tolist() == list(range(77))
    assert identity.units[-1] == (21_000 - 1) % 77


def test_no_row_has_no_unit():
    identity = find_identical(make(["A"]).select([]))
    assert (identity.units.tolist(), identity.first.tolist(), identity.copies) == ([], [], 0)


def test_one_sequence_under_two_labels_is_an_error_that_names_both(caplog):
    rows = make(["AC", "GG", "ac"], id=["x", "y", "z"], file=["a.fa", "a.fa", "b.fa"])
    rows = rows.add_column("label", [1, 0, 0]).cast_column(
        "label", ClassLabel(names=["Bos", "Sus"])
    )
    identity = find_identical(rows)
    text = "The same sequence has different labels: a.fa: record 'x' with 'Sus' and"
    text += " b.fa: record 'z' with 'Bos'"
    with pytest.raises(ValueError, match=f"^{text}; allow_conflicts=True keeps such records.$"):
        check_conflicts(rows, identity, "label")
    check_conflicts(rows, identity, "label", allow=True)
    assert f"{text} (1 records in all); they are kept together in one part." in caplog.messages


def test_copies_under_one_label_are_no_conflict(caplog):
    rows = make(["AC", "GG", "AC", "TT"], label=["a", "b", "a", "a"])
    check_conflicts(rows, find_identical(rows), "label")
    assert not caplog.messages
    assert np.array_equal(find_identical(rows).units, [0, 1, 0, 2])
