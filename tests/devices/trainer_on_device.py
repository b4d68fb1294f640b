"""`MixerTrainer` on the device: its steps wait for nothing but the checks of the border."""

import pytest
import torch
from accelerate.state import AcceleratorState

from hf_mixers import DnaTokenizer, MixerTrainer, MixerTrainingArguments
from hf_mixers.data import FlatCollator, MaskedLMCollator
from hf_mixers.training.finite import LossWatch
from tests.accelerator import NAME, Watch, fetch, put
from tests.families import find_row, random_ids


@pytest.fixture
def on_device(monkeypatch):
    """Trainers find the device as they would find a GPU."""
    AcceleratorState._reset_state(reset_partial_state=True)
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", f"{NAME}:0")
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


class Waits(MixerTrainer):
    """Notes what the device saw in every step."""

    def training_step(self, *args, **kwargs):
        with Watch() as watch:
            loss = super().training_step(*args, **kwargs)
        self.seen.append(watch)
        return loss


def make_trainer(folder, head="masked_lm", changes=None, **settings):
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
    examples = [{"input_ids": random_ids(n), "length": n} for n in (30, 7, 19, 11, 23, 5)]
    trainer = Waits(
        find_row("chordmixer").build(head, **(changes or {})),
        arguments,
        train_dataset=examples,
        data_collator=MaskedLMCollator(FlatCollator(), DnaTokenizer()),
    )
    trainer.seen = []
    return trainer


@pytest.mark.parametrize("check_inputs", [True, False])
def test_a_step_waits_once_and_not_at_all_without_checks(on_device, tmp_path, check_inputs):
    with Watch():
        trainer = make_trainer(tmp_path, changes={"check_inputs": check_inputs})
        assert trainer.args.device.type == NAME
        before = {n: fetch(w.detach()).clone() for n, w in trainer.model.named_parameters()}
        trainer.train()
    assert len(trainer.seen) == 4
    for watch in trainer.seen:
        assert watch.num_waits == (1 if check_inputs else 0)
    # blocks for longer sequences than there are stay as they were
    for name in ("lm_head.weight", "model.embed_tokens.weight", "model.layers.0.mix.fc1.weight"):
        assert not torch.equal(before[name], fetch(trainer.model.get_parameter(name).detach()))


def test_losses_that_are_not_finite_stop_a_training_when_it_logs():
    losses = LossWatch()
    losses.check()
    with Watch() as watch:
        for step, loss in enumerate((1.0, torch.inf, 1.0, torch.nan), 1):
            losses.see(put(torch.tensor(loss)), step)
        assert not watch.waits
        with pytest.raises(ValueError, match="not finite at step 2"):
            losses.check()
