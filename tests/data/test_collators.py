"""Collators: both layouts give the model the same sequences, and masking follows its rules."""

import numpy as np
import pytest
import torch

from hf_mixers import (
    ByteTokenizer,
    ChordMixerConfig,
    ChordMixerForMaskedLM,
    DnaTokenizer,
)
from hf_mixers import ChordMixerForSequencePairClassification as PairModel
from hf_mixers.data.collators import (
    FlatCollator,
    MaskedLMCollator,
    PaddedCollator,
)

COLLATORS = [PaddedCollator(), PaddedCollator(padding_side="left"), FlatCollator()]


def examples(*lengths: int, **extra):
    generator = np.random.default_rng(0)
    return [{"input_ids": generator.integers(5, 9, n).astype(np.uint8), **extra} for n in lengths]


@pytest.mark.parametrize("kind", ["array", "list", "tensor"])
def test_ids_of_any_kind_become_long_tensors(kind):
    batch = examples(3, 5)
    for example in batch:
        ids = example["input_ids"]
        example["input_ids"] = {"array": ids, "list": ids.tolist(), "tensor": torch.tensor(ids)}[
            kind
        ]
    for collator in COLLATORS:
        assert collator(batch)["input_ids"].dtype == torch.long


def test_all_layouts_give_the_same_answer():
    model = PairModel(ChordMixerConfig(max_position_embeddings=64, num_tasks=3)).eval()
    first, second = examples(9, 4, 20), examples(3, 30, 7)
    batch = [
        {**a, "input_ids_2": b["input_ids"], "task_ids": i, "labels": i % 2}
        for i, (a, b) in enumerate(zip(first, second, strict=True))
    ]
    losses = [model(**collator(batch)).loss for collator in COLLATORS]
    torch.testing.assert_close(losses[1], losses[0])
    torch.testing.assert_close(losses[2], losses[0])


def test_labels_come_first_and_keep_their_kind():
    for collator in COLLATORS:
        batch = collator(examples(3, 5, labels=1))
        assert next(iter(batch)) == "labels"
        assert batch["labels"].tolist() == [1, 1]
        assert batch["labels"].dtype == torch.long
        several = collator(examples(3, labels=[0.0, 1.0, 1.0]))
        assert several["labels"].tolist() == [[0, 1, 1]]
        assert several["labels"].dtype == torch.float32


def test_names_that_no_model_takes_are_left_out():
    batch = FlatCollator()(examples(3, id="seq1", length=3))
    assert set(batch) == {"input_ids", "cu_seq_lens_q", "max_length_q"}


