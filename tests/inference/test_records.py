"""Records come one by one and in order, from files of every kind, standard input or objects."""

import gzip
import io
import sys

import pandas as pd
import pytest

from hf_mixers.inference import read_records
from hf_mixers.inference.records import read_files


def write_all(folder, sequences):
    """The same sequences in every kind of file."""
    fasta = "".join(f">{name} x\n{text}\n" for name, text in sequences)
    fastq = "".join(f"@{name} x\n{text}\n+\n{'I' * len(text)}\n" for name, text in sequences)
    files = {"a.fa": fasta, "a.fq": fastq}
    for name, text in files.items():
        (folder / name).write_text(text)
        with gzip.open(folder / f"{name}.gz", "wt") as file:
            file.write(text)
    table = pd.DataFrame(sequences, columns=["id", "sequence"])
    table.to_csv(folder / "a.csv", index=False)
    table.to_parquet(folder / "a.parquet")
    return [*files, *(f"{name}.gz" for name in files), "a.csv", "a.parquet"]


def test_every_kind_of_file_gives_the_same_records(tmp_path, sequences):
    for name in write_all(tmp_path, sequences):
        found = [(record.id, record.sequence) for record in read_records(tmp_path / name)]
        assert found == sequences, name


def test_standard_input_is_fasta_or_fastq(tmp_path, sequences, monkeypatch):
    write_all(tmp_path, sequences)
    for name in ("a.fa", "a.fq"):
        stream = io.TextIOWrapper(io.BytesIO((tmp_path / name).read_bytes()))
        monkeypatch.setattr(sys, "stdin", stream)
        assert [(r.id, r.sequence) for r in read_records("-")] == sequences


def test_objects_are_texts_pairs_or_mappings():
    items = ["ACGT", ("b", "GG"), {"sequence": "TT"}, {"id": "d", "sequence": "CC"}]
    found = [(record.id, record.sequence) for record in read_records(items)]
    assert found == [("record_1", "ACGT"), ("b", "GG"), ("record_3", "TT"), ("d", "CC")]
    assert list(read_records([])) == []
    # records themselves, an id that is 0, and no letters at all
    records = list(read_records(["", {"id": 0, "sequence": "A"}]))
    assert [(record.id, record.sequence) for record in records] == [("record_1", ""), ("0", "A")]
    assert list(read_records(records)) == records
    table = pd.DataFrame({"name": ["x"], "bases of": ["GG"]})
    for source in (table, table.to_dict("records")):
        (one,) = read_records(source, sequence_column="bases of", id_column="name")
        assert (one.id, one.sequence) == ("x", "GG")
    with pytest.raises(ValueError, match="Item 1 has no 'sequence': it has name, bases of"):
        list(read_records(table))
    with pytest.raises(ValueError, match="Files or an iterable of sequences are accepted, got int"):
        read_records(3)
    with pytest.raises(ValueError, match="Item 1 is int: text, a pair of id and text"):
        list(read_records([3]))
    with pytest.raises(ValueError, match="Item 1 has no 'sequence': it has text"):
        list(read_records([{"text": "ACGT"}]))
    with pytest.raises(ValueError, match="Record 'a' is NoneType: text is a sequence"):
        list(read_records([{"id": "a", "sequence": None}]))


def test_tables_are_read_as_they_are_written(tmp_path):
    (tmp_path / "a.csv").write_text("id,sequence\n007,123\n1e3,NA\n,\n")
    found = [(one.id, one.sequence) for one in read_records(tmp_path / "a.csv")]
    assert found == [("007", "123"), ("1e3", "NA"), ("", "")]
    for value, kind in ((5, "int"), (b"ACGT", "bytes"), (["A", "C"], "list")):
        pd.DataFrame({"sequence": [value]}).to_parquet(tmp_path / "a.parquet")
        with pytest.raises(ValueError, match=f"column 'sequence' holds {kind}: text is a seq"):
            list(read_records(tmp_path / "a.parquet"))


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_blank_lines_before_the_first_record_are_skipped(mark, tmp_path):
    for name, text in (("a.fa", ">a\nACGT\n"), ("a.fq", "@a\nACGT\n+\nIIII\n")):
        (tmp_path / name).write_text(f"{mark}\n \n{text}", encoding="utf-8")
        assert [(one.id, one.sequence) for one in read_records(tmp_path / name)] == [("a", "ACGT")]


def test_names_of_files_are_no_sequences(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "a.fa").write_text(">a\nACGT\n")
    assert [one.id for one in read_files(["cat"])] == ["a"]


def test_shards_are_every_nth_record_and_together_all(sequences):
    shards = [list(read_records(sequences, shard=(index, 3))) for index in range(3)]
    joined = sorted(record for shard in shards for record in shard)
    assert [record.number for record in joined] == list(range(len(sequences)))
    with pytest.raises(ValueError, match="shard=3/3 was given"):
        list(read_records(sequences, shard=(3, 3)))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.fa", "", "a.fa is empty"),
        ("a.fa", "ACGT\n", "starts with 'ACGT': fasta starts with '>'"),
        ("a.fq", "@a\nACGT\n+\nII\n", "has 4 letters and 2 qualities"),
        ("a.fq", "@a\nACGT\n", "ends within record 'a'"),
        ("a.fq", "@a\nAC\n+\nII\nACGT\n", "has 'ACGT' where a record of FASTQ starts with '@'"),
        ("a.csv", "id,text\na,ACGT\n", "has no column 'sequence': it has id, text"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        list(read_records(tmp_path / name))


def test_a_gzip_file_that_is_cut_short_is_named(tmp_path, sequences):
    write_all(tmp_path, sequences)
    whole = (tmp_path / "a.fa.gz").read_bytes()
    (tmp_path / "cut.fa.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"cut.fa.gz is cut short or damaged"):
        list(read_records(tmp_path / "cut.fa.gz"))


def test_files_are_read_in_the_order_in_which_they_are_given(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.fa").write_text(f">{name}\nACGT\n")
    files = [tmp_path / f"{name}.fa" for name in "cab"]
    assert [one.id for one in read_records(files)] == ["c", "a", "b"]
    # a folder is sorted, and a file is read once
    assert [one.id for one in read_records([files[2], tmp_path])] == ["b", "a", "c"]
    with pytest.raises(ValueError, match=r"Standard input \(-\) is read alone"):
        list(read_files(["-", str(files[0])]))
