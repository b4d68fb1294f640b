"""Records come out of every kind of file as they are, with labels from wherever they stand."""

import pickle

import pandas as pd
import pytest
from datasets import ClassLabel, Dataset, IterableDataset, Value
from torch.utils.data import DataLoader

from hf_mixers.data import load_sequences
from tests.data.files import GENBANK, READS, ROWS, TWO, write


@pytest.mark.parametrize("name", ["x.fa", "x.fasta", "x.fna", "x.fa.gz", "odd [1] name.FA"])
def test_fasta_is_read_plain_or_packed(tmp_path, name):
    dataset = load_sequences(write(tmp_path / name, TWO))
    assert isinstance(dataset, Dataset)
    assert dataset.column_names == ["id", "sequence", "length", "description", "file"]
    assert dataset.features["sequence"] == Value("large_string")
    assert dataset["id"][:] == ["a", "b"]
    assert dataset["sequence"][:] == ["ACGTacgn", "GGGCC"]
    assert dataset["length"][:] == [8, 5]
    assert dataset["description"][:] == ["genus=Mus one", "genus=Bos"]
    assert dataset.cache_files


@pytest.mark.parametrize("name", ["x.fq", "x.fastq.gz"])
def test_fastq_is_read_plain_or_packed(tmp_path, name):
    dataset = load_sequences(write(tmp_path / name, READS))
    assert dataset["sequence"][:] == ["ACGT", "GG"]


@pytest.mark.parametrize("name", ["x.gb", "x.gbff", "x.seq", "x.seq.gz"])
def test_genbank_is_read_plain_or_packed(tmp_path, name):
    dataset = load_sequences(write(tmp_path / name, GENBANK), label_from="genus")
    assert dataset["id"][:] == ["X1.1", "X2.1", "X3.1"]
    assert dataset["species"][:] == ["Mus musculus", "Rattus norvegicus", "Mus spretus"]
    assert dataset.features["label"] == ClassLabel(names=["Mus", "Rattus"])
    assert dataset["label"][:] == [0, 1, 0]


@pytest.mark.parametrize(
    ("rank", "names"),
    [
        ("organism", ["Mus musculus", "Mus spretus", "Rattus norvegicus"]),
        ("species", ["Mus musculus", "Mus spretus", "Rattus norvegicus"]),
        ("genus", ["Mus", "Rattus"]),
    ],
)
def test_labels_from_the_organism(tmp_path, rank, names):
    dataset = load_sequences(write(tmp_path / "x.gb", GENBANK), label_from=rank)
    assert dataset.features["label"].names == names


def test_labels_from_named_taxa_keep_their_order(tmp_path):
    path = write(tmp_path / "x.gb", GENBANK)
    dataset = load_sequences(path, label_from="taxonomy", label_names=["Rattus", "Mus"])
    assert dataset["label"][:] == [1, 0, 1]


def test_labels_from_any_rank_with_the_taxonomy_of_ncbi(tmp_path):
    ranks = {"9": "family", "10": "subfamily", "11": "genus"}
    names = {"9": "Muridae", "10": "Murinae", "11": "Mus"}
    nodes = "".join(f"{t}\t|\t1\t|\t{r}\t|\t\t|\n" for t, r in ranks.items())
    lines = [f"{t}\t|\t{n}\t|\t\t|\tscientific name\t|\n" for t, n in names.items()]
    write(tmp_path / "dump/nodes.dmp", nodes)
    write(tmp_path / "dump/names.dmp", "".join(lines) + "9\t|\tmice\t|\t\t|\tcommon name\t|\n")
    path = write(tmp_path / "x.gb", GENBANK)
    dataset = load_sequences(path, label_from="family", taxonomy_dump=tmp_path / "dump")
    assert dataset.features["label"].names == ["Muridae"]
    with pytest.raises(ValueError, match=r"label_from='family' was given without taxonomy_dump"):
        load_sequences(path, label_from="family")
    with pytest.raises(ValueError, match="no taxon of the rank 'tribe'"):
        load_sequences(path, label_from="tribe", taxonomy_dump=tmp_path / "dump")
    with pytest.raises(ValueError, match=r"has no nodes\.dmp"):
        load_sequences(path, label_from="family", taxonomy_dump=tmp_path)


def test_labels_from_folders_of_a_folder_or_a_glob(tmp_path):
    write(tmp_path / "in/Mus/1.fa", ">a\nACGT\n")
    write(tmp_path / "in/Mus/2.fa.gz", ">b\nACGT\n")
    write(tmp_path / "in/Bos/1.fa", ">c\nACGT\n>d\nAA\n")
    for source in (tmp_path / "in", str(tmp_path / "in/*/*.fa*"), [tmp_path / "in/Mus", tmp_path]):
        dataset = load_sequences(source, label_from="folder")
        assert dataset.features["label"].names == ["Bos", "Mus"]
        assert dict(zip(dataset["id"], dataset["label"], strict=True)) == {
            **{"a": 1, "b": 1, "c": 0, "d": 0}
        }


