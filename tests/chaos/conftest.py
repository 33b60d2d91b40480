"""Fixtures of several files of faults."""

import logging

import pytest

from tests.chaos.redis_cache import PASSWORD
from tests.chaos.redis_server import running_redis


@pytest.fixture
def server(tmp_path):
    """A real Redis of one test."""
    with running_redis(tmp_path) as running:
        yield running


@pytest.fixture
def log(caplog):
    """Records of the cache.

    Whatever a test does, none of them may quote a key, a value or a password.
    """
    caplog.set_level(logging.INFO)
    yield caplog
    assert "secret" not in caplog.text
    assert PASSWORD not in caplog.text
