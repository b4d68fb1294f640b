"""Pieces of long sequences cover them, and know where they are from."""

import pytest
from datasets import ClassLabel, Dataset, Features, Value

from hf_mixers.data import cut_sequences, draw_reads
from hf_mixers.models.dna import reverse_complement

TEXTS = ["ACGT" * 500, "G" * 90, "CA" * 50, "T" * 101]


def make_rows():
    features = Features(
        id=Value("string"),
        sequence=Value("string"),
        length=Value("int64"),
        label=ClassLabel(names=["cat", "dog"]),
    )
    rows = {"id": list("abcd"), "sequence": TEXTS, "length": [len(text) for text in TEXTS]}
    return Dataset.from_dict(rows | {"label": [1, 0, 1, 0]}, features=features)


def test_pieces_end_to_end_are_the_sequence():
    cut = cut_sequences(make_rows(), 100, shortest=20, seed=3)
    assert cut.features == make_rows().features
    of_first = [row for row in cut if row["id"].startswith("a:")]
    assert len(of_first) > 20
    assert "".join(row["sequence"] for row in of_first) == TEXTS[0]
    for row in of_first:
        first, last = map(int, row["id"].removeprefix("a:").split("-"))
        assert row["sequence"] == TEXTS[0][first - 1 : last]
        assert 20 <= row["length"] == len(row["sequence"]) < 120
        assert row["label"] == 1
    # what is not longer stays whole
    assert [row for row in cut if row["id"] in "bc"] == [
        row for row in make_rows() if row["id"] in "bc"
    ]
    assert sum(cut["length"]) == sum(map(len, TEXTS))


def test_what_is_left_at_the_end_is_never_a_scrap():
    rows = Dataset.from_dict({"sequence": ["A" * length for length in range(101, 301)]})
    for seed in range(3):
        texts = cut_sequences(rows, 100, shortest=30, seed=seed)["sequence"][:]
        assert 30 <= min(map(len, texts)) <= max(map(len, texts)) < 130


def test_short_pieces_are_as_likely_as_long_ones_and_come_from_the_seed():
    rows = Dataset.from_dict({"sequence": ["A" * 200_000]})
    lengths = [len(text) for text in cut_sequences(rows, 1600)["sequence"]]
    short = sum(length < 400 for length in lengths) / len(lengths)
    assert 0.4 < short < 0.6
    assert cut_sequences(rows, 1600)["sequence"][:] == cut_sequences(rows, 1600)["sequence"][:]
    other = cut_sequences(rows, 1600, seed=1)["sequence"][:]
    assert other != cut_sequences(rows, 1600)["sequence"][:]


def test_rounds_show_everything_again_with_other_cuts():
    once, thrice = (cut_sequences(make_rows(), 100, 20, seed=3, rounds=n) for n in (1, 3))
    assert thrice.select(range(len(once)))[:] == once[:]
    assert sum(thrice["length"]) == 3 * sum(map(len, TEXTS))
    assert thrice["id"][:].count("b") == 3
    pieces = [name for name in thrice["id"] if name.startswith("a:")]
    assert len(set(pieces)) > 0.9 * len(pieces)
    with pytest.raises(ValueError, match="rounds must be at least 1, got 0"):
        cut_sequences(make_rows(), 100, rounds=0)


def test_bounds_in_the_wrong_order_are_refused():
    with pytest.raises(ValueError, match="1 <= shortest <= longest is accepted"):
        cut_sequences(make_rows(), 50)


def test_of_long_sequences_at_most_so_many_pieces_are_kept_each_round_others():
    some = cut_sequences(make_rows(), 100, 20, seed=3, most=4)
    assert some["id"][:].count("b") == 1, "what needs no cut stays"
    kept = [piece for piece in some if piece["id"].startswith("a:")]
    starts = [int(piece["id"][2:].split("-")[0]) for piece in kept]
    assert len(kept) == 4
    assert starts == sorted(set(starts)), "pieces are in order, and none is there twice"
    for piece, start in zip(kept, starts, strict=True):
        assert piece["sequence"] == TEXTS[0][start - 1 : start - 1 + piece["length"]]
    rounds = cut_sequences(make_rows(), 100, 20, seed=3, rounds=3, most=4)
    of_first = [name for name in rounds["id"] if name.startswith("a:")]
    assert len(of_first) == 12
    assert len(set(of_first)) > 4, "other pieces in other rounds"
    with pytest.raises(ValueError, match="most must be at least 1, got 0"):
        cut_sequences(make_rows(), 100, most=0)


def test_reads_come_from_random_places_of_both_strands():
    rows = make_rows()
    reads = draw_reads(rows, 100, count=40, seed=1)
    assert reads.features == rows.features
    assert len(reads) == 160
    assert set(reads["length"][:]) == {90, 100}
    for row in reads:
        name, _, place = row["id"].partition(":")
        place, strand = place[:-3], place[-2]
        first, last = map(int, place.split("-"))
        piece = TEXTS["abcd".index(name)][first - 1 : last]
        assert row["sequence"] == (reverse_complement(piece) if strand == "-" else piece)
        assert row["label"] == rows["label"]["abcd".index(name)]
    strands = [row[-2] for row in reads["id"]]
    assert 40 < strands.count("-") < 120
    assert len(set(reads["id"][:40])) > 35
    assert draw_reads(rows, 100, count=40, seed=1)[:] == reads[:]
    assert draw_reads(rows, 100, count=40, seed=2)[:] != reads[:]
    with pytest.raises(ValueError, match="length=0 and count=1"):
        draw_reads(rows, 0)
