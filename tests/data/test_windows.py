"""Windows are pieces of the genome, decided by seed, epoch and index alone."""

import os
import pickle
import sys
import time
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import hf_mixers.data.genomes
from hf_mixers import ByteTokenizer, DnaTokenizer, reverse_complement
from hf_mixers.data import GenomeWindows, record_names, records
from tests.data.files import gzipped

TOKENIZER = DnaTokenizer()


def draw_bases(count, seed):
    picks = np.random.default_rng(seed).integers(4, size=count)
    return np.frombuffer(b"ACGT", np.uint8)[picks].tobytes().decode()


GENOME = {"one": draw_bases(3000, 1), "two": draw_bases(1000, 2).lower(), "three": "GATTACA" * 3}


def write(path, genome=GENOME, width=60):
    lines = []
    for name, text in genome.items():
        lines += [f">{name} chromosome", *(text[i : i + width] for i in range(0, len(text), width))]
    data = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzipped(data) if path.suffix == ".gz" else data)
    return path


def read(window):
    return TOKENIZER.decode(window["input_ids"])


@pytest.fixture(params=["genome.fa", "genome.fa.gz"])
def path(request, tmp_path):
    return write(tmp_path / request.param)


def test_windows_are_pieces_of_the_genome_with_known_lengths(path):
    windows = GenomeWindows(path, TOKENIZER, (10, 500), 100)
    texts = [text.upper() for text in GENOME.values()]
    assert len(windows) == len(windows.lengths) == 100
    for index, length in enumerate(windows.lengths):
        window = windows[index]
        assert window["input_ids"].dtype == np.uint8
        assert window["length"] == len(window["input_ids"]) == length
        assert any(read(window) in text for text in texts)
    assert windows.lengths.min() >= 10
    assert windows.lengths.max() <= 500


def test_plain_and_packed_files_give_the_same_windows(tmp_path):
    files = [write(tmp_path / name) for name in ("a.fa", "b.fa.gz")]
    plain, packed = (GenomeWindows(file, TOKENIZER, (10, 500), 20) for file in files)
    assert [read(plain[i]) for i in range(20)] == [read(packed[i]) for i in range(20)]


def test_windows_repeat_with_seed_epoch_and_index_only(path):
    def texts(seed, epoch):
        windows = GenomeWindows(path, TOKENIZER, (10, 500), 20, seed=seed, reverse_complement=True)
        windows.set_epoch(epoch)
        # the order of asking does not matter
        return [read(windows[i]) for i in reversed(range(20))]

    assert texts(0, 0) == texts(0, 0)
    assert texts(0, 0) != texts(1, 0)
    assert texts(0, 0) != texts(0, 1)


def test_lengths_are_spread_evenly_over_powers(path):
    lengths = GenomeWindows(path, TOKENIZER, (16, 1023), 6000).lengths
    counts = np.bincount(np.log2(lengths).astype(int), minlength=10)[4:10]
    assert np.abs(counts - 1000).max() < 150


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 60), st.integers(0, 60))
def test_lengths_stay_within_their_bounds(tmp_path, low, more):
    file = write(tmp_path / "genome.fa")
    lengths = GenomeWindows(file, TOKENIZER, (low, low + more), 50).lengths
    assert lengths.min() >= low
    assert lengths.max() <= low + more


def test_special_tokens_count_and_one_length_is_enough(path):
    windows = GenomeWindows(path, DnaTokenizer(add_cls=True), 21, 5)
    assert windows.lengths.tolist() == [22] * 5
    assert windows[0]["input_ids"][0] == 2
    assert windows[-1]["length"] == 22
    with pytest.raises(IndexError):
        windows[5]


def test_larger_vocabularies_get_larger_integers(path):
    assert GenomeWindows(path, ByteTokenizer(), 8, 1)[0]["input_ids"].dtype == np.uint16


def test_every_second_window_is_of_the_opposite_strand(path):
    options = {"length": 50, "num_windows": 200, "records": ["one"]}
    windows = GenomeWindows(path, TOKENIZER, reverse_complement=True, **options)
    forward = sum(read(windows[i]) in GENOME["one"] for i in range(200))
    backward = sum(reverse_complement(read(windows[i])) in GENOME["one"] for i in range(200))
    assert forward + backward == 200
    assert 60 < forward < 140


