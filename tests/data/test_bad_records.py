"""Bad files, records and options are named, and nothing is left out unseen."""

import os

import pandas as pd
import pytest

from hf_mixers.data import load_sequences
from tests.data.files import GENBANK, READS, ROWS, TWO, genbank, gzipped, write


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x.fa", b"", "is empty"),
        ("x.fa", b" \n\n", "is empty"),
        ("x.fa.gz", b"", "is empty"),
        ("x.fa", b"ACGT\n", "starts with 'ACGT'"),
        ("x.fa", READS.encode(), "starts with '@a'"),
        ("x.fa.gz", TWO.encode(), "is cut short or damaged.*gzipped"),
        ("x.fa.gz", gzipped(TWO.encode() * 500)[:-40], "is cut short or damaged"),
        ("x.csv", b"", "is empty"),
        ("x.csv", b"id,sequence\n", "holds no records"),
        ("x.parquet", b"PAR1 not at all", "cut short or damaged"),
        ("x.fa", b">a\nACGT\n>b\n", "record 'b' has no sequence"),
        ("x.fa", b">a\nACGT\n>\nACGT\n", "record '' has no id"),
        ("x.fa", b">a\nACGT\n>b x\nACEF\n", "record 'b' has 'E' at position 2"),
        ("x.fa", b">a\nACGT\n>b\nAC-GT\n", "record 'b' has '-' at position 2"),
        ("x.fa", b">a\nACGT\n>a\nACC\n", "record 'a' has an id that came before"),
        ("x.fa", b">a\nACGT\n>b\nA\n", "record 'b' has 1 letters: at least 2"),
        ("x.fq", READS[:-2].encode(), "is cut short or damaged.*'b' has 1 quality"),
        ("x.fq", READS[:-6].encode(), "is cut short or damaged.*'b' has no '\\+'"),
        ("x.fq", READS.replace("@b", "b").encode(), "has 15 letters that are in no record"),
        ("x.gb", GENBANK[:-3].encode(), "ends within a record"),
        ("x.gb", b"no such thing\n", "has no LOCUS line"),
        ("x.gb", genbank("Z", "Mus", "Mus", "ACGT", 9).encode(), "has 4 letters where .* says 9"),
        ("x.gb", genbank("Z", "Mus", "Mus", "").encode(), "record 'Z.1' has no sequence"),
    ],
)
def test_bad_input_is_named_with_file_and_record(tmp_path, name, data, message):
    path = tmp_path / name
    path.write_bytes(data)
    for streaming in (False, True):
        with pytest.raises(ValueError, match=message) as caught:
            list(load_sequences(path, streaming=streaming))
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value).strip()


def test_damaged_one_of_several_files_is_named(tmp_path):
    pd.DataFrame(ROWS).to_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 not at all")
    with pytest.raises(ValueError, match=r"b\.parquet is cut short or damaged"):
        load_sequences(tmp_path)


def test_longer_sequences_than_asked_for_are_named(tmp_path):
    with pytest.raises(ValueError, match="record 'a' has 8 letters: at most 6"):
        load_sequences(write(tmp_path / "x.fa", TWO), max_length=6)


def test_records_without_label_are_named_or_counted(tmp_path, said):
    path = write(tmp_path / "x.fa", TWO + ">c nothing\nACGT\n")
    options = {"label_pattern": r"genus=(\w+)"}
    with pytest.raises(ValueError, match=r"x\.fa: record 'c' has no label"):
        load_sequences(path, **options)
    dataset = load_sequences(path, bad_records="drop", **options)
    assert dataset["id"][:] == ["a", "b"]
    assert dataset["label"][:] == [1, 0]
    assert "1 of 3 records are left out: 1 without label (first: 'c')" in said()
    table = write(tmp_path / "labels.tsv", "a\tMus\n")
    with pytest.raises(ValueError, match="record 'b' has no label"):
        load_sequences(path, label_table=table)


def test_missing_cells_of_a_table_are_named(tmp_path):
    write(tmp_path / "x.csv", "id,sequence,y\na,ACGT,1\nb,,2\n")
    with pytest.raises(ValueError, match="record 'b' has no sequence"):
        load_sequences(tmp_path / "x.csv")
    write(tmp_path / "y.csv", "id,sequence,y\na,ACGT,u\nb,AC,\n")
    with pytest.raises(ValueError, match="record 'b' has no label"):
        load_sequences(tmp_path / "y.csv", label_column="y")


def test_everything_left_out_is_reported_again_from_the_cache(tmp_path, said, caplog):
    path = write(tmp_path / "x.fa", ">a\nACGT\n>b\nMKLV\n>c\nA\n>d\n")
    for _ in range(2):
        caplog.clear()
        assert load_sequences(path, bad_records="drop")["id"][:] == ["a"]
        assert "3 of 4 records are left out" in said()
        assert "1 without sequence (first: 'd')" in said()
    with pytest.raises(ValueError, match="no record is left"):
        load_sequences(path, bad_records="drop", min_length=9)


def test_ids_that_come_again_can_be_kept_or_dropped(tmp_path, said):
    write(tmp_path / "in/1.fa", ">a\nACGT\n")
    write(tmp_path / "in/2.fa", ">a\nGGGG\n>b\nTT\n")
    with pytest.raises(ValueError, match=r"2\.fa: record 'a' has an id that came before"):
        load_sequences(tmp_path / "in")
    kept = load_sequences(tmp_path / "in", duplicate_ids="keep")
    assert kept["id"][:] == ["a", "a", "b"]
    dropped = load_sequences(tmp_path / "in", duplicate_ids="drop")
    assert dropped["sequence"][:] == ["ACGT", "TT"]
    assert "1 of 3 records are left out" in said()


