"""The stock Trainer with padded batches: models learn, and accumulation changes no gradient."""

import pytest
import torch
from transformers import (
    DataCollatorForLanguageModeling,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from hf_mixers import DnaTokenizer
from hf_mixers.data import PaddedCollator
from tests.families import every_family, one_family


def examples(count: int, with_labels: bool = True):
    """Sequences of As or of Cs with noise in them: easy to tell apart."""
    generator = torch.Generator().manual_seed(1)
    rows = []
    for number in range(count):
        length = int(torch.randint(5, 40, (1,), generator=generator))
        noise = torch.randint(5, 9, (length,), generator=generator)
        keep = torch.rand(length, generator=generator) < 0.7
        ids = torch.where(keep, 5 + number % 2, noise).tolist()
        rows.append({"input_ids": ids} | ({"labels": number % 2} if with_labels else {}))
    return rows


def arguments(folder, **changes):
    defaults = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 8,
        "num_train_epochs": 1,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 3,
    }
    return TrainingArguments(**{**defaults, **changes})


@every_family
def test_sequence_classification_overfits_a_few_batches(row, tmp_path):
    model = row.build("sequence_classification", max_position_embeddings=64)
    data = examples(32)
    trainer = Trainer(
        model,
        arguments(tmp_path, num_train_epochs=15, learning_rate=3e-3),
        train_dataset=data,
        eval_dataset=data,
        data_collator=DataCollatorWithPadding(DnaTokenizer()),
        compute_metrics=lambda p: {"accuracy": float((p[0].argmax(-1) == p[1]).mean())},
    )
    trainer.train()
    assert trainer.evaluate()["eval_accuracy"] == 1


@every_family
def test_masked_lm_learns_with_the_stock_collator(row, tmp_path):
    tokenizer = DnaTokenizer()
    model = row.build("masked_lm", max_position_embeddings=64)
    data = examples(32, with_labels=False)
    trainer = Trainer(
        model,
        arguments(tmp_path, num_train_epochs=20, learning_rate=3e-3),
        train_dataset=data,
        eval_dataset=data,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.3),
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < 0.5 * before


@every_family
def test_token_classification_learns_with_the_stock_collator(row, tmp_path):
    model = row.build("token_classification", max_position_embeddings=64)
    data = [
        {"input_ids": r["input_ids"], "labels": [i % 2 for i in r["input_ids"]]}
        for r in examples(32)
    ]
    trainer = Trainer(
        model,
        arguments(tmp_path, num_train_epochs=30, learning_rate=1e-2),
        train_dataset=data,
        eval_dataset=data,
        data_collator=DataCollatorForTokenClassification(DnaTokenizer()),
    )
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < 0.05


@every_family
def test_pairs_learn_with_a_padded_collator(row, tmp_path):
    firsts, seconds = examples(32), examples(32)[::-1]
    data = [
        {"input_ids": a["input_ids"], "input_ids_2": b["input_ids"], "labels": a["labels"]}
        for a, b in zip(firsts, seconds, strict=True)
    ]
    trainer = Trainer(
        row.build("sequence_pair_classification", max_position_embeddings=64),
        arguments(tmp_path, num_train_epochs=15, learning_rate=3e-3),
        train_dataset=data,
        eval_dataset=data,
        data_collator=PaddedCollator(),
        compute_metrics=lambda p: {"accuracy": float((p[0].argmax(-1) == p[1]).mean())},
    )
    trainer.train()
    assert trainer.evaluate()["eval_accuracy"] == 1


class GradientNorms(TrainerCallback):
    def __init__(self):
        self.seen = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "grad_norm" in logs:
            self.seen.append(logs["grad_norm"])


@one_family
@pytest.mark.parametrize(
    "problem", ["single_label_classification", "multi_label_classification", "regression"]
)
def test_gradient_norms_do_not_depend_on_accumulation(row, problem, tmp_path):
    data = examples(16)
    for example in data:
        if problem != "single_label_classification":
            example["labels"] = [float(example["labels"]), 1.0]
    norms = []
    for steps in (1, 4):
        watch = GradientNorms()
        Trainer(
            row.build("sequence_classification", problem_type=problem),
            arguments(
                tmp_path,
                per_device_train_batch_size=16 // steps,
                gradient_accumulation_steps=steps,
                logging_steps=1,
                max_grad_norm=1e9,
                max_steps=1,
            ),
            train_dataset=data,
            data_collator=DataCollatorWithPadding(DnaTokenizer()),
            callbacks=[watch],
        ).train()
        norms.append(watch.seen[0])
    assert norms[1] == pytest.approx(norms[0], rel=1e-4)


@one_family
def test_checkpoints_resume(row, tmp_path):
    def train(folder, steps, resume=None):
        trainer = Trainer(
            row.build("sequence_classification"),
            arguments(
                folder,
                max_steps=steps,
                save_strategy="steps",
                save_steps=2,
                lr_scheduler_type="constant",
            ),
            train_dataset=examples(32),
            data_collator=DataCollatorWithPadding(DnaTokenizer()),
        )
        trainer.train(resume_from_checkpoint=resume)
        return trainer.model.state_dict()

    straight = train(tmp_path / "straight", 4)
    train(tmp_path / "broken", 2)
    resumed = train(tmp_path / "broken", 4, resume=True)
    for name, value in straight.items():
        torch.testing.assert_close(resumed[name], value)
