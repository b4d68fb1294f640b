"""Checkpoints of a training: which are complete, and from which one to go on.

A checkpoint is complete when its last file, the state of the Trainer, is there and all its files
are as long as they say. A run that was killed while saving, or whose disk was full, leaves one that
is not.
"""

import json
import shutil
import zipfile
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import logging

logger = logging.get_logger(__name__)

SET_ASIDE = "incomplete-"
_WEIGHTS = ("model", "adapter_model", "pytorch_model")


class Found(NamedTuple):
    """The newest complete checkpoint, and newer ones with what is wrong with them."""

    newest: Path | None
    broken: dict[Path, str]


def find_checkpoints(folder: str | Path) -> Found:
    """Look for the newest complete checkpoint of a run."""
    numbered = {}
    for path in Path(folder).glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        number = path.name.removeprefix(f"{PREFIX_CHECKPOINT_DIR}-")
        if path.is_dir() and number.isdecimal():
            numbered[int(number)] = path
    broken: dict[Path, str] = {}
    for number in sorted(numbered, reverse=True):
        fault = find_fault(numbered[number])
        if fault is None:
            return Found(numbered[number], broken)
        broken[numbered[number]] = fault
    return Found(None, broken)


def set_aside(broken: dict[Path, str]) -> None:
    """Rename incomplete checkpoints, so that nobody takes them for the newest ones of a run.

    Of those that were set aside before, none are kept.
    """
    folders = {path.parent for path in broken}
    for old in [old for folder in folders for old in folder.glob(f"{SET_ASIDE}*")]:
        shutil.rmtree(old)
    for path in broken:
        path.rename(path.with_name(SET_ASIDE + path.name))


def warn_of(found: Found) -> None:
    """Say which checkpoints are not used, and which one is."""
    used = "training starts again" if found.newest is None else f"{found.newest.name} is used"
    for path, fault in found.broken.items():
        logger.warning(f"{path} is not complete ({fault}): {used}.")


def find_fault(checkpoint: Path) -> str | None:
    """What a checkpoint lacks to be complete; None if it is."""
    if not (checkpoint / TRAINER_STATE_NAME).is_file():
        return f"it has no {TRAINER_STATE_NAME}"
    names = [path.name for path in checkpoint.iterdir()]
    if not any(name.startswith(_WEIGHTS) and not name.endswith(".json") for name in names):
        return "it has no weights"
    for path in sorted(checkpoint.iterdir()):
        if path.is_file() and not _is_whole(path):
            return f"{path.name} cannot be read to its end"
    index = checkpoint / "model.safetensors.index.json"
    if index.is_file():
        parts = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        missing = sorted(parts - set(names))
        if missing:
            return f"it has no {missing[0]}"
    return None


def _is_whole(path: Path) -> bool:
    """Whether a file is as long as it says itself; files that say nothing are taken for whole."""
    try:
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".safetensors":
            with safe_open(path, framework="pt"):
                pass
        elif path.suffix in (".pt", ".pth", ".bin"):
            # torch.save writes zip files, whose table of contents is at their end
            with zipfile.ZipFile(path):
                pass
    except (OSError, ValueError, SafetensorError, zipfile.BadZipFile):
        return False
    return True


def has_optimizer(checkpoint: Path) -> bool:
    """Whether a checkpoint holds the state of the optimizer, in one file or sharded."""
    return any(
        path.name.startswith("optimizer") or path.name.startswith("global_step")
        for path in checkpoint.iterdir()
    )
