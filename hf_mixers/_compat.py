"""Private interfaces of other packages that hf_mixers uses, one reason each.

After an upgrade, `tests/test_compat.py` names what is missing.
"""

import atexit
import os
import sys
from typing import NoReturn

from torch import distributed


def leave_process_group() -> NoReturn:
    """End this process of a group at once, without taking the group down.

    A thread of gloo may hold the last reference to a tensor, and so wait for the interpreter, while
    the interpreter waits in a destructor of the group for that thread (torch 2.13): a deadlock.
    """
    # trackers do their last work in exit functions, which `os._exit` would skip
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def is_in_process_group() -> bool:
    return distributed.is_available() and distributed.is_initialized()
