"""Calibrations: means over neutral sites by 5-mer and alternate base, and percentiles."""

import json

import numpy as np
import pytest
from transformers import AutoModelForMaskedLM

from hf_mixers import DnaTokenizer
from hf_mixers.inference import calibrate, score_variants
from hf_mixers.inference.calibrate import weighted_quantiles
from hf_mixers.inference.variants import Calibration, Reference
from hf_mixers.inference.variants.neutral import draw_sites, name_context, read_regions
from tests.inference.test_run import run
from tests.inference.variants.made import WINDOW


@pytest.fixture(scope="module")
def genome_text():
    # few 5-mers, so that each has several sites
    letters = np.random.default_rng(3).choice(list("ACGT"), 600, p=[0.4, 0.4, 0.1, 0.1])
    return {"chr1": "NN" + "".join(letters), "chr2": "ACGTACGT"}


@pytest.fixture(scope="module")
def table(masked_lm, genome_text):
    return calibrate(masked_lm, genome_text, window=WINDOW, sites=10**6)


def test_means_are_those_of_all_sites(masked_lm, genome_text, table):
    name, text = "chr1", genome_text["chr1"]
    places = [p for p in range(4, len(text) - 2) if text[p - 2 : p + 3] == "AACAA"]
    assert len(places) > 3
    rows = [(name, place + 1, "C", "G") for place in places]
    found = score_variants(masked_lm, rows, genome_text, window=WINDOW, scores=["llr"])
    ratios = [one.scores["llr"] for one in found]
    assert table.means["AACAA>G"] == pytest.approx(np.mean(ratios), abs=1e-5)
    assert table.counts["AACAA>G"] == len(places)
    # a context of known bases has three means
    assert all(key[2] != key[-1] for key in table.means)
    assert len(table.means) == 3 * len({key[:5] for key in table.means})


@pytest.mark.slow
def test_calibrated_scores_are_ratios_minus_means(masked_lm, genome_text, table, tmp_path):
    table.save(tmp_path / "table.json")
    text, rows = genome_text["chr1"], []
    for place in range(10, 60):
        rows += [("chr1", place + 1, text[place], alt) for alt in "ACGT" if alt != text[place]]
    options = {"window": WINDOW, "scores": ["llr"], "calibration": tmp_path / "table.json"}
    found = list(score_variants(masked_lm, rows, genome_text, **options))
    for one in found:
        context = text[one.pos - 3 : one.pos + 2]
        expected = one.scores["llr"] - table.means[f"{context}>{one.alt}"]
        assert one.scores["calibrated"] == pytest.approx(expected, abs=1e-6)
    # neutral sites themselves fill all percentiles
    shares = np.array([one.scores["percentile"] for one in found])
    assert 30 < shares.mean() < 70
    assert np.all((shares >= 0) & (shares <= 100))
    assert np.all(np.diff(shares[np.argsort([one.scores["calibrated"] for one in found])]) >= 0)


def test_a_context_without_sites_has_a_ratio_only(masked_lm, table):
    # two bases from the end there is no 5-mer
    rows = [("chr1", 1, "A", "C"), ("chr1", 5, "G", "C")]
    reference = {"chr1": "ACGTGTGTGGGGTTTTGGGG"}
    options = {"window": WINDOW, "calibration": table}
    found = list(score_variants(masked_lm, rows, reference, **options))
    assert "calibrated" not in found[0].scores
    assert "llr" in found[0].scores


