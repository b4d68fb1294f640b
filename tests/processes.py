"""How processes of the distributed tests end."""

import os
import sys
from typing import NoReturn


def leave() -> NoReturn:
    """End this process at once, without taking its process group down.

    A thread of gloo may hold the last reference to a tensor, and so wait for the interpreter, while
    the interpreter waits in a destructor of the group for that thread (torch 2.13): a deadlock.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
