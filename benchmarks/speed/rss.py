"""Peak memory of one call, in this process."""

import gc
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hf_mixers.inference.memory import trim_heap

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def measure_peak(call: Callable[[], Any]) -> tuple[Any, int | None]:
    """What `call` returns, and by how many bytes resident memory rose while it ran, at the most.

    None where the system does not tell, or cannot forget an earlier peak that was as high.
    """
    gc.collect()
    can_reset = _reset_peak()
    before, peak_before = _resident(), _peak()
    result = call()
    peak = _peak()
    if before is None or (not can_reset and peak <= peak_before):
        return result, None
    return result, max(0, peak - before)


def give_back() -> None:
    """Return freed memory to the system, where it would otherwise hide a first rise."""
    gc.collect()
    trim_heap()


def _reset_peak() -> bool:
    """Let the peak start anew from what is resident now; only Linux can."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


def _peak() -> int:
    peak = _read_status("VmHWM")
    if peak is not None:
        return peak
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _resident() -> int | None:
    return _read_status("VmRSS")


def _read_status(name: str) -> int | None:
    if not _STATUS.exists():
        return None
    for line in _STATUS.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return None