def test_records_can_be_chosen_and_held_out(path):
    inside = GenomeWindows(path, TOKENIZER, 20, 30, records=["two"])
    assert all(read(inside[i]) in GENOME["two"].upper() for i in range(30))
    outside = GenomeWindows(path, TOKENIZER, 20, 30, exclude=["two", "three"])
    assert all(read(outside[i]) in GENOME["one"] for i in range(30))
    for options in ({"records": ["four"]}, {"exclude": ["four"]}):
        with pytest.raises(ValueError, match="names 'four', which is in none of the files"):
            GenomeWindows(path, TOKENIZER, 20, 30, **options)
    with pytest.raises(ValueError, match="a list of names"):
        GenomeWindows(path, TOKENIZER, 20, 30, exclude="two")
    with pytest.raises(ValueError, match="No record is left"):
        GenomeWindows(path, TOKENIZER, 20, 30, records=["two"], exclude=["two"])


def test_parts_of_records_can_be_chosen_and_held_out(path):
    inside = GenomeWindows(path, TOKENIZER, (20, 100), 40, records=["one:2,901-3000"])
    assert inside.lengths.max() <= 100
    assert all(read(inside[i]) in GENOME["one"][2900:] for i in range(40))
    outside = GenomeWindows(path, TOKENIZER, 20, 60, exclude=["one:101-2950", "two", "three"])
    ends = GENOME["one"][:100], GENOME["one"][2950:]
    found = [[read(outside[i]) in end for end in ends] for i in range(60)]
    assert all(map(any, found))
    assert all(map(any, zip(*found, strict=True))), "both ends are drawn from"
    for text in ("one:0-5", "one:5-4", "one:5-3001"):
        with pytest.raises(ValueError, match=f"names '{text}', but 'one' has the bases 1 to 3000"):
            GenomeWindows(path, TOKENIZER, 20, 30, records=[text])
    with pytest.raises(ValueError, match="names 'one:', which is in none of the files"):
        GenomeWindows(path, TOKENIZER, 20, 30, exclude=["one:"])


def test_a_name_may_look_like_a_part(tmp_path):
    genome = {"one": draw_bases(100, 1), "one:1-50": draw_bases(100, 2)}
    windows = GenomeWindows(
        write(tmp_path / "g.fa", genome), TOKENIZER, 20, 9, records=["one:1-50"]
    )
    assert all(read(windows[i]) in genome["one:1-50"] for i in range(9))


@pytest.mark.parametrize("unknown", ["N", "n", "R"])
def test_windows_with_many_unknown_bases_are_drawn_again(tmp_path, unknown):
    # chance alone would hardly find the one good place
    genome = {"gap": unknown * 20_000 + GENOME["one"][:110] + unknown * 20_000}
    windows = GenomeWindows(write(tmp_path / "x.fa", genome), TOKENIZER, 100, 5, max_unknown=0.1)
    for index in range(5):
        assert (windows[index]["input_ids"] > 8).sum() <= 10
    free = GenomeWindows(tmp_path / "x.fa", TOKENIZER, 100, 5, max_unknown=1)
    assert (free[0]["input_ids"] > 8).sum() == 100


def test_genome_without_a_fitting_window_is_an_error(tmp_path):
    file = write(tmp_path / "x.fa", {"gap": "N" * 500})
    with pytest.raises(ValueError, match=r"x\.fa: no window of 50 bases has at most 10% unknown"):
        GenomeWindows(file, TOKENIZER, (10, 50), 5)


def test_windows_go_to_workers(path):
    windows = GenomeWindows(path, TOKENIZER, (10, 100), 12)
    here = [read(windows[i]) for i in range(12)]
    copy = pickle.loads(pickle.dumps(windows))
    assert [read(copy[i]) for i in range(12)] == here
    loader = DataLoader(windows, batch_size=None, num_workers=2)
    there = [read({"input_ids": np.asarray(row["input_ids"])}) for row in loader]
    assert there == here


@pytest.mark.processes
@pytest.mark.skipif(sys.platform == "win32", reason="no process is forked there")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_workers_do_not_move_each_others_place_in_the_file(tmp_path):
    bases = draw_bases(100_000, 4)
    reader = hf_mixers.data.genomes.open_fasta(str(write(tmp_path / "x.fa", {"one": bases})))

    def read_bases(start, count):
        return reader.read("one", start, count).tobytes().decode()

    assert read_bases(0, 100) == bases[:100]
    other = get_context("fork").Process(target=read_bases, args=(50_000, 40_000))
    other.start()
    other.join()
    # the start of this is still known from the first reading, the rest is not
    assert read_bases(4_000, 20_000) == bases[4_000:24_000]


