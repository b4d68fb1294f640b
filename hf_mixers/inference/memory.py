"""Memory that stays flat over a long run."""

import ctypes
import time


class HeapTrimmer:
    """Called after each part of a run, gives freed memory back to the system now and then.

    Batches of ever new sizes leave holes in the heap of the C library, which would grow with the
    length of the run.

    Args:
        seconds: Least time between two calls that do something: the next batches must take the
            pages from the system again.
    """

    def __init__(self, seconds: float = 1.0):
        self.seconds = seconds
        self._last = time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._last >= self.seconds:
            trim_heap()
            self._last = time.monotonic()


def trim_heap() -> bool:
    """Give freed memory back to the system; whether the C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return False
    trim(0)
    return True