def test_sites_are_drawn_evenly_and_where_they_may_lie(genome_text, tmp_path):
    reference = Reference(genome_text)
    everything = draw_sites(reference, 10**6)
    few = draw_sites(reference, 2, seed=5)
    counts = np.bincount(few.contexts, minlength=1024)
    assert np.array_equal(counts, np.minimum(everything.frequencies, 2))
    for contig, start, context in zip(few.contigs, few.starts, few.contexts, strict=True):
        assert genome_text[contig][start - 2 : start + 3] == name_context(context)
    assert not np.array_equal(few.starts, draw_sites(reference, 2, seed=6).starts)
    bed = tmp_path / "some.bed"
    bed.write_text("track name=x\n1\t100\t150\nchr1\t140\t200\nchr1\t300\t310\n")
    regions = read_regions(bed, reference)
    assert regions == {"chr1": [(100, 200), (300, 310)]}
    inside = draw_sites(reference, 10**6, regions=regions)
    outside = draw_sites(reference, 10**6, excluded=regions)
    assert sorted(inside.starts) == [*range(100, 200), *range(300, 310)]
    assert len(inside.starts) + len(outside.starts) == len(everything.starts)
    bed.write_text("chr9\t1\t2\n")
    with pytest.raises(ValueError, match="the reference has no 'chr9'"):
        read_regions(bed, reference)
    bed.write_text("chr1 one two\n")
    with pytest.raises(ValueError, match="line 1 is not a contig, a start and an end"):
        read_regions(bed, reference)


def test_quantiles_are_those_of_the_repeated_values():
    chance = np.random.default_rng(0)
    values, weights = chance.normal(size=500), chance.integers(1, 5, 500)
    found = weighted_quantiles(values, weights.astype(float), 101)
    expected = np.quantile(np.repeat(values, weights), np.linspace(0, 1, 101))
    assert np.abs(found - expected)[1:-1].max() < 0.1
    assert (found[0], found[-1]) == (values.min(), values.max())


def test_a_table_of_another_model_or_window_is_refused(masked_lm, genome_text, table, tmp_path):
    row = [("chr1", 5, genome_text["chr1"][4], "N")]
    with pytest.raises(ValueError, match="made with window=24, got window=16"):
        list(score_variants(masked_lm, row, genome_text, window=16, calibration=table))
    model = AutoModelForMaskedLM.from_pretrained(masked_lm)
    model.lm_head.bias.data += 1
    options = {"window": WINDOW, "calibration": table, "tokenizer": DnaTokenizer()}
    with pytest.raises(ValueError, match="made with other weights"):
        list(score_variants(model, row, genome_text, **options))
    with pytest.raises(ValueError, match="A calibration requires the score llr"):
        list(score_variants(masked_lm, row, genome_text, **options, scores=["distance"]))
    for content in ("{", "[]", "{}", '{"window": 3}'):
        (tmp_path / "a.json").write_text(content)
        with pytest.raises(ValueError, match=r"a.json is not a calibration of variants"):
            Calibration.load(tmp_path / "a.json")


def test_the_commands_make_and_use_a_table(masked_lm, genome, vcf, tmp_path, quiet):
    path = tmp_path / "table.json"
    done = run("calibrate", masked_lm, genome, "-o", path, "--window", WINDOW, "--sites", 1)
    assert "sites are in" in done.stdout
    content = json.loads(path.read_text())
    assert content["settings"]["sites"] == 1
    assert max(content["counts"].values()) == 1
    words = ("--window", WINDOW, "--scores", "llr", "--calibration", path)
    run("score-variants", masked_lm, vcf, "-r", genome, "-o", tmp_path / "out.vcf", *words)
    text = (tmp_path / "out.vcf").read_text()
    assert "##INFO=<ID=HFM_CALIBRATED,Number=A,Type=Float" in text
    assert ";HFM_PERCENTILE=" in text
    with pytest.raises(ValueError, match="is there already: --overwrite writes it again"):
        run("calibrate", masked_lm, genome, "-o", path)
    with pytest.raises(ValueError, match=r"must end in .json"):
        run("calibrate", masked_lm, genome, "-o", tmp_path / "table.txt")
    with pytest.raises(ValueError, match="sites=0 was given"):
        run("calibrate", masked_lm, genome, "-o", tmp_path / "b.json", "--sites", 0)
