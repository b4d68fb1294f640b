"""Noise on the embeddings (NEFTune): its size is that of each sequence alone."""

import pytest
import torch
from transformers import Trainer, TrainingArguments
from transformers.integrations.neftune import activate_neftune, deactivate_neftune

from hf_mixers.data import FlatCollator
from tests.families import every_family, every_head, example_inputs, flatten, one_family, random_ids


@every_family
@every_head
def test_noise_goes_through_every_head(row, head):
    model = row.build(head).train()
    inputs = example_inputs(head)
    plain = model(**inputs)[0]
    handle = activate_neftune(model, 5.0)
    noisy = model(**inputs)[0]
    assert noisy.isfinite().all()
    assert not torch.allclose(noisy, plain)
    noisy.sum().backward()
    assert model.get_input_embeddings().weight.grad.any()
    # evaluation has no noise, and training none once it is switched off
    torch.testing.assert_close(model.eval()(**inputs)[0], row.build(head)(**inputs)[0])
    deactivate_neftune(model, handle)
    torch.testing.assert_close(model.train()(**inputs)[0], plain)


@every_family
def test_noise_depends_on_the_length_of_a_sequence_and_not_on_its_company(row):
    model = row.build().train()
    lengths, alpha = (400, 25, 100), 3.0
    inputs = flatten([random_ids(n) for n in lengths])
    clean = model(**inputs, output_hidden_states=True).hidden_states[0][0]
    activate_neftune(model, alpha)
    noisy = model(**inputs, output_hidden_states=True).hidden_states[0][0]
    for noise, length in zip((noisy - clean).split(lengths), lengths, strict=True):
        bound = alpha / (length * noise.shape[1]) ** 0.5
        assert noise.abs().max() <= bound * 1.001
        assert noise.abs().max() > 0.95 * bound
        assert noise.mean().abs() < 0.1 * bound


@one_family
@pytest.mark.parametrize("features", [None, 3])
def test_the_trainer_adds_noise_and_takes_it_away(row, features, tmp_path):
    def example(number):
        if features is None:
            return {"input_ids": random_ids(7), "labels": number % 2}
        return {"input_values": torch.randn(7, features), "labels": number % 2}

    trainer = Trainer(
        row.build("sequence_classification", input_features=features),
        TrainingArguments(
            str(tmp_path), neftune_noise_alpha=5, max_steps=2, use_cpu=True, report_to="none"
        ),
        train_dataset=[example(number) for number in range(8)],
        data_collator=FlatCollator(),
    )
    assert trainer.train().training_loss > 0
    embedding = trainer.model.get_input_embeddings()
    assert not embedding._forward_hooks
    assert not hasattr(embedding, "neftune_noise_alpha")
