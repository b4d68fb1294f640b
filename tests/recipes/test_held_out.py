"""Which records of genomes are held out for evaluation."""

import pytest

from hf_mixers.data import load_embedded, record_names
from hf_mixers.recipes.held_out import choose_held_out, find_genomes


@pytest.mark.parametrize(
    ("records", "held_out"),
    [
        ([("chromosome", 5000), ("plasmid", 400), ("small", 120)], ["plasmid", "small"]),
        ([("a", 600), ("b", 400), ("scrap", 9)], ["b"]),
        ([("all", 5000), ("scrap", 9)], ["all:4501-5000"]),
        ([(f"contig{i}", 100 + i) for i in range(25)], ["contig24", "contig23"]),
    ],
)
def test_some_of_every_genome_is_held_out(records, held_out):
    assert choose_held_out(records, 100) == held_out


def test_scraps_of_a_genome_are_no_place_for_windows():
    with pytest.raises(ValueError, match="No record has the 100 bases of the shortest window"):
        choose_held_out([("a", 20)], 100)


def write_genome(path, **records):
    path.write_text("".join(f">{name}\n{'ACGT' * n}\n" for name, n in records.items()))
    return [str(path)]


def test_what_is_held_out_is_chosen_or_said(tmp_path, caplog):
    caplog.set_level("INFO", "hf_mixers")
    files = write_genome(tmp_path / "a.fa", one=100, two=10, three=5)
    found = find_genomes(files, 10, tmp_path)
    assert (found.files, found.held_out, found.name) == (files, ["two"], "a.fa")
    assert "3 records, 460 bases; held out: two" in caplog.messages
    names = ["one:1-20", "three"]
    assert find_genomes(files, 10, tmp_path, names=names).held_out == names
    assert find_genomes(files, 10, tmp_path, pattern="^t").held_out == ["two", "three"]
    table = tmp_path / "names.tsv"
    table.write_text("three\tplasmid\n\none\nthree\n")
    assert find_genomes(files, 10, tmp_path, table=str(table)).held_out == ["three", "one"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"names": ["one", "two", "three"]}, "All records are held out: nothing is left to train"),
        ({"pattern": "e|o"}, "All records are held out: nothing is left to train on"),
        ({"pattern": "("}, r"'\(' is not a regular expression"),
        ({"pattern": "four"}, "No record has a name that 'four' matches, such as 'one'"),
        ({"table": "lost.tsv"}, "The table lost.tsv does not exist"),
    ],
)
def test_what_cannot_be_held_out_is_said(given, message, tmp_path):
    files = write_genome(tmp_path / "a.fa", one=100, two=10, three=5)
    with pytest.raises(ValueError, match=message):
        find_genomes(files, 10, tmp_path, **given)


def test_the_test_species_of_the_embedded_genes_are_held_out(tmp_path):
    genes = load_embedded()
    test = {
        name
        for name, part in zip(genes["id"], genes["split_species"], strict=True)
        if part == "test"
    }
    found = find_genomes(None, 10, tmp_path)
    assert set(found.held_out) == test
    names = [record for record, _ in record_names(found.files)]
    assert names == genes["id"][:]
