"""Settings of the whole test run."""

import logging
import os

# some virtual machines trap the AMX instructions that their processor announces
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
# datasets would ask a server at every load
os.environ.setdefault("HF_UPDATE_DOWNLOAD_COUNTS", "0")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch
from hypothesis import settings

import hf_mixers  # noqa: F401  (registers the Auto classes)

torch.set_num_threads(1)
# a noisy machine must not fail a property by being slow
settings.register_profile("default", deadline=None, max_examples=30, derandomize=True)
settings.register_profile("quick", settings.get_profile("default"), max_examples=5)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def quiet(monkeypatch):
    """No progress bars."""
    monkeypatch.setenv("TQDM_DISABLE", "1")


class _Deprecations(logging.Handler):
    """Keeps what transformers logs about names that will go away."""

    def __init__(self):
        super().__init__()
        self.messages = []

    def emit(self, record):
        if "deprecat" in record.getMessage().lower():
            self.messages.append(record.getMessage())


@pytest.fixture(autouse=True)
def _fail_on_logged_deprecations():
    handler = _Deprecations()
    logger = logging.getLogger("transformers")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    assert not handler.messages
