"""One run at a time in a folder, and no results lost to the next run."""

import atexit
import json
import os
import shutil
import socket
from pathlib import Path

import psutil
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.utils import logging

from ..publish import PUBLISHED
from .files import write_json

logger = logging.get_logger(__name__)

LOCK = "run.lock"
# written last, so that a folder with it holds all results
RESULTS = "metrics.json"
# what a run writes for itself
_OWN_FILES = ("predictions.csv", "training_args.bin", "trainer_state.json")
CLOCK_SECONDS = 60
# folders that this process has to leave at its end
_occupied: set[Path] = set()


def occupy_folder(folder: str | Path, *, overwrite: bool = False, resume: bool = False) -> None:
    """Take a folder for a run of this process; one that is in use or finished is refused.

    Args:
        overwrite: Delete results and checkpoints of an earlier run.
        resume: Go on with the run of which the folder holds results or checkpoints.
    """
    folder = Path(folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    _check_free(folder)
    if overwrite and not resume:
        _remove_run(folder)
    elif not resume:
        _check_unused(folder)
    _write_lock(folder)


def leave_folder(folder: str | Path) -> None:
    """Free a folder that this process has taken."""
    folder = Path(folder).absolute()
    if folder in _occupied:
        _occupied.remove(folder)
        if _is_own(_read_lock(folder)):
            (folder / LOCK).unlink(missing_ok=True)


def _check_free(folder: Path) -> None:
    """An error if another process that lives has the folder."""
    lock = _read_lock(folder)
    if lock is None or _is_own(lock):
        return
    where = f"process {lock.get('pid')} on {lock.get('host')}"
    if lock.get("host") != socket.gethostname():
        raise ValueError(
            f"{folder} is in use by {where}, which cannot be asked from here: choose another"
            f" folder, or delete {LOCK} if that run has ended."
        )
    if _is_alive(lock):
        raise ValueError(f"{folder} is in use by {where}: choose another folder.")
    logger.info(f"{where} left {folder} without finishing.")


def _check_unused(folder: Path) -> None:
    """An error if there is something to lose; results of a smoke run are replaced."""
    results = folder / RESULTS
    if results.is_file():
        if _is_smoke(results):
            _remove_run(folder)
            return
        raise ValueError(
            f"{folder} holds the results of a finished run: choose another folder, or give"
            " --overwrite to delete them."
        )
    if any(folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*")):
        raise ValueError(
            f"{folder} holds checkpoints of an unfinished run: resume it, choose another folder,"
            " or give --overwrite to delete them."
        )


def _is_smoke(results: Path) -> bool:
    try:
        content = json.loads(results.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        return False
    return isinstance(content, dict) and content.get("smoke") is True


def _remove_run(folder: Path) -> None:
    """Delete what a run has written, and nothing else of the folder."""
    for path in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
    for pattern in (*PUBLISHED, *_OWN_FILES):
        for path in folder.glob(pattern):
            if path.is_file():
                path.unlink()


def _write_lock(folder: Path) -> None:
    if not _occupied:
        atexit.register(_leave_all)
    _occupied.add(folder)
    write_json(folder / LOCK, _own_lock())
    # of two processes that find the folder free at the same time, the last to write has it
    if not _is_own(_read_lock(folder)):
        _occupied.discard(folder)
        raise ValueError(f"{folder} is in use by another process: choose another folder.")


def _leave_all() -> None:
    for folder in list(_occupied):
        leave_folder(folder)


def _read_lock(folder: Path) -> dict | None:
    try:
        lock = json.loads((folder / LOCK).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        lock = None
    # of nobody: written by something else
    return lock if isinstance(lock, dict) else {}


def _own_lock() -> dict:
    pid = os.getpid()
    return {"pid": pid, "host": socket.gethostname(), "started": _started(pid)}


def _is_own(lock: dict | None) -> bool:
    own = _own_lock()
    return lock is not None and all(lock.get(name) == own[name] for name in ("pid", "host"))


def _is_alive(lock: dict) -> bool:
    """Whether the process of a lock runs on this machine, and is not a later one of its number."""
    started = _started(lock.get("pid"))
    # the clock of a machine may be set in between
    return started is not None and abs(started - lock.get("started", started)) < CLOCK_SECONDS


def _started(pid: int | None) -> float | None:
    """When a process of this machine began; None if there is none."""
    try:
        process = psutil.Process(pid) if isinstance(pid, int) else None
        if process is None or process.status() == psutil.STATUS_ZOMBIE:
            return None
        return process.create_time()
    except psutil.NoSuchProcess:
        return None
