"""Planted variants have the effect that their label says, but for the noise."""

import csv

import numpy as np
import pytest

from hf_mixers.baselines.kmer_differences import KmerDifference
from hf_mixers.data.genomes import open_fasta
from hf_mixers.tasks import load_arena_task
from hf_mixers.tasks.planted_variants import MOTIFS, PARTNER, plant_variants

WINDOW = 160


@pytest.fixture(scope="module")
def sequences():
    chance = np.random.default_rng(0)
    return ["".join(chance.choice(list("ACGT"), 30_000)) for _ in range(3)]


@pytest.fixture(scope="module")
def files(sequences, tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    return plant_variants(sequences, folder, count=300, window=WINDOW, noise=0.1)


def read_sites(files):
    table, fasta = files
    reader = open_fasta(str(fasta))
    with open(table) as file:
        for row in csv.DictReader(file):
            size = reader.sizes[row["chr"]]
            yield row, reader.read(row["chr"], 0, size).tobytes().decode()


def test_an_effect_is_a_broken_motif_with_its_partner(files):
    effects = flipped = 0
    for row, site in read_sites(files):
        start = int(row["pos"]) - 1
        assert site[start : start + len(row["ref"])] == row["ref"]
        changed = site[:start] + row["alt"] + site[start + len(row["ref"]) :]
        motif = MOTIFS[int(row["tissue"][-1])]
        is_broken = motif in site and motif not in changed
        assert (row["clean"] == "effect") == (is_broken and PARTNER in site)
        assert PARTNER in changed or PARTNER not in site
        effects += row["clean"] == "effect"
        flipped += row["clean"] != row["label"]
    assert 90 < effects < 210
    assert 10 < flipped < 60


def test_all_kinds_of_variants_are_there_and_sites_do_not_overlap(files, sequences):
    kinds, sites = set(), []
    for row, site in read_sites(files):
        kinds.add(len(row["alt"]) - len(row["ref"]))
        sites.append(site)
    assert kinds == {-2, 0, 2}
    assert len(set(sites)) == 300


def test_the_task_shows_windows_of_one_length(files):
    table, fasta = files
    task = load_arena_task("variants", table, fasta=fasta, window=WINDOW)
    assert (task.num_tasks, task.class_names) == (2, ("effect", "neutral"))
    example = task.parts["train"][0]
    assert len(example["input_ids"]) == len(example["input_ids_2"]) == WINDOW


def test_wrong_settings_are_named(sequences, tmp_path):
    for options, message in (
        ({"num_tissues": 9}, "num_tissues=9 was given: 1 to 3 are accepted"),
        ({"window": 20}, "window=20 was given: at least"),
        ({"noise": 0.5}, "noise=0.5 was given"),
        ({"count": 10**6}, "sites of 512 bases, not 1000000"),
    ):
        with pytest.raises(ValueError, match=message):
            plant_variants(sequences, tmp_path, **options)


def test_differences_of_kmers_tell_what_is_broken_in_which_tissue():
    chance = np.random.default_rng(1)
    pairs, labels, tasks = [], [], []
    for number in range(400):
        text = "".join(chance.choice(list("ACGT"), 60))
        motif = MOTIFS[number % 2]
        first = text[:30] + motif + text[30:]
        second = text[:30] + motif[:3] + ("A" if motif[3] != "A" else "G") + motif[4:] + text[30:]
        pairs.append((first, second))
        tasks.append(number // 2 % 2)
        labels.append(int(number % 2 == tasks[-1]))
    model = KmerDifference(k=3).fit(pairs[:300], labels[:300], tasks[:300])
    found = model.predict_proba(pairs[300:], tasks[300:])
    assert (found.argmax(1) == labels[300:]).mean() > 0.95
    assert np.allclose(found.sum(1), 1)
    with pytest.raises(ValueError, match="Task 7 is not one of training"):
        model.predict_proba(pairs[:1], [7])
    with pytest.raises(ValueError, match="predicts after fit"):
        KmerDifference().predict_proba(pairs[:1])
    same = KmerDifference(k=2).fit(pairs[:3], [1, 1, 1], num_labels=2)
    assert same.predict_proba(pairs[:1]).tolist() == [[0, 1]]
