"""The k-mer profile next to the pooled vector: counts, company, layouts, saving, export."""

import numpy as np
import pytest
import torch
from transformers import AutoConfig

from hf_mixers import DnaTokenizer
from hf_mixers.baselines.kmers import count_kmers
from hf_mixers.models.packing import Boundaries, pack_ragged, pack_static
from hf_mixers.models.words import KmerEncoder, kmer_profile, words_around
from tests.families import ROWS, every_family, flatten, one_family, pad, random_ids

LENGTHS = (40, 3, 1, 17, 300)
KMERS = {"kmer_size": 3, "kmer_hidden_size": 8}


def build(row, **changes):
    model = row.build("sequence_classification", **{"num_labels": 3, **KMERS, **changes})
    # what starts at zero would hide mistakes
    torch.nn.init.normal_(model.kmer_classifier.weight)
    return model


def sequences(lengths=LENGTHS):
    return [torch.randint(4, 10, (length,)) for length in lengths]


@every_family
@pytest.mark.parametrize(
    ("side", "changes"),
    [("left", {}), ("right", {}), ("left", {"kmer_phases": 3}), ("right", {"kmer_encoders": 2})],
)
def test_scores_do_not_depend_on_company(row, side, changes):
    model = build(row, **changes)
    given = sequences()
    alone = torch.cat([model(ids[None]).logits for ids in given])
    ids, mask = pad(given, side, width=310, content=5)
    padded = model(ids, attention_mask=mask).logits
    torch.testing.assert_close(padded, alone, atol=1e-5, rtol=1e-5)
    flat = model(**flatten(given)).logits
    torch.testing.assert_close(flat, alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("strands", ["given", "both"])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_profiles_equal_those_of_the_baseline(k, strands):
    texts = ["ACGTNACGGT", "GG", "A" * 30, "TTGCA" * 9]
    model = build(ROWS[0], kmer_size=k, kmer_strands=strands)
    ids = [torch.tensor(DnaTokenizer()(text)["input_ids"]) for text in texts]
    rows, mask = pad(ids)
    turned = [text[::-1].translate(str.maketrans("ACGT", "TGCA")) for text in texts]
    counts = count_kmers(texts, k, both_strands=False).toarray()
    if strands == "both":
        counts = counts + count_kmers(turned, k, both_strands=False).toarray()
    expected = np.sqrt(counts / np.maximum(counts.sum(1, keepdims=True), 1))
    for make in (pack_ragged, pack_static):
        pack = make([Boundaries(tuple(rows.shape), rows.device, mask == 1)])
        found = pack.restore(
            kmer_profile(pack.blank(pack.gather(rows.flatten())), pack, model.config)
        )
        torch.testing.assert_close(found, torch.from_numpy(expected).float())


def test_words_of_phases_are_counted_apart():
    texts = ["ATGGCNAAATGA", "GG", "ATGATGATGC"]
    config = ROWS[0].config(kmer_size=2, kmer_phases=3)
    assert config.num_kmers == 48
    expected = torch.zeros(3, 48)
    for row, text in enumerate(texts):
        for place in range(len(text) - 1):
            first, second = ("ACGT".find(letter) for letter in text[place : place + 2])
            if min(first, second) >= 0:
                expected[row, 16 * (place % 3) + 4 * first + second] += 1
    expected = (expected / expected.sum(1, keepdim=True)).sqrt()
    ids = [torch.tensor(DnaTokenizer()(text)["input_ids"]) for text in texts]
    rows, mask = pad(ids, "left")
    for make in (pack_ragged, pack_static):
        pack = make([Boundaries(tuple(rows.shape), rows.device, mask == 1)])
        found = kmer_profile(pack.blank(pack.gather(rows.flatten())), pack, config)
        torch.testing.assert_close(pack.restore(found), expected)


def test_encoders_side_by_side_are_each_as_one_alone():
    configs = [ROWS[0].config(**KMERS, kmer_encoders=count) for count in (3, 1)]
    assert configs[0].pooled_size - configs[1].pooled_size == 16
    several, alone = (KmerEncoder(config).eval() for config in configs)
    profile = torch.rand(5, configs[0].num_kmers)
    for number, part in enumerate(several(profile).chunk(3, 1)):
        for name, value in alone.state_dict().items():
            value.copy_(several.state_dict()[name].chunk(3)[number])
        torch.testing.assert_close(part, alone(profile))
    several(profile)[:, 8:16].sum().backward()
    for layer in (several.fc1, several.fc2):
        touched = [part.any().item() for part in layer.weight.grad.chunk(3)]
        assert touched == [False, True, False]


@every_family
def test_it_starts_at_zero_next_to_the_pooled_vector(row):
    model = row.build("sequence_classification", num_labels=3, **KMERS)
    assert not model.kmer_classifier.weight.any()
    ids = random_ids(2, 30)
    loss = model.train()(ids, labels=torch.tensor([0, 1])).loss
    loss.backward()
    for name, parameter in model.named_parameters():
        if "kmer" in name or name.startswith("classifier"):
            assert parameter.grad.abs().sum() > 0, name


def test_other_letters_can_be_counted():
    model = build(ROWS[0], letter_token_ids=[9, 4], kmer_size=2)
    rows = torch.tensor([[9, 9, 4, 5, 4, 9]])
    pack = pack_ragged([Boundaries((1, 6), rows.device)])
    # words 99, 94, 49, 44 in this order
    expected = torch.tensor([[1.0, 1.0, 1.0, 0.0]]).div(3).sqrt()
    torch.testing.assert_close(kmer_profile(rows[0], pack, model.config), expected)


@pytest.mark.slow
@one_family
def test_it_is_saved_compiled_and_exported(row, tmp_path):
    model = build(row, max_position_embeddings=16, num_hidden_layers=2, kmer_phases=3).eval()
    ids, mask = pad(sequences((40, 3, 17)))
    expected = model(ids, attention_mask=mask).logits
    model.save_pretrained(tmp_path)
    loaded = row.model_class("sequence_classification").from_pretrained(tmp_path).eval()
    torch.testing.assert_close(loaded(ids, attention_mask=mask).logits, expected)
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch.no_grad():
        found = compiled(input_ids=ids, attention_mask=mask).logits
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    batch, length = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("length", max=64)
    shapes = {name: {0: batch, 1: length} for name in ("input_ids", "attention_mask")}
    program = torch.export.export(
        model,
        (),
        {"input_ids": ids, "attention_mask": mask},
        dynamic_shapes=shapes,
        strict=False,
        prefer_deferred_runtime_asserts_over_guards=True,
    )
    ids, mask = pad(sequences((20, 8)))
    found = program.module()(input_ids=ids, attention_mask=mask).logits
    torch.testing.assert_close(found, model(ids, attention_mask=mask).logits, atol=1e-5, rtol=1e-5)


def test_a_checkpoint_that_counted_no_words_may_be_loaded_to_count_some(tmp_path):
    row = ROWS[0]
    row.build("sequence_classification").save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path, kmer_size=2)
    assert config.letter_token_ids == [5, 6, 7, 8]
    assert config.num_kmers == 16
    assert AutoConfig.from_pretrained(tmp_path).letter_token_ids is None


