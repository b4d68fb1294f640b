"""Generation: the cache gives what the whole prefix gives, for every pattern that has one."""

import pytest
import torch
from transformers import pipeline
from transformers.utils import logging

from hf_mixers import CombinerForCausalLM, DnaTokenizer
from hf_mixers.models.cache_combiner import CombinerCache
from tests.families import find_row, pad, random_ids

ROW = find_row("combiner")
CACHED = {
    "fixed": {},
    "fixed, means": {"span_pool": "mean"},
    "fixed, deep sets, learned positions": {
        "span_pool": "deepset",
        "position_embedding_type": "absolute",
        "max_position_embeddings": 64,
    },
    "fixed, local only": {"use_summaries": False},
    "fixed, token types": {"type_vocab_size": 2},
    "logsparse": {"pattern": "logsparse"},
    "logsparse, deep sets": {"pattern": "logsparse", "span_pool": "deepset"},
    **{
        f"rowmajor, {kind}": {"pattern": "axial_rowmajor", "row_summary": kind}
        for kind in ("none", "wsum", "proj", "wsum_proj")
    },
    "rowmajor, local only": {"pattern": "axial_rowmajor", "use_summaries": False},
}
UNCACHED = {
    "mixture": {"pattern": "axial_mixture"},
    "learnable": {"pattern": "learnable", "num_clusters": 3},
}
every_cache = pytest.mark.parametrize("changes", CACHED.values(), ids=CACHED)
every_case = pytest.mark.parametrize(
    "changes", [*CACHED.values(), *UNCACHED.values()], ids=[*CACHED, *UNCACHED]
)


def build(**changes):
    torch.manual_seed(0)
    settings = {"causal": True, "segment_length": 4, "position_embedding_type": "sinusoidal"}
    return CombinerForCausalLM(ROW.config(**{**settings, **changes})).eval()


def batch():
    """Prompts of several lengths, padded on the left."""
    torch.manual_seed(1)
    return pad([random_ids(n) for n in (11, 4, 1, 8)], "left")


def run_whole(model, sequences):
    """Logits of the last token of each sequence alone."""
    with torch.no_grad():
        return torch.stack([model(ids[None]).logits[0, -1] for ids in sequences])


@every_cache
def test_every_step_equals_the_whole_prefix(changes):
    model = build(**changes)
    ids, mask = batch()
    sequences = [row[keep == 1] for row, keep in zip(ids, mask, strict=True)]
    cache = CombinerCache(model.config)
    with torch.no_grad():
        model(ids, attention_mask=mask, past_key_values=cache)
    assert cache.get_seq_length() == 11
    # enough for segments to end, and for several of them
    for number in range(19):
        new = random_ids(4, 1)
        mask = torch.cat([mask, torch.ones_like(new)], 1)
        sequences = [torch.cat(pair) for pair in zip(sequences, new, strict=True)]
        with torch.no_grad():
            logits = model(new, attention_mask=mask, past_key_values=cache).logits[:, -1]
        torch.testing.assert_close(logits, run_whole(model, sequences), atol=1e-5, rtol=1e-4)
        assert cache.get_seq_length() == 12 + number
    assert cache.lengths == [len(ids) for ids in sequences]


@every_cache
def test_several_tokens_may_follow_a_cache(changes):
    model = build(**changes)
    whole = random_ids(3, 25)
    with torch.no_grad():
        expected = model(whole).logits
        first = model(whole[:, :6], use_cache=True)
        cache = first.past_key_values
        second = model(whole[:, 6:], past_key_values=cache)
    together = torch.cat([first.logits, second.logits], 1)
    torch.testing.assert_close(together, expected, atol=1e-5, rtol=1e-4)


@every_cache
def test_caches_can_be_reordered_repeated_and_begun_again(changes):
    model = build(**changes)
    ids, mask = batch()
    sequences = [row[keep == 1] for row, keep in zip(ids, mask, strict=True)]
    new = random_ids(4, 1)

    def last(cache, order):
        grown = torch.cat([mask, torch.ones_like(new)], 1)[order]
        with torch.no_grad():
            return model(new[order], attention_mask=grown, past_key_values=cache).logits[:, -1]

    expected = run_whole(model, [torch.cat(pair) for pair in zip(sequences, new, strict=True)])
    for change, order in (
        (lambda c: c.reorder_cache(torch.tensor([3, 3, 0, 1])), [3, 3, 0, 1]),
        (lambda c: c.batch_repeat_interleave(2), [0, 0, 1, 1, 2, 2, 3, 3]),
        (lambda c: c.batch_select_indices(torch.tensor([2])), [2]),
    ):
        cache = CombinerCache(model.config)
        with torch.no_grad():
            model(ids, attention_mask=mask, past_key_values=cache)
        change(cache)
        torch.testing.assert_close(last(cache, order), expected[order], atol=1e-5, rtol=1e-4)
    cache.reset()
    assert cache.get_seq_length() == 0
    with torch.no_grad():
        again = model(ids, attention_mask=mask, past_key_values=cache)
        plain = model(ids, attention_mask=mask)
    torch.testing.assert_close(again.logits, plain.logits)


def without_cache(model, ids, mask, **settings):
    torch.manual_seed(3)
    return model.generate(ids, attention_mask=mask, max_new_tokens=9, use_cache=False, **settings)


