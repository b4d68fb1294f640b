"""`MixerTrainer` on the device: whole steps wait for nothing but the checks of the border."""

import pytest
import torch
from accelerate.state import AcceleratorState
from transformers import TrainerCallback

from hf_mixers import CombinerForCausalLM, DnaTokenizer, MixerTrainer, MixerTrainingArguments
from hf_mixers.data import (
    CausalLMCollator,
    FlatCollator,
    MaskedLMCollator,
    PaddedCollator,
    StrandCollator,
    TokenDropoutCollator,
)
from hf_mixers.training.finite import LossWatch
from tests.accelerator import NAME, Watch, fetch, put
from tests.families import every_family, find_row

SEQUENCES = ["ACGT" * 7 + "AC", "GATTACA", "ACGGT" * 4, "TTGACCA", "CG" * 11, "ACGTA"]
MASKED = MaskedLMCollator(FlatCollator(), DnaTokenizer())


@pytest.fixture
def on_device(monkeypatch):
    """Trainers find the device as they would find a GPU."""
    AcceleratorState._reset_state(reset_partial_state=True)
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", f"{NAME}:0")
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


class Steps(TrainerCallback):
    """Notes what the device has seen up to the end of every step."""

    def __init__(self, watch):
        self.watch, self.waits, self.uploads = watch, [], []

    def on_step_end(self, *args, **kwargs):
        self.waits.append(self.watch.num_waits)
        self.uploads.append(self.watch.uploads.total())

    def per_step(self):
        """Waits and uploads from the end of a step to that of the next one."""
        return [
            tuple(found[step + 1] - found[step] for found in (self.waits, self.uploads))
            for step in range(len(self.waits) - 1)
        ]


def make_examples(head):
    """Tokenised sequences, with labels where a collator does not make them."""
    examples = []
    for number, text in enumerate(SEQUENCES):
        ids = DnaTokenizer()(text)["input_ids"]
        example = {"input_ids": ids, "length": len(ids)}
        if head == "token_classification":
            example["labels"] = [each % 2 for each in ids]
        elif "classification" in head:
            example["labels"] = number % 2
        if head == "sequence_pair_classification":
            example["input_ids_2"] = ids[::-1]
        examples.append(example)
    return examples


def train(folder, model, collator, head="masked_lm", **settings):
    """A trainer after four steps, and what each but the first saw."""
    with Watch() as watch:
        arguments = MixerTrainingArguments(
            folder,
            train_token_budget=40,
            max_steps=4,
            logging_steps=4,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=False,
            **settings,
        )
        assert arguments.device.type == NAME
        steps = Steps(watch)
        trainer = MixerTrainer(
            model,
            arguments,
            train_dataset=make_examples(head),
            data_collator=collator,
            callbacks=[steps],
        )
        trainer.train()
    assert len(steps.waits) == 4
    return trainer, steps.per_step()


@every_family
@pytest.mark.parametrize("check_inputs", [True, False])
def test_a_step_waits_once_and_not_at_all_without_checks(on_device, tmp_path, row, check_inputs):
    model = row.build("masked_lm", check_inputs=check_inputs)
    _, steps = train(tmp_path, model, MASKED)
    assert steps == [(int(check_inputs), 0)] * 3


def test_the_weights_are_trained(on_device, tmp_path):
    model = find_row("chordmixer").build("masked_lm")
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    train(tmp_path, model, MASKED)
    # blocks for longer sequences than there are stay as they were
    for name in ("lm_head.weight", "model.embed_tokens.weight", "model.layers.0.mix.fc1.weight"):
        assert not torch.equal(before[name], fetch(model.get_parameter(name).detach()))


def test_muon_waits_for_nothing(on_device, tmp_path):
    model = find_row("chordmixer").build("masked_lm", check_inputs=False)
    _, steps = train(tmp_path, model, MASKED, muon_learning_rate=1e-3)
    assert steps == [(0, 0)] * 3


@pytest.mark.parametrize(
    ("head", "collator"),
    [
        ("sequence_classification", FlatCollator()),
        ("token_classification", FlatCollator(token_labels=True)),
        ("sequence_pair_classification", FlatCollator()),
        ("sequence_classification", StrandCollator(FlatCollator())),
        ("sequence_classification", TokenDropoutCollator(FlatCollator(), DnaTokenizer())),
        ("causal_lm", CausalLMCollator(FlatCollator())),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_heads_and_collators_wait_for_nothing_without_checks(on_device, tmp_path, head, collator):
    if head == "causal_lm":
        config = find_row("combiner").config(causal=True, check_inputs=False)
        model = CombinerForCausalLM(config)
    else:
        model = find_row("chordmixer").build(head, check_inputs=False)
    _, steps = train(tmp_path, model, collator, head)
    assert steps == [(0, 0)] * 3


@pytest.mark.parametrize("check_inputs", [True, False])
def test_padded_batches_wait_once(on_device, tmp_path, check_inputs):
    head = "sequence_classification"
    model = find_row("chordmixer").build(head, check_inputs=check_inputs)
    _, steps = train(tmp_path, model, PaddedCollator(), head)
    assert steps == [(1, 0)] * 3


def test_losses_that_are_not_finite_stop_a_training_when_it_logs():
    losses = LossWatch()
    losses.check()
    with Watch() as watch:
        for step, loss in enumerate((1.0, torch.inf, 1.0, torch.nan), 1):
            losses.see(put(torch.tensor(loss)), step)
        assert not watch.waits
        with pytest.raises(ValueError, match="not finite at step 2"):
            losses.check()
