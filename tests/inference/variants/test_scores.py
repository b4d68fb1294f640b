"""Scores equal brute force, whatever the batch, the notation of a variant or the strand."""

import pytest
from transformers import AutoModelForMaskedLM, BertConfig, BertForMaskedLM

from hf_mixers import DnaTokenizer
from hf_mixers.inference import score_variants
from tests.inference.variants.brute_force import score, shorten
from tests.inference.variants.made import SIZES, WINDOW


@pytest.fixture(scope="module")
def model(masked_lm):
    return AutoModelForMaskedLM.from_pretrained(masked_lm).eval()


def run(model, variants, reference, **options):
    options = {"window": WINDOW, "tokenizer": DnaTokenizer(), **options}
    return list(score_variants(model, variants, reference, **options))


@pytest.mark.parametrize("count", [25, pytest.param(200, marks=pytest.mark.slow)])
def test_scores_of_all_kinds_equal_brute_force(count, model, variants, reference, genome):
    variants = variants[:count]
    found = run(model, variants, genome, passes=2, token_budget=1500)
    assert len(found) == len(variants)
    kinds = set()
    for one, variant in zip(found, variants, strict=True):
        assert (one.chrom, one.pos, one.ref, one.alt) == variant
        assert one.reason == ""
        expected = score(model, reference, variant, WINDOW, passes=2)
        assert one.scores == pytest.approx(expected, abs=2e-5), variant
        kinds.add(one.kind)
    assert kinds == {"snv", "mnv", "insertion", "deletion", "indel"}


def test_one_mask_at_a_time_is_the_exact_pseudo_likelihood(model, variants, reference):
    chosen = [one for one in variants if one.chrom == "short"][:2]
    found = run(model, chosen, reference, passes=0, scores=["pllr", "distance"], window=12)
    for one, variant in zip(found, chosen, strict=True):
        expected = score(model, reference, variant, 12, passes=0)
        kept = {name: expected[name] for name in expected if name.startswith(("pllr", "dist"))}
        assert one.scores == pytest.approx(kept, abs=2e-5)


@pytest.mark.slow
def test_scores_do_not_depend_on_batch_shard_or_notation(model, variants, reference):
    chosen = variants[:20]
    whole = run(model, chosen, reference, passes=2)
    for budget in (1, 333):
        again = run(model, chosen, reference, passes=2, token_budget=budget)
        for one, other in zip(whole, again, strict=True):
            assert one.scores == pytest.approx(other.scores, abs=1e-5)
    parts = [run(model, chosen, reference, passes=2, shard=(index, 3)) for index in range(3)]
    for index, part in enumerate(parts):
        assert [one.pos for one in part] == [one.pos for one in whole[index::3]]
    # with a base more on either side
    padded = []
    for one in chosen:
        text = reference[one.chrom].upper()
        left, right = text[: one.pos - 1][-1:], text[one.pos - 1 + len(one.ref) :][:1]
        row = (one.chrom, one.pos - len(left), left + one.ref + right, left + one.alt + right)
        padded.append(dict(zip(("chrom", "pos", "ref", "alt"), row, strict=True)))
    for one, other in zip(whole, run(model, padded, reference, passes=2), strict=True):
        # the bases that both alleles share may be placed before or behind the change
        if len(shorten(one.pos, one.ref, one.alt)[1]) == len(one.ref):
            assert one.scores == pytest.approx(other.scores, abs=1e-5)


def test_a_reference_on_the_other_strand_gives_the_same_means(model, variants, reference):
    from tests.inference.variants.brute_force import turn

    chosen = [one for one in variants if len(one.ref) == len(one.alt) == 1][:10]
    turned = {name: turn(text.upper()) for name, text in reference.items()}
    # an odd window has the site in its middle on both strands
    options = {"window": 23, "scores": ["llr", "distance"]}
    mirrored = [
        (one.chrom, SIZES[one.chrom] - one.pos + 1, turn(one.ref), turn(one.alt)) for one in chosen
    ]
    first = run(model, chosen, reference, **options)
    second = run(model, mirrored, turned, **options)
    for one, other in zip(first, second, strict=True):
        assert one.scores["llr"] == pytest.approx(other.scores["llr"], abs=1e-5)
        assert one.scores["llr_forward"] == pytest.approx(other.scores["llr_reverse"], abs=1e-5)
        assert one.scores["distance"] == pytest.approx(other.scores["distance"], abs=1e-5)


def test_models_with_padding_give_the_same_in_any_batch(variants, reference):
    settings = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = BertForMaskedLM(BertConfig(vocab_size=20, hidden_size=8, **settings)).eval()
    alone = run(model, variants[:10], reference, passes=2, token_budget=1)
    together = run(model, variants[:10], reference, passes=2)
    for one, other in zip(alone, together, strict=True):
        assert one.scores == pytest.approx(other.scores, abs=1e-5)
    with pytest.raises(ValueError, match="window=600 was given: the model accepts 1 to 512"):
        run(model, variants[:1], reference, window=600)


def test_tokens_around_the_window_do_not_move_the_site(model, reference, variants):
    snv = next(one for one in variants if len(one.ref) == len(one.alt) == 1)
    plain = run(model, [snv], reference)[0].scores
    marked = run(model, [snv], reference, tokenizer=DnaTokenizer(add_cls=True, add_sep=True))[0]
    # other numbers, but still those of the same two bases
    assert marked.scores["llr"] != pytest.approx(plain["llr"], abs=1e-7)
    assert marked.scores["llr"] == pytest.approx(
        (marked.scores["llr_forward"] + marked.scores["llr_reverse"]) / 2
    )


def test_wrong_settings_are_named(model, masked_lm, classifier, reference, variants):
    for options, message in (
        ({"scores": ["sum"]}, "scores must be of llr, pllr, distance, got 'sum'"),
        ({"scores": []}, "scores must be of llr, pllr, distance, got 'none'"),
        ({"passes": -1}, "passes=-1 was given"),
        ({"window": 0}, "window=0 was given: the model accepts"),
        ({"shard": (2, 2)}, "shard=2/2 was given"),
        ({"colour": "red"}, "colour is not an option of score_variants"),
    ):
        with pytest.raises(ValueError, match=message):
            run(model, variants[:1], reference, **options)
    with pytest.raises(ValueError, match="cannot predict masked tokens: it holds ChordMixerForSeq"):
        list(score_variants(classifier, variants[:1], reference))
    with pytest.raises(ValueError, match=r"The reference nowhere.fa is not a file"):
        list(score_variants(masked_lm, variants[:1], "nowhere.fa"))
    with pytest.raises(ValueError, match="Variant 1 is str"):
        run(model, ["chr1"], reference)
