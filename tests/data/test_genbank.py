"""The tasks of the paper are read from the bundle and from flat files alike."""

import logging

import pytest

from hf_mixers.data import GENBANK_TASKS, load_genbank_task
from tests.data.files import genbank, gzipped

BASES = "ACGTACGTAC" * 4
CARP = "Eukaryota; Metazoa; Cyprinidae; Cyprininae; Carassius"
LABEO = "Eukaryota; Metazoa; Cyprinidae; Labeoninae; Labeo"


def write_bundle(folder, head="genus,sequence,len", rows=()):
    rows = rows or [
        ("Labeo", BASES, 40),
        ("Carassius", BASES + "N", 41),
        ("Carassius", "ACGT", 4),
        ("Danio", BASES, 40),
        ("Labeo", "A" * 100_102, 100_102),
    ]
    lines = [head, *(",".join(map(str, row)) for row in rows)]
    path = folder / "Carassius_Labeo_all.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_tasks_are_those_of_the_paper():
    assert {name: (task.classes, task.max_length) for name, task in GENBANK_TASKS.items()} == {
        "Carassius_Labeo": (("Carassius", "Labeo"), 100_101),
        "Danio_Cyprinus": (("Danio", "Cyprinus"), 261_943),
        "Mus_Rattus": (("Mus", "Rattus"), 261_093),
        "Sus_Bos": (("Sus", "Bos"), 447_010),
    }
    for name, task in GENBANK_TASKS.items():
        assert f"{name}_all.csv" in task.where[0]
        assert ".seq.gz" in task.where[1]


@pytest.mark.parametrize("of", ["file", "folder"])
@pytest.mark.parametrize("head", ["genus,sequence,len", "label,dna,n", "\ufeffgenus,dna,n"])
def test_bundle_is_filtered_and_what_is_left_out_is_counted(tmp_path, caplog, of, head):
    path = write_bundle(tmp_path, head)
    with caplog.at_level(logging.INFO, "hf_mixers"):
        dataset = load_genbank_task("Carassius/Labeo", path if of == "file" else tmp_path)
    assert dataset.column_names == ["id", "sequence", "length", "label"]
    assert dataset.features["label"].names == ["Carassius", "Labeo"]
    assert dataset["label"][:] == [1, 0]
    assert dataset["length"][:] == [40, 41]
    assert "1 of 5 records are left out: 1 of other classes" in caplog.text
    assert "2 of 4 examples are left out: 1 shorter than 32, 1 longer than 100101" in caplog.text
    table = caplog.messages[-1]
    assert table.startswith("Carassius_Labeo:\nclass ")
    assert "Labeo          1   50.0%" in table


def test_labels_follow_the_order_of_the_task(tmp_path):
    rows = [("Bos", BASES, 40), ("Sus", BASES, 40)]
    write_bundle(tmp_path, rows=rows).rename(tmp_path / "Sus_Bos_all.csv")
    assert load_genbank_task("Sus_Bos", tmp_path)["label"][:] == [1, 0]


def test_columns_of_the_bundle_are_found_by_name(tmp_path):
    rows = f"{BASES},40,Labeo\n{BASES},40,Carassius\n"
    (tmp_path / "x.csv").write_text(f"sequence,len,genus\n{rows}")
    assert load_genbank_task("Carassius_Labeo", tmp_path / "x.csv")["label"][:] == [1, 0]


def test_where_to_get_a_task_is_said_if_a_folder_lacks_it(tmp_path):
    for name in ("notes.txt", "Sus_Bos_all.csv"):
        (tmp_path / name).write_text("genus,sequence,len\n")
        with pytest.raises(
            ValueError, match=r"nor GenBank flat files; Mus_Rattus is .*zip or http"
        ):
            load_genbank_task("Mus_Rattus", tmp_path)


def test_wrong_lengths_of_the_bundle_are_reported(tmp_path, caplog):
    path = write_bundle(tmp_path, rows=[("Labeo", BASES, 39), ("Carassius", BASES, 40)])
    with caplog.at_level(logging.WARNING):
        dataset = load_genbank_task("Carassius_Labeo", path)
    assert dataset["length"][:] == [40, 40]
    assert "len is not the length of the sequence in 1 records" in caplog.text


def test_flat_files_give_the_genera_of_their_lineages(tmp_path, caplog):
    head = "GBVRT1.SEQ          Genetic Sequence Data Bank\n\n   3 loci\n\n"
    first = genbank("A1", "Carassius auratus", CARP, BASES)
    first += genbank("A2", "Danio rerio", "Eukaryota; Danio", BASES)
    second = genbank("B1", "Labeo rohita", LABEO, BASES) + genbank("B2", "Labeo", LABEO, "ACGT")
    (tmp_path / "gbvrt1.seq").write_text(head + first)
    (tmp_path / "gbvrt2.seq.gz").write_bytes(gzipped((head + second).encode()))
    with caplog.at_level(logging.WARNING):
        dataset = load_genbank_task("Carassius_Labeo", tmp_path)
    assert dataset["id"][:] == ["A1.1", "B1.1"]
    assert dataset["label"][:] == [0, 1]
    assert dataset["species"][:] == ["Carassius auratus", "Labeo rohita"]
    assert "1 without label (first: 'A2.1')" in caplog.text
    assert "1 shorter than 32" in caplog.text


def test_cut_flat_file_is_an_error(tmp_path):
    data = gzipped(genbank("A1", "Carassius auratus", CARP, BASES).encode() * 9)
    (tmp_path / "gbvrt1.seq.gz").write_bytes(data[:-20])
    with pytest.raises(ValueError, match=r"gbvrt1\.seq\.gz is cut short or damaged"):
        load_genbank_task("Carassius_Labeo", tmp_path)


def test_unknown_task_missing_data_and_missing_head_are_errors(tmp_path):
    with pytest.raises(ValueError, match="'Homo_Pan' was asked for: Carassius_Labeo"):
        load_genbank_task("Homo_Pan", tmp_path)
    with pytest.raises(ValueError, match=r"does not exist; Mus_Rattus is .*zip or https"):
        load_genbank_task("Mus_Rattus", tmp_path / "nowhere")
    path = write_bundle(tmp_path, head=f"Labeo,{BASES},40")
    with pytest.raises(ValueError, match="a line that names the columns genus, sequence, len"):
        load_genbank_task("Carassius_Labeo", path)
