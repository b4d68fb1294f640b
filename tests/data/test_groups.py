"""Groups come from a column, a pattern or a table, and none is guessed."""

import numpy as np
import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from hf_mixers.data.groups import merge_groups, read_groups

ROWS = {
    "id": ["a", "b", "c"],
    "description": ["a [E. coli] 1", "b [B. subtilis]", "c [E. coli] plasmid"],
    "species": [3, 4, 3],
}


def make(**changes):
    return Dataset.from_dict({k: v for k, v in (ROWS | changes).items() if v is not None})


def test_groups_are_the_same_from_every_source(tmp_path):
    table = tmp_path / "groups.tsv"
    table.write_text("a\tE. coli\nb\tB. subtilis\nc\tE. coli\nx\tother\n")
    expected = ["E. coli", "B. subtilis", "E. coli"]
    assert read_groups(make(), pattern=r"\[(.*?)\]") == expected
    assert read_groups(make(), table=str(table)) == expected
    assert read_groups(make(species=expected), column="species") == expected
    assert read_groups(make(), column="species") == ["3", "4", "3"]


def test_a_pattern_is_searched_in_the_id_where_there_is_no_description():
    rows = make(id=["Bos|1", "Sus|1", "Bos|2"], description=None)
    assert read_groups(rows, pattern=r"^(\w+)\|") == ["Bos", "Sus", "Bos"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "Groups come from a column, a pattern or a table, got 0 of them."),
        ({"column": "species", "pattern": "(x)"}, "a pattern or a table, got 2 of them"),
        ({"column": "genus"}, "no column 'genus': it has id, description, species"),
        ({"pattern": "(coli"}, "is not a regular expression"),
        ({"pattern": "coli"}, "one group in parentheses, got 0 in 'coli'"),
        ({"pattern": "(a)(b)"}, "one group in parentheses, got 2 in"),
        ({"pattern": "(coli)"}, r"record 'b' has no group in the pattern '\(coli\)'"),
    ],
)
def test_groups_that_cannot_be_told_are_refused(source, message):
    with pytest.raises(ValueError, match=message):
        read_groups(make(), **source)


def test_records_without_group_are_named(tmp_path):
    table = tmp_path / "groups.tsv"
    table.write_text("a\tx\nc\ty\n")
    with pytest.raises(ValueError, match=r"record 'b' has no group in .*groups.tsv"):
        read_groups(make(), table=str(table))
    for empty in (None, ""):
        with pytest.raises(ValueError, match="record 'c' has no group in the column 'kind'"):
            read_groups(make(kind=["x", "y", empty]), column="kind")


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8)), min_size=1, max_size=30))
def test_merged_groups_are_the_connected_rows(rows):
    groups, units = np.array(rows).T
    merged = merge_groups(groups, units)
    assert sorted(set(merged.tolist())) == list(range(merged.max() + 1))
    # rows are connected by a chain of rows that share a group or a unit
    is_linked = (groups[:, None] == groups) | (units[:, None] == units)
    for _ in rows:
        is_linked = is_linked @ is_linked
    assert np.array_equal(merged[:, None] == merged, is_linked)
