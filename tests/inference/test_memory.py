"""Memory that was freed goes back to the system."""

import ctypes

import psutil
import pytest

from hf_mixers.inference import memory

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="another C library than glibc"
)


def test_trimming_gives_back_holes_of_the_heap():
    # small blocks are taken from the heap; the last one keeps its end where it is
    blocks = [ctypes.create_string_buffer(b"x" * 60_000) for _ in range(2000)]
    last = blocks.pop()
    blocks.clear()
    before = psutil.Process().memory_info().rss
    assert memory.trim_heap()
    assert psutil.Process().memory_info().rss < before - 50_000_000
    assert last


def test_trimmer_waits(monkeypatch):
    now, calls = [0.0], []
    monkeypatch.setattr(memory.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(memory, "trim_heap", lambda: calls.append(now[0]))
    trim = memory.HeapTrimmer(seconds=2)
    for now[0] in (1.0, 2.5, 3.0, 4.4, 4.5):
        trim()
    assert calls == [2.5, 4.5]
