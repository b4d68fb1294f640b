"""Runs the tests of this folder in this process, which has the accelerator that is not there."""

import os
import sys
from pathlib import Path

import pytest

from tests.accelerator import register

if __name__ == "__main__":
    register()
    files = sorted(str(path) for path in Path(__file__).parent.glob("*_on_device.py"))
    status = pytest.main(["-q", "-p", "no:cacheprovider", *files, *sys.argv[1:]])
    sys.stdout.flush()
    # threads of autograd for the device have no end that torch would wait for
    os._exit(status)