@pytest.mark.parametrize(("name", "text"), [("x.fa", TWO), ("x.fq", READS)])
def test_labels_from_a_pattern_in_the_description(tmp_path, name, text):
    dataset = load_sequences(write(tmp_path / name, text), label_pattern=r"genus=(\w+)")
    assert dataset.features["label"].names == ["Bos", "Mus"]
    assert dataset["label"][:] == [1, 0]


def test_labels_from_a_pattern_in_the_id_where_the_description_has_none(tmp_path):
    path = write(tmp_path / "x.fa", ">Mus_1\nACGT\n>Bos_7 cow\nAC\n")
    dataset = load_sequences(path, label_pattern=r"^([A-Z]\w+)_")
    assert dataset.features["label"].names == ["Bos", "Mus"]


def test_labels_from_a_table_and_unused_lines_are_counted(tmp_path, said):
    table = write(tmp_path / "labels.tsv", "id\tlabel\na\tMus\nb\tBos\nz\tSus\n")
    dataset = load_sequences(write(tmp_path / "x.fa", TWO), label_table=table)
    assert dataset.features["label"].names == ["Bos", "Mus"]
    assert dataset["label"][:] == [1, 0]
    assert "1 ids of the label table are in none" in said()


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.csv.gz", "x.parquet"])
def test_tables_keep_their_other_columns(tmp_path, name):
    frame = pd.DataFrame(ROWS | {"taxid": [1, 2, 3]})
    path = tmp_path / name
    if name == "x.parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if "tsv" in name else ",")
    dataset = load_sequences(path, label_column="genus")
    assert dataset.column_names == ["id", "sequence", "length", "label", "genus", "taxid"]
    assert dataset["id"][:] == [f"{name}:{row}" for row in (1, 2, 3)]
    assert dataset["label"][:] == [1, 0, 1]
    assert dataset["taxid"][:] == [1, 2, 3]


def test_columns_can_have_other_names_and_are_text(tmp_path, said):
    frame = pd.DataFrame(
        {"acc": ["007", "08"], "dna": ["NA", "ACGT"], "label": [1, 0], "y": [2, 3]}
    )
    frame.to_csv(tmp_path / "x.csv", index=False)
    dataset = load_sequences(
        tmp_path / "x.csv", sequence_column="dna", id_column="acc", label_column="y"
    )
    assert dataset["id"][:] == ["007", "08"]
    assert dataset["sequence"][:] == ["NA", "ACGT"]
    assert dataset["label"][:] == [2, 3]
    assert dataset.features["label"] == Value("int64")
    assert "column 'label' is replaced" in said()


def write_tables(folder, *columns):
    """CSV files with a column `x` each."""
    for number, texts in enumerate(columns):
        lines = [f"r{number}_{row},ACGT,{text}\n" for row, text in enumerate(texts)]
        write(folder / f"{number}.csv", "id,sequence,x\n" + "".join(lines))
    return folder


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        ((["1", "2"], ["X", "Y"]), ["1", "2", "X", "Y"]),
        ((["1", "2"], ["007"]), [1, 2, 7]),
        ((["1", ""], ["2.5"]), [1.0, None, 2.5]),
        ((["1", ""], ["a"]), ["1", None, "a"]),
        ((["True"], ["False"]), [True, False]),
        ((["0x1", "0x2"],), ["0x1", "0x2"]),
        ((["1.5", "nan"],), ["1.5", "nan"]),
        ((["1" * 20],), ["1" * 20]),
        ((["", ""],), [None, None]),
    ],
)
def test_all_rows_of_all_files_decide_what_a_column_is(tmp_path, texts, values):
    folder = write_tables(tmp_path / "in", *texts)
    dataset = load_sequences(folder)
    assert dataset.column_names == ["id", "sequence", "length", "x"]
    assert dataset["x"][:] == values
    assert list(map(type, dataset["x"])) == list(map(type, values))
    stream = load_sequences(folder, streaming=True)
    assert [row["x"] for row in stream] == [text or None for part in texts for text in part]


@pytest.mark.parametrize(
    ("texts", "feature", "labels"),
    [
        ((["1", "2"], ["X", "1"]), ClassLabel(names=["1", "2", "X"]), [0, 1, 2, 0]),
        ((["3", "1"], ["2"]), Value("int64"), [3, 1, 2]),
        ((["3", "1"], ["0.5"]), Value("float64"), [3.0, 1.0, 0.5]),
        ((["True"], ["False"]), ClassLabel(names=["False", "True"]), [1, 0]),
    ],
)
def test_all_labels_decide_what_they_are(tmp_path, texts, feature, labels):
    dataset = load_sequences(write_tables(tmp_path / "in", *texts), label_column="x")
    assert dataset.features["label"] == feature
    assert dataset["label"][:] == labels


def test_labels_of_records_left_out_do_not_decide(tmp_path, said):
    path = write(tmp_path / "x.csv", "id,sequence,y\na,ACGT,1\nb,,none\nc,ACGT,\nd,AC,0\n")
    dataset = load_sequences(path, label_column="y", bad_records="drop")
    assert dataset["label"][:] == [1, 0]
    assert "2 of 4 records are left out: 1 without label (first: 'c')" in said()


