"""Exchanges with Redis that end in unusual ways."""

import asyncio

import pytest

from app.cache.connections import Connections
from app.cache.protocol import CacheConfig

pytestmark = pytest.mark.anyio


class SelfCancelling:
    """A client whose own time limit cancels what it was asked.

    asyncio.timeout can do so on Python 3.11.
    """

    async def mget(self, names):
        raise asyncio.CancelledError


async def test_an_exchange_that_cancels_itself_is_a_fault_and_does_not_cancel_its_caller():
    connections = Connections("redis://localhost", CacheConfig())
    connections._reader = SelfCancelling()
    with pytest.raises(TimeoutError):
        await connections.read(["a"], 10)
