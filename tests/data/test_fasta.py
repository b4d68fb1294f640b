"""FASTA with a byte order mark is read; other encodings than UTF-8 are named."""

import pytest

from hf_mixers import DnaTokenizer
from hf_mixers.data import GenomeWindows, load_sequences, record_names
from hf_mixers.data.fasta import parse_fasta


def test_a_byte_order_mark_is_no_part_of_the_first_record(tmp_path, quiet):
    path = tmp_path / "marked.fa"
    path.write_bytes(b"\xef\xbb\xbf>a kind=x\r\nAC\r\nGT\r\n>b kind=y\r\nGG\r\n")
    records = load_sequences(path, label_pattern=r"kind=(\w)", cache_dir=tmp_path / "cache")
    assert records["id"][:] == ["a", "b"]
    assert records["sequence"][:] == ["ACGT", "GG"]
    assert records.features["label"].names == ["x", "y"]
    assert record_names(path) == [("a", 4), ("b", 2)]
    windows = GenomeWindows(path, DnaTokenizer(), length=2, num_windows=3)
    assert windows[0]["length"] == 2


def test_latin_1_headers_are_named_as_such(tmp_path, quiet):
    path = tmp_path / "latin.fa"
    path.write_bytes(b">a caf\xe9\nACGT\n")
    for read in (load_sequences, record_names):
        with pytest.raises(ValueError, match=r"latin.fa is not UTF-8 text: .* 'é' in Latin-1"):
            read(path)
    with pytest.raises(ValueError, match="the input is not UTF-8 text"):
        list(parse_fasta([b">caf\xe9\n"]))


def test_lines_before_the_first_header_are_refused():
    with pytest.raises(ValueError, match="starts with 'ACGT': fasta starts with '>'"):
        list(parse_fasta([b";a comment\n", b"\n", b"ACGT\n"]))