def test_what_cannot_be_counted_is_refused():
    row = ROWS[0]
    with pytest.raises(Exception, match="more than the 65536 words"):
        row.config(kmer_size=9)
    with pytest.raises(Exception, match="different ids below vocab_size"):
        row.config(kmer_size=2, letter_token_ids=[5, 5])
    with pytest.raises(Exception, match="kmer_size must be at least 1"):
        row.config(kmer_size=0)
    with pytest.raises(Exception, match="kmer_phases must be at least 1"):
        row.config(kmer_size=2, kmer_phases=0)
    with pytest.raises(Exception, match="kmer_encoders must be at least 1"):
        row.config(kmer_size=2, kmer_encoders=0)
    with pytest.raises(Exception, match="needs kmer_phases=1 and an even number"):
        row.config(kmer_size=2, kmer_strands="both", kmer_phases=3)
    with pytest.raises(Exception, match="needs kmer_phases=1 and an even number"):
        row.config(kmer_size=2, kmer_strands="both", letter_token_ids=[5, 6, 7])
    with pytest.raises(Exception, match="kmer_size needs token input"):
        row.build("sequence_classification", kmer_size=2, input_features=3)
    with pytest.raises(ValueError, match="reads input_ids, got embeddings"):
        build(row)(inputs_embeds=torch.zeros(1, 5, row.config().hidden_size))


@every_family
@pytest.mark.parametrize("side", ["left", "right"])
def test_words_around_tokens_do_not_depend_on_company(row, side):
    model = row.build(ngram_size=4)
    given = sequences()
    alone = torch.cat([model(ids[None]).pooler_output for ids in given])
    ids, mask = pad(given, side, width=310, content=5)
    padded = model(ids, attention_mask=mask).pooler_output
    torch.testing.assert_close(padded, alone, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model(**flatten(given)).pooler_output, alone, atol=1e-5, rtol=1e-5)


def test_words_around_tokens_are_those_of_a_loop():
    config = ROWS[0].config(ngram_size=3)
    rows, mask = pad([torch.tensor([5, 6, 4, 8]), torch.tensor([7])])
    letters = {5: 0, 6: 1, 7: 2, 8: 3}

    def word(ids, place):
        around = [ids[p] if 0 <= p < len(ids) else -1 for p in (place - 1, place, place + 1)]
        a, b, c = (letters.get(letter, 4) for letter in around)
        return 25 * a + 5 * b + c

    expected = [word([5, 6, 4, 8], place) for place in range(4)], [word([7], 0)]
    for make in (pack_ragged, pack_static):
        pack = make([Boundaries(tuple(rows.shape), rows.device, mask == 1)])
        found = words_around(pack.blank(pack.gather(rows.flatten())), pack, config)
        found = pack.unpack(found).view(2, 4)
        assert found[0].tolist() == expected[0]
        assert found[1, :1].tolist() == expected[1]


def test_words_around_tokens_need_ids():
    model = ROWS[0].build(ngram_size=3)
    with pytest.raises(ValueError, match="ngram_size reads input_ids"):
        model(inputs_embeds=torch.zeros(1, 5, model.config.hidden_size))