def test_label_names_make_text_of_numbers(tmp_path):
    folder = write_tables(tmp_path / "in", ["1", "0"])
    for streaming in (False, True):
        options = {"label_column": "x", "label_names": ["1", "0"], "streaming": streaming}
        assert [row["label"] for row in load_sequences(folder, **options)] == [0, 1]


def test_marks_before_the_first_line_are_no_part_of_it(tmp_path):
    table = write(tmp_path / "labels.tsv", "\ufeffa\tMus\nb\tBos\n")
    dataset = load_sequences(write(tmp_path / "x.fa", TWO), label_table=table)
    assert dataset["label"][:] == [1, 0]
    path = write(tmp_path / "x.csv", "\ufeffsequence,y\nACGT,3\n")
    assert load_sequences(path, label_column="y")["label"][:] == [3]


def test_numbers_of_a_column_stay_numbers(tmp_path):
    pd.DataFrame({"sequence": ["AC", "GT"], "y": [0.5, 1.5]}).to_parquet(tmp_path / "x.parquet")
    dataset = load_sequences(tmp_path / "x.parquet", label_column="y")
    assert dataset["label"][:] == [0.5, 1.5]
    with pytest.raises(ValueError, match="label_names was given for a column of numbers"):
        load_sequences(tmp_path / "x.parquet", label_column="y", label_names=["a"])


def test_class_labels_of_a_parquet_file_are_kept(tmp_path):
    rows = Dataset.from_dict({"sequence": ["AC", "GT"], "label": [1, 0]})
    rows.cast_column("label", ClassLabel(names=["x", "a"])).to_parquet(tmp_path / "x.parquet")
    dataset = load_sequences(tmp_path / "x.parquet", label_column="label")
    assert dataset.features["label"].names == ["x", "a"]
    assert dataset["label"][:] == [1, 0]


# --- streams ---


@pytest.mark.parametrize("name", ["x.fa", "x.fa.gz"])
def test_stream_gives_the_same_rows(tmp_path, name):
    path = write(tmp_path / name, TWO)
    options = {"label_pattern": r"genus=(\w+)", "label_names": ["Bos", "Mus"]}
    stream = load_sequences(path, streaming=True, **options)
    assert isinstance(stream, IterableDataset)
    dataset = load_sequences(path, **options)
    assert list(stream) == list(dataset)
    assert stream.features == dataset.features


def test_stream_of_a_table_gives_the_same_rows(tmp_path):
    pd.DataFrame(ROWS).to_csv(tmp_path / "x.csv", index=False)
    options = {"label_column": "genus", "label_names": ["Bos", "Mus"]}
    stream = load_sequences(tmp_path / "x.csv", streaming=True, **options)
    assert list(stream) == list(load_sequences(tmp_path / "x.csv", **options))


def test_stream_of_a_table_has_numbers_as_labels_if_the_first_are(tmp_path):
    options = {"label_column": "x", "streaming": True}
    whole = load_sequences(write_tables(tmp_path / "1", ["3", "1"], ["2"]), **options)
    assert whole.features["label"] == Value("int64")
    assert [row["label"] for row in whole] == [3, 1, 2]
    decimal = load_sequences(write_tables(tmp_path / "2", ["3", "1.5"], ["2"]), **options)
    assert decimal.features["label"] == Value("float64")
    assert [row["label"] for row in decimal] == [3.0, 1.5, 2.0]
    for text in ("X", "0.5", "1_0"):
        mixed = load_sequences(write_tables(tmp_path / "3", ["3"], [text]), **options)
        message = rf"1\.csv: record 'r1_0' has the label '{text}', but the first .* whole numbers"
        with pytest.raises(ValueError, match=message):
            list(mixed)


def test_stream_has_a_shard_for_each_file_and_can_go_to_workers(tmp_path):
    for number in range(4):
        write(tmp_path / f"in/g{number % 2}/{number}.fa", f">r{number}\nACGT\n")
    stream = load_sequences(tmp_path / "in", label_from="folder", streaming=True)
    assert stream.num_shards == 4
    assert stream.features["label"].names == ["g0", "g1"]
    assert len(list(pickle.loads(pickle.dumps(stream)))) == 4
    loader = DataLoader(stream, batch_size=None, num_workers=2)
    assert sorted(row["id"] for row in loader) == ["r0", "r1", "r2", "r3"]


def test_stream_needs_names_that_it_cannot_know(tmp_path):
    path = write(tmp_path / "x.fa", TWO)
    with pytest.raises(ValueError, match="without label_names"):
        load_sequences(path, label_pattern=r"genus=(\w+)", streaming=True)


def test_stream_stops_at_bad_records_or_counts_them(tmp_path, said):
    path = write(tmp_path / "x.fa", ">a\nACGT\n>b\nMKLV\n>c\nA\n")
    with pytest.raises(ValueError, match=r"x\.fa: record 'b' has 'L' at position 2"):
        list(load_sequences(path, streaming=True))
    stream = load_sequences(path, streaming=True, bad_records="drop")
    assert [row["id"] for row in stream] == ["a"]
    assert "2 of 3 records are left out: 1 shorter than 2 (first: 'c'), 1 with other" in said()


# --- bad input ---
