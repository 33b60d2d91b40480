"""A running cache, what it said of its breaker, and how to wait for its background work."""

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from pydantic import SecretStr

from app.cache.memory import make_cache
from app.cache.protocol import Cache, CacheConfig

PASSWORD = "sesame-open-4711"
ENTRY = {"a": b"1"}
MISSES = [None] * 20


@dataclass
class RunningCache:
    """A cache under its `run`.

    Attributes:
        told: states of its breaker, in their order, from the first success on.
    """

    cache: Cache = None
    told: list[str] = field(default_factory=list)

    @property
    def outages(self):
        """What was told of faults that a probe confirmed: each opens the breaker, and closes it."""
        states = [state for state in self.told if state != "suspect"]
        return [state for before, state in pairwise(["closed", *states]) if state != before]

    async def get(self, key):
        [value] = await self.cache.get_many([key])
        return value

    async def store(self, entries):
        """Put the entries until all of them are found.

        Before its first probe a cache drops what it is given.
        """
        async with asyncio.timeout(30):
            while True:
                self.cache.put(entries)
                if await self.cache.get_many(list(entries)) == list(entries.values()):
                    return
                await asyncio.sleep(0.01)


@asynccontextmanager
async def running_cache(url=None, **config):
    """A `RunningCache`; its time limit is generous, so that only a fault exceeds it."""
    secret = SecretStr(url) if url else None
    running = RunningCache()
    running.cache = make_cache(
        CacheConfig(url=secret, **{"timeout_s": 0.25} | config), running.told.append
    )
    task = asyncio.create_task(running.cache.run())
    try:
        yield running
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def look_up(running):
    return await asyncio.gather(*(running.get("a") for _ in MISSES))


async def assert_lives_without(running, kind, log):
    """The fault is found by reads or writes, costs misses only, and is told once in these words."""
    async with asyncio.timeout(30):
        while running.outages[-1:] != ["open"]:
            running.cache.put({"secret key": b"secret value"})
            await look_up(running)
            await asyncio.sleep(0.01)
    assert await look_up(running) == MISSES
    given_up = [one.getMessage() for one in log.records if one.levelno == logging.WARNING]
    assert given_up == [f"the cache is off until Redis recovers: {kind}"]


async def assert_healed(running, log):
    await running.store({"b": b"2"})
    assert await running.get("b") == b"2"
    assert running.outages == ["open", "closed"]
    assert log.messages[-1] == "the cache is on again"