@pytest.mark.slow
def test_pickle_leaves_genomes_behind(tmp_path):
    file = write(tmp_path / "x.fa.gz", {"one": draw_bases(2_000_000, 3)})
    windows = GenomeWindows(file, TOKENIZER, (10, 100), 12)
    assert len(pickle.dumps(windows)) < 200_000


def test_several_files_are_one_genome(tmp_path):
    (tmp_path / "in").mkdir()
    write(tmp_path / "in/a.fa", {"one": GENOME["one"]})
    write(tmp_path / "in/b.fa.gz", {"two": GENOME["two"]})
    windows = GenomeWindows(tmp_path / "in", TOKENIZER, 40, 50)
    assert {read(windows[i]) in GENOME["one"] for i in range(50)} == {True, False}
    assert record_names(tmp_path / "in") == [("one", 3000), ("two", 1000)]


def test_record_names_and_lengths_are_listed(path):
    assert record_names(path) == [("one", 3000), ("two", 1000), ("three", 21)]


def test_long_windows_are_bounded_by_the_longest_record(path, caplog):
    windows = GenomeWindows(path, TOKENIZER, (2990, 9000), 5)
    assert windows.lengths.max() <= 3000
    assert "at most 3000 bases" in caplog.text
    with pytest.raises(ValueError, match="Windows of 4000 bases were asked for"):
        GenomeWindows(path, TOKENIZER, (4000, 9000), 5)


def test_records_shorter_than_every_window_are_counted(path, said):
    GenomeWindows(path, TOKENIZER, (21, 50), 5)
    assert "left out" not in said()
    GenomeWindows(path, TOKENIZER, (22, 50), 5)
    assert "1 of 3 records, 21 of 4021 bases, are left out: shorter than 22 bases." in said()


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("width", [7, 60, 5000])
def test_windows_of_any_lines_are_read(tmp_path, ending, width):
    file = write(tmp_path / "x.fa", width=width)
    file.write_bytes(file.read_bytes().replace(b"\n", ending.encode()))
    reader = hf_mixers.data.genomes.open_fasta(str(file))
    for start, length in ((0, 1), (0, 7), (6, 2), (7, 7), (55, 300), (900, 100), (999, 1)):
        text = reader.read("two", start, length).tobytes().decode()
        assert text == GENOME["two"][start : start + length]


