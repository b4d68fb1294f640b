"""Publishes from a folder full of traps, in one of three ways: `python -m tests.publishing_run`.

The client reads the address of the Hub when it is imported, hence a process of its own.
"""

import sys
from pathlib import Path

from transformers import TrainingArguments

from hf_mixers import (
    ChordMixerConfig,
    ChordMixerForSequenceClassification,
    DnaTokenizer,
    MixerTrainer,
)
from hf_mixers.cli.main import app
from hf_mixers.data.collators import FlatCollator

REPOSITORY = "local/traps"


def make_trainer(folder: Path, strategy: str, push: bool = True) -> MixerTrainer:
    """A trainer that saves twice in a run of seconds."""
    tokenizer = DnaTokenizer()
    # a checkpoint in a folder of the machine, as fine-tuning has it
    start = folder.parent / "start"
    config = ChordMixerConfig(max_position_embeddings=16, track_size=2, intermediate_size=4)
    ChordMixerForSequenceClassification(config).save_pretrained(start)
    # the stock arguments, which are saved with their token
    arguments = TrainingArguments(
        str(folder),
        push_to_hub=push,
        hub_model_id=REPOSITORY,
        hub_token=sys.argv[3],
        hub_strategy=strategy,
        hub_always_push=True,
        max_steps=2,
        save_steps=1,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    rows = [{"input_ids": [5, 6, 7, 8], "labels": number % 2} for number in range(8)]
    return MixerTrainer(
        ChordMixerForSequenceClassification.from_pretrained(start),
        arguments,
        train_dataset=rows,
        data_collator=FlatCollator(),
        processing_class=tokenizer,
    )


def main(way: str, folder: Path) -> None:
    if way == "command":
        trainer = make_trainer(folder, "end", push=False)
        trainer.train()
        trainer.save_model()
        app(["publish", str(folder), REPOSITORY, "--yes"], standalone_mode=False)
    else:
        trainer = make_trainer(folder, way)
        trainer.train()
        if way == "end":
            trainer.push_to_hub()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
