"""Records come one by one and in order, from files of every kind, standard input or objects."""

import gzip
import io
import sys

import pandas as pd
import pytest

from hf_mixers.inference import read_records


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
    with pytest.raises(ValueError, match="Item 1 is int: text, a pair of id and text"):
        list(read_records([3]))
    with pytest.raises(ValueError, match="Item 1 has no 'sequence': it has text"):
        list(read_records([{"text": "ACGT"}]))


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