@every_case
@pytest.mark.parametrize(
    "settings",
    [
        {"do_sample": False},
        {"do_sample": True, "temperature": 0.7, "top_k": 5},
        {"do_sample": False, "num_beams": 3},
        {"do_sample": True, "num_beams": 2, "num_return_sequences": 2},
    ],
    ids=["greedy", "sampling", "beams", "sampled beams"],
)
def test_generation_equals_that_without_a_cache(changes, settings):
    model = build(**changes)
    ids, mask = batch()
    torch.manual_seed(3)
    cached = model.generate(ids, attention_mask=mask, max_new_tokens=9, **settings)
    assert torch.equal(cached, without_cache(model, ids, mask, **settings))


def test_greedy_generation_is_the_most_likely_next_token_of_each_sequence_alone():
    model = build()
    ids, mask = batch()
    together = model.generate(ids, attention_mask=mask, max_new_tokens=7, do_sample=False)
    for row, keep, answer in zip(ids, mask, together, strict=True):
        sequence = row[keep == 1]
        for token in answer[ids.shape[1] :]:
            assert run_whole(model, [sequence]).argmax() == token
            sequence = torch.cat([sequence, token[None]])


def test_generation_goes_on_from_a_cache_and_from_embeddings():
    model = build()
    ids = random_ids(2, 6)
    plain = model.generate(ids, max_new_tokens=8, do_sample=False)
    first = model.generate(ids, max_new_tokens=3, do_sample=False, return_dict_in_generate=True)
    second = model.generate(
        first.sequences, past_key_values=first.past_key_values, max_new_tokens=5, do_sample=False
    )
    assert torch.equal(second, plain)
    embedded = model.get_input_embeddings()(ids)
    answer = model.generate(inputs_embeds=embedded, max_new_tokens=8, do_sample=False)
    assert torch.equal(answer, plain[:, 6:])
    with pytest.raises(ValueError, match="inputs_embeds need a cache"):
        build(pattern="axial_vertical").generate(inputs_embeds=embedded, max_new_tokens=8)


def test_patterns_without_a_cache_say_so_once(caplog):
    name = "hf_mixers.models.modeling_combiner"
    logging.get_logger(name).warning_once.cache_clear()
    logging.enable_propagation()
    try:
        model = build(pattern="axial_vertical")
        for _ in range(2):
            model.generate(random_ids(1, 5), max_new_tokens=3, do_sample=False)
    finally:
        logging.disable_propagation()
    assert sum("has no cache" in record.message for record in caplog.records) == 1
    with pytest.raises(ValueError, match="got pattern='axial_vertical', causal=True"):
        CombinerCache(model.config)


def test_a_step_reads_no_more_than_its_pattern_promises():
    # tokens and summaries of the cache that a step at position 63 attends to
    seen = []
    from hf_mixers.models import cache_combiner

    plain = cache_combiner.attend_one

    def watch(query, keys, values, mask):
        seen.append(keys.shape[2])
        return plain(query, keys, values, mask)

    wanted = {"fixed": 8 + 7, "axial_rowmajor": 8 + 7, "logsparse": 1 + 6}
    for pattern, count in wanted.items():
        model = build(pattern=pattern, segment_length=8, num_hidden_layers=1)
        cache = CombinerCache(model.config)
        model(random_ids(1, 63), past_key_values=cache)
        seen.clear()
        cache_combiner.attend_one = watch
        try:
            model(random_ids(1, 1), past_key_values=cache)
        finally:
            cache_combiner.attend_one = plain
        assert seen == [count]


def test_caches_are_checked():
    model = build()
    cache = model(random_ids(2, 5), use_cache=True).past_key_values
    with pytest.raises(ValueError, match="past_key_values hold 2 sequences, got 1"):
        model(random_ids(1, 1), past_key_values=cache)
    ones = torch.ones(2, 3, dtype=torch.long)
    with pytest.raises(ValueError, match=r"attention_mask must have shape \(2, 6\), of 5 columns"):
        model(random_ids(2, 1), attention_mask=ones, past_key_values=cache)
    with pytest.raises(ValueError, match="past_key_values must be a CombinerCache, got dict"):
        model(random_ids(2, 1), past_key_values={})
    single = model(random_ids(1, 5), use_cache=True).past_key_values
    with pytest.raises(ValueError, match="cu_seq_lens_q is for sequences from their beginning"):
        model(random_ids(1, 2), past_key_values=single, cu_seq_lens_q=torch.tensor([0, 2]))


def test_learned_positions_end_generation_too():
    model = build(position_embedding_type="absolute", max_position_embeddings=8)
    with pytest.raises(ValueError, match="learned positions for 8"):
        model.generate(random_ids(1, 6), max_new_tokens=4, do_sample=False)


def test_dna_models_generate_bases_in_the_pipeline(tmp_path):
    tokenizer = DnaTokenizer(padding_side="left")
    build(vocab_size=len(tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    write = pipeline("text-generation", str(tmp_path))
    texts = ["ACGTACGT", "GG", "ACGNT"]
    suppressed = [i for i in range(len(tokenizer)) if i not in (5, 6, 7, 8)]
    settings = {"max_new_tokens": 6, "do_sample": False, "suppress_tokens": suppressed}
    together = write(texts, batch_size=3, **settings)
    for text, answer in zip(texts, together, strict=True):
        written = answer[0]["generated_text"].replace(" ", "")
        assert written.startswith(text)
        assert set(written[len(text) :]) <= set("ACGT")
        assert len(written) == len(text) + 6
        assert write(text, **settings)[0]["generated_text"].replace(" ", "") == written
