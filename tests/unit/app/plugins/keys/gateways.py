"""Gateways that count what keys use, with a real Redis between them or without."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from pydantic import SecretStr

from app.cache.protocol import CacheConfig
from app.plugins.keys.limits import KeyLimits
from app.plugins.keys.records import Key
from app.plugins.keys.shared import SharedLimits
from models.errors import RateLimited
from tests.conftest import until

KEY = Key("search", ("",), namespace="search")


def near(seconds):
    """Up to so many seconds: some pass while a test runs."""
    return range(seconds - 5, seconds + 1)


@dataclass
class Gateways:
    """Gateways that take requests in turn, and what they told of refusals."""

    all: list[KeyLimits] = field(default_factory=list)
    told: list[tuple[str, str]] = field(default_factory=list)
    num_calls: int = 0

    def add(self, shared, **kwargs):
        self.all.append(KeyLimits(shared, lambda *told: self.told.append(told), **kwargs))
        return self

    @property
    def next(self):
        self.num_calls += 1
        return self.all[self.num_calls % len(self.all)]

    @asynccontextmanager
    async def request(self, key, *, costs_tokens=True):
        async with self.next.held(key, costs_tokens=costs_tokens):
            yield

    async def send(self, key, count=1, **kwargs):
        for _ in range(count):
            async with self.request(key, **kwargs):
                pass

    async def refused(self, key, **kwargs):
        with pytest.raises(RateLimited) as caught:
            await self.send(key, **kwargs)
        return caught.value


@asynccontextmanager
async def sharing(url, told=None, timeout_s=0.5):
    """Shared limits under their `run`, asked from now on; `told` gets the states of the breaker."""
    told = [] if told is None else told
    config = CacheConfig(url=SecretStr(url), timeout_s=timeout_s)
    shared = SharedLimits(url, config, told.append)
    task = asyncio.create_task(shared.run())
    try:
        await until(lambda: told == ["closed"])
        yield shared
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
