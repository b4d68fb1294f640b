"""Examples that are changed by chance: how often, anew in each epoch, and not in evaluation."""

import numpy as np
import pytest
import torch

from hf_mixers import DnaTokenizer, reverse_complement
from hf_mixers.data import FlatCollator, MaskedLMCollator, StrandCollator, TokenDropoutCollator
from tests.data.test_collators import examples


def test_strands_are_turned_by_chance_anew_in_each_epoch_and_never_for_evaluation():
    batch = examples(*[30] * 200)
    plain = FlatCollator()(batch)["input_ids"].view(200, 30)
    collator = StrandCollator(FlatCollator())

    def turned(epoch):
        collator.set_epoch(epoch)
        ids = collator(batch)["input_ids"].view(200, 30)
        changed = (ids != plain).any(1)
        assert torch.equal(ids[changed], reverse_complement(plain[changed]))
        return changed

    first = turned(0)
    assert first.float().mean() == pytest.approx(0.5, abs=0.1)
    assert torch.equal(first, turned(0))
    assert not torch.equal(first, turned(1))
    assert collator.for_evaluation() is collator.collator


def test_tokens_are_hidden_anew_in_each_epoch_and_never_special_ones():
    tokenizer = DnaTokenizer()
    batch = examples(3000, labels=1)
    batch[0]["input_ids"][:20] = tokenizer.cls_token_id
    plain = torch.tensor(batch[0]["input_ids"].astype(np.int64))
    collator = TokenDropoutCollator(FlatCollator(), tokenizer, probability=0.2)

    def hidden(epoch):
        collator.set_epoch(epoch)
        made = collator(batch)
        assert made["labels"].tolist() == [1]
        changed = made["input_ids"][0] != plain
        assert set(made["input_ids"][0][changed].tolist()) == {tokenizer.mask_token_id}
        return changed

    first = hidden(0)
    assert not first[:20].any()
    assert first[20:].float().mean() == pytest.approx(0.2, abs=0.03)
    assert torch.equal(first, hidden(0))
    assert not torch.equal(first, hidden(1))
    assert torch.equal(torch.tensor(batch[0]["input_ids"].astype(np.int64)), plain)


def test_augmentations_can_be_combined():
    plain = FlatCollator()
    both = StrandCollator(TokenDropoutCollator(plain, DnaTokenizer(), 0.5), probability=1)
    both.set_epoch(3)
    assert both.collator.epoch == 3
    assert both.for_evaluation() is plain
    ids = both(examples(400))["input_ids"][0]
    turned = reverse_complement(torch.tensor(examples(400)[0]["input_ids"].astype(np.int64)))
    seen = ids != DnaTokenizer().mask_token_id
    assert 100 < seen.sum() < 300
    assert torch.equal(ids[seen], turned[seen])


def test_collators_inside_hear_of_the_epoch():
    collator = StrandCollator(MaskedLMCollator(FlatCollator(), DnaTokenizer()))
    collator.set_epoch(3)
    assert collator.collator.epoch == 3
    judge = collator.for_evaluation()
    assert isinstance(judge, MaskedLMCollator)
    assert judge.epoch == 0, "all evaluations have the same masks"
    assert collator.collator.epoch == 3


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match=r"probability must lie in \[0, 1\], got 1.5"):
        TokenDropoutCollator(FlatCollator(), DnaTokenizer(), 1.5)
    without = DnaTokenizer()
    without.mask_token = None
    with pytest.raises(ValueError, match="DnaTokenizer has no mask token"):
        TokenDropoutCollator(FlatCollator(), without)