def test_continuous_input_is_laid_out_too():
    batch = [{"input_values": np.ones((n, 2))} for n in (3, 1)]
    flat, padded = FlatCollator()(batch), PaddedCollator()(batch)
    assert flat["input_values"].shape == (1, 4, 2)
    assert padded["input_values"].shape == (2, 3, 2)
    assert padded["input_values"].dtype == torch.float32
    assert padded["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]


def test_labels_of_tokens_are_laid_out_like_tokens():
    batch = [{"input_ids": [5, 6, 7], "labels": [0, 1, 0]}, {"input_ids": [8], "labels": [1]}]
    assert FlatCollator(token_labels=True)(batch)["labels"].tolist() == [[0, 1, 0, 1]]
    padded = PaddedCollator(token_labels=True)(batch)["labels"]
    assert padded.tolist() == [[0, 1, 0], [1, -100, -100]]
    batch[1]["labels"] = [1, 1]
    with pytest.raises(ValueError, match="Example 1 has 2 labels for 1 tokens"):
        FlatCollator(token_labels=True)(batch)


def test_examples_that_lack_something_are_refused():
    with pytest.raises(ValueError, match="Every example needs labels, example 1 has none"):
        FlatCollator()([*examples(3, labels=1), *examples(4)])
    with pytest.raises(ValueError, match="at least one example"):
        FlatCollator()([])
    with pytest.raises(ValueError, match="padding_side must be 'left' or 'right', got 'top'"):
        PaddedCollator(padding_side="top")


@pytest.mark.parametrize("collator", [PaddedCollator(), FlatCollator()])
def test_masking_hides_as_many_tokens_and_in_the_ways_it_should(collator):
    tokenizer = DnaTokenizer(add_cls=True, add_sep=True)
    sequences = ["ACGTN" * 4000, "ACGT" * 3000]
    batch = [{"input_ids": tokenizer(s, return_tensors="np").input_ids[0]} for s in sequences]
    plain = collator(batch)["input_ids"]
    masked = MaskedLMCollator(collator, tokenizer)(batch)
    ids, labels = masked["input_ids"], masked["labels"]
    bases = (plain >= 5) & (plain <= 8)
    chosen = labels != -100
    assert not (chosen & ~bases).any(), "special tokens, padding and N are never chosen"
    assert torch.equal(labels[chosen], plain[chosen])
    assert torch.equal(ids[~chosen], plain[~chosen])
    assert chosen.sum() / bases.sum() == pytest.approx(0.3, abs=0.02)
    hidden = ids[chosen] == tokenizer.mask_token_id
    kept = ids[chosen] == plain[chosen]
    assert hidden.float().mean() == pytest.approx(0.8, abs=0.02)
    # a random base is the right one in a quarter of the cases
    assert kept.float().mean() == pytest.approx(0.1 + 0.1 / 4, abs=0.02)
    assert set(ids[chosen].tolist()) == {4, 5, 6, 7, 8}


def test_masks_depend_on_seed_epoch_and_content_alone():
    tokenizer, batch = DnaTokenizer(), examples(200, 300)

    def masked(seed=0, epoch=0, collator=None):
        collator = collator or MaskedLMCollator(FlatCollator(), tokenizer, seed=seed)
        collator.set_epoch(epoch)
        return collator(batch)["input_ids"]

    used = MaskedLMCollator(FlatCollator(), tokenizer)
    for _ in range(3):
        used(examples(50))
    torch.rand(7)
    assert torch.equal(masked(), masked(collator=used))
    assert not torch.equal(masked(), masked(epoch=1))
    assert not torch.equal(masked(), masked(seed=1))


def test_other_vocabularies_hide_anything_but_special_tokens():
    collator = MaskedLMCollator(FlatCollator(), ByteTokenizer(), mask_probability=1.0)
    assert collator.maskable_ids.tolist() == list(range(5, 261))
    batch = collator([{"input_ids": ByteTokenizer()("héllo").input_ids}])
    assert (batch["labels"] != -100).all()


def test_the_two_layouts_train_on_the_same_loss_when_masked_alike():
    model = ChordMixerForMaskedLM(ChordMixerConfig(max_position_embeddings=64)).train()
    batch = MaskedLMCollator(PaddedCollator(), DnaTokenizer())(examples(40, 9, 25))
    mask = batch["attention_mask"] == 1
    lengths = mask.sum(1)
    flat = {
        "input_ids": batch["input_ids"][mask][None],
        "labels": batch["labels"][mask][None],
        "cu_seq_lens_q": torch.cat([torch.tensor([0]), lengths.cumsum(0)]),
    }
    torch.testing.assert_close(model(**flat).loss, model(**batch).loss)


def find_runs(hidden):
    """First and length of every run of hidden tokens."""
    edges = np.flatnonzero(np.diff(np.r_[0, hidden, 0]))
    return list(zip(edges[::2].tolist(), (edges[1::2] - edges[::2]).tolist(), strict=True))


@pytest.mark.parametrize("layout", ["flat", "padded", "left"])
@pytest.mark.parametrize("add_cls", [False, True])
@pytest.mark.parametrize(
    ("span", "frame"), [(3, 3), (3, 1), ((2, 6), 1), ((3, 9), 3), (6, 3), (1, 1)]
)
def test_tokens_are_hidden_in_runs(layout, add_cls, span, frame):
    chance = np.random.default_rng(0)
    lengths = chance.integers(1, 400, size=200)
    tokenizer = DnaTokenizer(add_cls=add_cls)
    ids = [chance.integers(5, 9, size=length) for length in lengths]
    extra = [tokenizer.cls_token_id] * add_cls
    examples = [{"input_ids": np.r_[extra, own].astype(int)} for own in ids]
    collator = FlatCollator()
    if layout != "flat":
        collator = PaddedCollator(padding_side="left" if layout == "left" else "right")
    masking = MaskedLMCollator(collator, tokenizer, mask_span=span, mask_frame=frame)
    labels = masking(examples)["labels"]
    rows = labels[0].split((lengths + add_cls).tolist()) if layout == "flat" else labels
    if layout == "left":
        rows = [row[-length:] for row, length in zip(rows, lengths + add_cls, strict=True)]
    assert not any((row[: len(extra)] != -100).any() for row in rows)
    # without [CLS]
    rows = [row[len(extra) :] for row in rows]
    rows = [row[:length].numpy() != -100 for row, length in zip(rows, lengths, strict=True)]
    # the first tokens of a sequence are reached by fewer runs
    inner = np.concatenate([row[8:] for row in rows])
    assert inner.mean() == pytest.approx(0.3, abs=0.02)
    low, high = span if isinstance(span, tuple) else (span, span)
    counts = set()
    for row in rows:
        for first, length in find_runs(row):
            assert first % frame == 0
            # runs end early at the end of a sequence, and are longer where they touch
            if first + length < len(row):
                assert length >= low
                assert length % frame == 0
                counts.add(length)
    assert set(range(low, high + 1, frame)) <= counts
    single = MaskedLMCollator(collator, tokenizer)(examples)["labels"]
    assert torch.equal(single, masking.for_evaluation()(examples)["labels"])


def test_impossible_masking_is_refused():
    with pytest.raises(ValueError, match="One number or two are accepted as bounds, got"):
        MaskedLMCollator(FlatCollator(), DnaTokenizer(), mask_span=[3])
    for span, frame in ((0, 1), (4, 3), ((3, 4), 3), ((6, 3), 3), (2, 0)):
        with pytest.raises(ValueError, match=rf"mask_span must .* multiples of mask_frame={frame}"):
            MaskedLMCollator(FlatCollator(), DnaTokenizer(), mask_span=span, mask_frame=frame)
    with pytest.raises(ValueError, match=r"must lie in \(0, 1\], got 0"):
        MaskedLMCollator(FlatCollator(), DnaTokenizer(), mask_probability=0)
    tokenizer = DnaTokenizer()
    tokenizer.mask_token = None
    with pytest.raises(ValueError, match="DnaTokenizer has no mask token"):
        MaskedLMCollator(FlatCollator(), tokenizer)
