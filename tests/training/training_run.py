"""A small training run, in this process or launched in several."""

import json
import sys
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

from hf_mixers._compat import leave_process_group
from hf_mixers.data.batching import TokenBudgetBatchSampler
from hf_mixers.data.collators import FlatCollator
from hf_mixers.training import MixerTrainer, MixerTrainingArguments
from tests.families import find_row


class SequenceData(Dataset):
    """Sequences mostly of As (class 0) or of Cs (class 1)."""

    def __init__(self, lengths, seed: int = 0):
        self.lengths, self.seed = list(lengths), seed

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        generator = np.random.default_rng((self.seed, index))
        noise = generator.integers(5, 9, self.lengths[index])
        keep = generator.random(self.lengths[index]) < 0.7
        return {
            "input_ids": np.where(keep, 5 + index % 2, noise).astype(np.uint8),
            "labels": index % 2,
        }


def build_trainer(family, arguments, collator=None, head="sequence_classification"):
    generator = np.random.default_rng(0)
    row = find_row(family)
    return MixerTrainer(
        row.build(head, max_position_embeddings=64),
        arguments,
        train_dataset=SequenceData(generator.integers(1, 60, 61)),
        eval_dataset=SequenceData(generator.integers(1, 60, 37), seed=1),
        data_collator=collator or FlatCollator(),
        compute_metrics=None
        if head != "sequence_classification"
        else lambda p: {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())},
    )


class AsManyAs(TokenBudgetBatchSampler):
    """The batches that several processes would share, all for one."""

    processes = 1

    def _round_up(self, count):
        replicas, self.num_replicas = self.num_replicas, self.processes
        try:
            return super()._round_up(count)
        finally:
            self.num_replicas = replicas


def main(output: str, family: str, accumulate=1, count_like=1):
    if count_like > 1:
        from hf_mixers.training import trainer as module

        AsManyAs.processes = count_like
        module.TokenBudgetBatchSampler = AsManyAs
    arguments = MixerTrainingArguments(
        str(Path(output).with_suffix("")),
        train_token_budget=256,
        eval_token_budget=256,
        gradient_accumulation_steps=accumulate,
        num_train_epochs=2,
        learning_rate=3e-3,
        logging_steps=1,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        seed=5,
    )
    trainer = build_trainer(family, arguments)
    trainer.train()
    evaluation = trainer.predict(trainer.eval_dataset)
    if trainer.is_world_process_zero():
        result = {
            "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
            "eval": evaluation.metrics["test_loss"],
            "labels": evaluation.label_ids.tolist(),
            "predictions": evaluation.predictions.tolist(),
            "num_examples": len(trainer.eval_dataset),
        }
        Path(output).write_text(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], **json.loads(sys.argv[2]))
    leave_process_group()
