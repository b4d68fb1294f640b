"""Settings of the tests of data."""

import logging

import pytest
from datasets import disable_progress_bars

disable_progress_bars()


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.WARNING)
    return lambda: " ".join(record.getMessage() for record in caplog.records)
