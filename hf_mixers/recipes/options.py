"""Settings that recipes share."""

import json
from dataclasses import dataclass, field

from transformers import TrainingArguments

from ..training import MixerTrainingArguments


@dataclass
class RunArguments(MixerTrainingArguments):
    """Arguments of the Trainer with the defaults of the examples, which also set their own."""

    lr_scheduler_type: str = field(default="cosine")
    warmup_steps: float = field(default=0.05)
    eval_strategy: str = field(default="epoch")
    save_strategy: str = field(default="epoch")
    save_total_limit: int = field(default=2)
    logging_steps: float = field(default=50)
    report_to: str = field(default="none")


@dataclass
class RecordOptions:
    """What to do about records that cannot be used."""

    bad_records: str = field(
        default="error",
        metadata={
            "help": "'error' stops at a record without label or with other letters than DNA, or"
            " than the model knows; 'drop' leaves such records out, counted."
        },
    )
    duplicate_ids: str = field(
        default="error", metadata={"help": "'error', 'drop' (keeps the first) or 'keep'."}
    )


# config fields of the new models of the examples, where they differ from the family's defaults
DEFAULT_SETTINGS = {
    "chordmixer": {
        "track_size": 16,
        "intermediate_size": 128,
        "pre_norm": "layer",
        "block_order": "mix_rotate",
    },
}


def parse_resume(arguments: TrainingArguments) -> str | bool | None:
    """`resume_from_checkpoint` as a folder, or as true for the last one in the output folder."""
    given = arguments.resume_from_checkpoint
    if isinstance(given, str) and given.lower() in ("true", "false"):
        return given.lower() == "true"
    return given


def parse_settings(text: str) -> dict:
    """Config fields from the JSON of a command line."""
    try:
        settings = json.loads(text)
    except json.JSONDecodeError as error:
        raise SystemExit(
            f'--settings must be JSON such as {{"track_size": 8}}: {error}.'
        ) from error
    if not isinstance(settings, dict):
        raise SystemExit(f"--settings must be a JSON object, got {text}.")
    return settings


def choose_settings(family: str, text: str | None) -> dict:
    """Config fields from the JSON of a command line, or those of the examples without one."""
    return dict(DEFAULT_SETTINGS.get(family, {})) if text is None else parse_settings(text)