def test_index_goes_to_the_cache_where_the_folder_is_read_only(tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setattr("huggingface_hub.utils._cache_assets.HF_ASSETS_CACHE", str(cache))
    file = write(tmp_path / "genome.fa")
    # even the superuser cannot write here
    (tmp_path / "genome.fa.fai").mkdir()
    for genome in (GENOME, {"four": "ACGT" * 9}):
        write(file, genome)
        assert record_names(file) == [(name, len(text)) for name, text in genome.items()]
    assert len(list(cache.rglob("*.fai"))) == 2
    monkeypatch.setattr("huggingface_hub.utils._cache_assets.HF_ASSETS_CACHE", str(file))
    with pytest.raises(ValueError, match=r"genome\.fa cannot be indexed"):
        record_names(file)


@pytest.mark.parametrize("cut", [lambda text: text[:40], lambda text: text[: text.index("\n") + 1]])
def test_an_index_that_is_not_of_the_whole_file_is_made_anew(tmp_path, cut):
    file, index = write(tmp_path / "genome.fa"), tmp_path / "genome.fa.fai"
    record_names(file)
    whole = index.read_text()
    index.write_text(cut(whole))
    assert [name for name, _ in record_names(file)] == list(GENOME)
    assert index.read_text() == whole


def test_an_index_of_another_file_with_an_older_date_is_made_anew(tmp_path):
    file = write(tmp_path / "genome.fa")
    record_names(file)
    write(file, {"four": "ACGT" * 9})
    os.utime(file, (0, 0))
    assert record_names(file) == [("four", 36)]


def test_an_index_is_not_seen_before_it_is_complete(tmp_path, monkeypatch):
    def write_half(source, target):
        target.write(source.read(9))
        raise OSError("the disk is full")

    monkeypatch.setattr("huggingface_hub.utils._cache_assets.HF_ASSETS_CACHE", str(tmp_path / "x"))
    monkeypatch.setattr("pyfaidx.shutil.copyfileobj", write_half)
    file = write(tmp_path / "genome.fa")
    with pytest.raises(ValueError, match=r"genome\.fa cannot be indexed"):
        record_names(file)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["genome.fa"]


def test_a_packed_genome_is_unpacked_once(tmp_path, monkeypatch):
    opened = []

    def read_rows(file, *rest):
        opened.append(file)
        return records.read_rows(file, *rest)

    monkeypatch.setattr("hf_mixers.data.sequences.read_rows", read_rows)
    file = write(tmp_path / "genome.fa.gz")
    names = [name for name, _ in record_names(file)]
    train, other = (GenomeWindows(file, TOKENIZER, 9, 3, records=[name]) for name in names[:2])
    for windows, name in ((train, "one"), (other, "two")):
        assert read(windows[0]) in GENOME[name].upper()
    assert opened == [str(file)]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x.fa", b"", "is empty"),
        ("x.fa.gz", b"", "is empty"),
        ("x.fa", b"no fasta\n", "x.fa "),
        ("x.fa", b">a\nACGT\nACGTACGT\nAC\nACGT\n", "cannot be indexed"),
        ("x.fa", b">a\nACGT\n>a\nACGT\n", "x.fa.*a"),
        ("x.fa.gz", gzipped(b">a\nACGT\n>a\nACGT\n"), "record 'a' has an id that came"),
        ("x.fa", b">a\nACGT\n>b\n", "record 'b' has no sequence"),
        ("x.fa.gz", gzipped(b">a\nACGT\n" * 99)[:-12], "cut short or damaged"),
        ("x.fa", b">a\n" + b"MKLVE" * 20 + b"\n", "record 'a' has '[LE]' at position"),
        ("x.fq", b"@a\nACGT\n+\nIIII\n", "is fastq: windows are cut from FASTA"),
    ],
)
def test_bad_files_are_named(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=message) as caught:
        GenomeWindows(tmp_path / name, TOKENIZER, 4, 2)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": (0, 5)}, "length="),
        ({"length": (9, 5)}, "length="),
        ({"length": [9]}, "length="),
        ({"num_windows": 0}, "num_windows=0"),
        ({"max_unknown": 2}, "max_unknown=2"),
    ],
)
def test_wrong_options_are_errors(path, options, message):
    with pytest.raises(ValueError, match=message):
        GenomeWindows(path, TOKENIZER, **{"length": 5, "num_windows": 2} | options)


def test_pyfaidx_is_imported_only_when_it_is_needed(tmp_path, monkeypatch):
    assert not hasattr(hf_mixers.data.genomes, "pyfaidx")
    monkeypatch.setitem(sys.modules, "pyfaidx", None)
    with pytest.raises(ImportError, match=r"pip install hf-mixers\[bio\]"):
        record_names(write(tmp_path / "genome.fa"))


@pytest.mark.timing
def test_many_records_are_held_out_in_linear_time(tmp_path):
    path = tmp_path / "genes.fa"
    path.write_text("".join(f">g{number}\nACGTACGTAC\n" for number in range(20_000)))
    held_out = [f"g{number}" for number in range(0, 20_000, 2)]
    begin = time.perf_counter()
    train = GenomeWindows(path, DnaTokenizer(), 8, 5, exclude=held_out)
    # comparing every record with every other took minutes
    assert time.perf_counter() - begin < 20
    assert {region.name for region in train._regions}.isdisjoint(held_out)
    assert len(train._regions) == 10_000


def test_holes_of_one_record_are_all_left_out(tmp_path):
    path = tmp_path / "genome.fa"
    path.write_text(">one\n" + "ACGT" * 25 + "\n")
    windows = GenomeWindows(
        path, DnaTokenizer(), 5, 5, exclude=["one:11-20", "one:15-30", "one:91-100"]
    )
    assert [(region.start, region.end) for region in windows._regions] == [(0, 10), (30, 90)]


def test_sampling_by_records_draws_short_and_long_ones_alike(tmp_path):
    path = tmp_path / "genes.fa"
    path.write_text(">short\n" + "A" * 10 + "\n>long\n" + "C" * 990 + "\n")
    shares = {}
    for sample_by in ("bases", "records"):
        windows = GenomeWindows(path, DnaTokenizer(), 5, 400, sample_by=sample_by)
        first = [int(windows[i]["input_ids"][0]) for i in range(400)]
        shares[sample_by] = first.count(min(first)) / 400
    assert shares["bases"] < 0.05
    assert 0.4 < shares["records"] < 0.6
    with pytest.raises(ValueError, match="sample_by='genes' was given: bases and records"):
        GenomeWindows(path, DnaTokenizer(), 5, 4, sample_by="genes")
