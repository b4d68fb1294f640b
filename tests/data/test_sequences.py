"""Records come out of every kind of file as they are, and bad ones are named."""

import gzip
import logging
import os
import pickle

import pandas as pd
import pytest
from datasets import ClassLabel, Dataset, IterableDataset, Value, disable_progress_bars
from torch.utils.data import DataLoader

from hf_mixers.data import load_sequences

disable_progress_bars()

TWO = ">a genus=Mus one\nACGT\nacgn\n>b genus=Bos\nGGGCC\n"
READS = "@a genus=Mus\nACGT\n+\nIIII\n@b genus=Bos\nGG\n+\nII\n"
ROWS = {"sequence": ["ACGT", "GGG", "TTTTT"], "genus": ["Mus", "Bos", "Mus"]}


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
    # datasets would count each load on a server
    monkeypatch.setattr("datasets.config.HF_UPDATE_DOWNLOAD_COUNTS", False)


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.WARNING)
    return lambda: " ".join(record.getMessage() for record in caplog.records)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def genbank(name, organism, lineage, sequence, length=None):
    lines = [
        f"LOCUS       {name} {len(sequence) if length is None else length} bp DNA linear VRT",
        f"DEFINITION  {organism} gene.",
        f"ACCESSION   {name}",
        f"VERSION     {name}.1",
        f"SOURCE      {organism}",
        f"  ORGANISM  {organism}",
        f"            {lineage}.",
        "FEATURES             Location/Qualifiers",
        "ORIGIN",
        f"        1 {sequence.lower()}",
        "//",
    ]
    return "\n".join(lines) + "\n"


GENBANK = (
    genbank("X1", "Mus musculus", "Eukaryota; Muridae; Murinae; Mus; Mus", "ACGTAC")
    + genbank("X2", "Rattus norvegicus", "Eukaryota; Muridae; Murinae; Rattus", "GGGTTT")
    + genbank("X3", "Mus spretus", "Eukaryota; Muridae; Murinae; Mus; Mus", "GGGTTA")
)


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


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x.fa", b"", "is empty"),
        ("x.fa", b" \n\n", "is empty"),
        ("x.fa.gz", b"", "is empty"),
        ("x.fa", b"ACGT\n", "starts with 'ACGT'"),
        ("x.fa", READS.encode(), "starts with '@a'"),
        ("x.fa.gz", TWO.encode(), "is cut short or damaged.*gzipped"),
        ("x.fa.gz", gzip.compress(TWO.encode() * 500)[:-40], "is cut short or damaged"),
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


def test_other_files_of_a_folder_are_mentioned(tmp_path, said):
    write(tmp_path / "in/x.fa", TWO)
    write(tmp_path / "in/labels.tsv", "a\tMus\nb\tBos\n")
    dataset = load_sequences(tmp_path / "in", label_table=tmp_path / "in/labels.tsv")
    assert len(dataset) == 2
    assert "1 files are not read as sequences" in said()
