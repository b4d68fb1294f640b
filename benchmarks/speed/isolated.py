"""A measurement in a process of its own: what fails there is a row of a table and not a crash."""

import gc
import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch

from .rss import give_back, measure_peak

# the server imports these once; measuring processes are forked from it and start in no time. The
# server itself never computes, so no threads are lost in forking
_PRELOADED = ["benchmarks.speed.contenders", "benchmarks.speed.commands"]

_START_SECONDS = 300.0

Step = Callable[[], dict[str, float] | None]


@dataclass(frozen=True)
class Limits:
    """What one configuration may use: seconds for all its runs together, and memory."""

    seconds: float = 600.0
    gibibytes: float = 20.0


@dataclass(frozen=True)
class Built:
    """What a builder returns: the step to measure, and columns for the table of results."""

    step: Step
    facts: dict[str, Any]


class Failure(Exception):
    """How a measurement failed, in one sentence; a builder too may say so."""


class Isolated:
    """A new process that builds a step with `build(**arguments)` and runs it on demand.

    A step may return numbers, which are handed on with the seconds and the peak memory in bytes
    that it took.
    """

    def __init__(
        self,
        build: Callable[..., Built],
        arguments: dict[str, Any],
        limits: Limits,
        threads: int | None = None,
    ):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_PRELOADED)
        self.limits = limits
        self.seconds_left = limits.seconds
        self._busy = True
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, build, arguments, limits, threads), daemon=True
        )
        self._process.start()
        theirs.close()

    def facts(self) -> dict[str, Any]:
        """Wait until the step is built; what the builder says about it. To be called once."""
        # the time of imports is nobody's
        self._receive(_START_SECONDS)
        self._busy = True
        return self._receive(self.limits.seconds)

    def run(self) -> dict[str, Any]:
        """Run the step once: `seconds`, `peak` in bytes or None, and what the step returned."""
        self._connection.send("run")
        self._busy = True
        return self._receive(self.seconds_left)

    def close(self) -> None:
        """End the process: it ends by itself when nobody listens, unless it is in a run."""
        self._connection.close()
        self._process.join(0 if self._busy else 5)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()

    def _receive(self, patience: float) -> dict[str, Any]:
        start = time.perf_counter()
        try:
            if not self._connection.poll(max(0.0, patience)):
                raise Failure(f"time limit of {self.limits.seconds:g} s")
            kind, content = self._connection.recv()
        except (EOFError, ConnectionError) as error:
            self._process.join()
            raise Failure(_describe_death(self._process.exitcode)) from error
        self.seconds_left = patience - (time.perf_counter() - start)
        self._busy = False
        if kind == "failed":
            raise Failure(content)
        return content


def _serve(
    connection: Connection,
    build: Callable[..., Built],
    arguments: dict[str, Any],
    limits: Limits,
    threads: int | None,
) -> None:
    """The life of the measuring process."""
    connection.send(("ok", {}))
    limit = int(limits.gibibytes * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    # what was imported is there to stay, and need not be looked through again and again
    gc.freeze()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        built = build(**arguments)
        give_back()
        connection.send(("ok", built.facts))
        while connection.recv() == "run":
            (seconds, numbers), peak = measure_peak(lambda: _clock(built.step))
            connection.send(("ok", {"seconds": seconds, "peak": peak, **numbers}))
    except (EOFError, ConnectionError):
        # the other side has heard enough
        return
    except Exception as error:
        connection.send(("failed", _describe_error(error, limits)))


def _clock(step: Step) -> tuple[float, dict[str, float]]:
    start = time.perf_counter()
    numbers = step()
    return time.perf_counter() - start, numbers or {}


def _describe_error(error: Exception, limits: Limits) -> str:
    if isinstance(error, Failure):
        return str(error)
    text = str(error).strip().splitlines()
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        return f"out of memory, limit {limits.gibibytes:g} GiB"
    return f"{type(error).__name__}: {text[0][:200] if text else ''}".rstrip(": ")


def _describe_death(code: int | None) -> str:
    if code is not None and code < 0:
        reason = ", probably out of memory" if code == -9 else ""
        return f"killed by signal {-code}{reason}"
    return f"ended with code {code}"