def test_other_classes_are_an_error_or_counted(tmp_path, said):
    path = write(tmp_path / "x.fa", TWO)
    options = {"label_pattern": r"genus=(\w+)", "label_names": ["Mus"]}
    with pytest.raises(ValueError, match="record 'b' has the label 'Bos', which is not in"):
        load_sequences(path, **options)
    assert load_sequences(path, bad_records="drop", **options)["id"][:] == ["a"]
    assert "1 of other classes" in said()


def test_class_with_one_example_is_reported(tmp_path, said):
    load_sequences(write(tmp_path / "x.fa", TWO + ">c genus=Mus\nAC\n"), label_pattern="genus=(.)")
    assert "Classes with fewer than two records: B." in said()


def test_other_alphabets_can_be_asked_for(tmp_path):
    path = write(tmp_path / "x.fa", ">a\nMKLV*\n")
    assert load_sequences(path, alphabet=None)["sequence"][:] == ["MKLV*"]
    assert load_sequences(path, alphabet="MKLV*")["length"][:] == [5]


def test_changed_file_is_read_anew(tmp_path):
    path = write(tmp_path / "x.fa", TWO)
    assert len(load_sequences(path)) == 2
    write(path, ">c\nACGTACGT\n")
    os.utime(path, ns=(1, 1))
    assert load_sequences(path)["id"][:] == ["c"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_from": "folder", "label_pattern": "(a)"}, "were given together"),
        ({"label_pattern": "(a)(b)"}, "has 2 groups"),
        ({"label_pattern": "(a"}, "'\\(a' is no regular expression: missing \\)"),
        ({"label_column": "genus"}, "it is for CSV and parquet"),
        ({"label_from": "genus"}, "was given for fasta files"),
        ({"label_names": ["a"]}, "without a source of labels"),
        ({"label_table": "none.tsv"}, "does not exist"),
        ({"bad_records": "skip"}, "bad_records='skip'"),
        ({"duplicate_ids": "skip"}, "duplicate_ids='skip'"),
    ],
)
def test_wrong_options_are_errors(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        load_sequences(write(tmp_path / "x.fa", TWO), **options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tMus\nb Bos\n", "line 2: 'b Bos' is not"),
        ("a\tMus\na\tBos\n", "line 2: 'a' has the labels 'Mus' and 'Bos'"),
        ("", "holds no labels"),
    ],
)
def test_wrong_label_tables_are_errors(tmp_path, text, message):
    table = write(tmp_path / "labels.tsv", text)
    with pytest.raises(ValueError, match=message):
        load_sequences(write(tmp_path / "x.fa", TWO), label_table=table)


def test_wrong_columns_and_sources_are_errors(tmp_path):
    pd.DataFrame(ROWS).to_csv(tmp_path / "x.csv", index=False)
    with pytest.raises(ValueError, match="has no column 'dna': it has sequence, genus"):
        load_sequences(tmp_path / "x.csv", sequence_column="dna")
    with pytest.raises(ValueError, match="has no column 'kind'"):
        load_sequences(tmp_path / "x.csv", label_column="kind")
    with pytest.raises(ValueError, match="does not exist"):
        load_sequences(tmp_path / "nothing.fa")
    with pytest.raises(ValueError, match="not known"):
        load_sequences(write(tmp_path / "x.txt", TWO))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no file"):
        load_sequences(tmp_path / "empty")
    with pytest.raises(ValueError, match="csv, fasta were given together"):
        load_sequences([tmp_path / "x.csv", write(tmp_path / "x.fa", TWO)])


def test_tables_with_other_columns_than_the_first_are_named(tmp_path):
    pd.DataFrame(ROWS).to_csv(tmp_path / "a.csv", index=False)
    for other in ({"sequence": ["ACGT"], "kind": ["Mus"]}, {"sequence": ["ACGT"]}):
        pd.DataFrame(other).to_csv(tmp_path / "b.csv", index=False)
        with pytest.raises(
            ValueError, match=r"b\.csv has the columns sequence.* has sequence, genus"
        ):
            load_sequences(tmp_path, label_column="genus")
    pd.DataFrame(ROWS)[["genus", "sequence"]].to_csv(tmp_path / "b.csv", index=False)
    assert len(load_sequences(tmp_path, label_column="genus")) == 6


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("sequence", [b"ACGT", b"AC"], "'sequence' holds .*binary.*: text is a sequence"),
        ("sequence", [1, 2], "'sequence' holds .*int64.*: text is a sequence"),
        ("genus", [["Mus"], ["Bos"]], "'genus' holds .*: text or numbers are labels"),
    ],
)
def test_columns_that_cannot_be_what_they_should_are_named(tmp_path, column, values, message):
    rows = {"sequence": ["ACGT", "AC"], "genus": ["Mus", "Bos"]} | {column: values}
    pd.DataFrame(rows).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=message):
        load_sequences(tmp_path / "x.parquet", label_column="genus")


def test_other_files_of_a_folder_are_mentioned(tmp_path, said):
    write(tmp_path / "in/x.fa", TWO)
    write(tmp_path / "in/labels.tsv", "a\tMus\nb\tBos\n")
    dataset = load_sequences(tmp_path / "in", label_table=tmp_path / "in/labels.tsv")
    assert len(dataset) == 2
    assert "1 files are not read as sequences" in said()
