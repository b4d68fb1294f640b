"""Processes of one group, forked from this one: they start in no time and find the same data."""

import io
import os
import signal
import socket
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

# seconds that a process waits for the others
PATIENCE = 240


def run_ranks(function: Callable[..., Any], size: int, *arguments: Any) -> list[Any]:
    """What `function(rank, *arguments)` returns in each of `size` processes of a gloo group."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    # nobody leaves before all are done: closed by the parent, it lets them go
    wait, go = os.pipe()
    children = []
    for rank in range(size):
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(go)
            os.close(reading)
            _live(function, (rank, size, port), arguments, writing, wait)
        os.close(writing)
        children.append((process, reading))
    try:
        found = [_read(reading) for _, reading in children]
    finally:
        os.close(go)
        os.close(wait)
        for process, _ in children:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
    wrong = [value for value in found if isinstance(value, str)]
    assert not wrong, "\n".join(wrong)
    return found


def _read(reading: int) -> Any:
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    if not content:
        return "A process has died."
    return torch.load(io.BytesIO(content), weights_only=False)


def _live(function, place, arguments, writing: int, wait: int) -> None:
    """The life of a process."""
    rank, size, port = place
    torch.set_num_threads(1)
    try:
        dist.init_process_group(
            "gloo",
            init_method=f"tcp://localhost:{port}",
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=PATIENCE),
        )
        value = function(rank, *arguments)
    except BaseException:
        value = traceback.format_exc()
    buffer = io.BytesIO()
    torch.save(value, buffer)
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(buffer.getvalue())
    os.read(wait, 1)
    # past the destructors of gloo, which may deadlock
    os._exit(0)
