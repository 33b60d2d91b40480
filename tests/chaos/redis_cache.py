"""A running cache, what it said of its breaker, and how to wait for its background work."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pydantic import SecretStr

from app.cache.build import make_cache
from app.cache.protocol import Cache, CacheConfig
from tests.conftest import until


@dataclass
class RunningCache:
    """A cache under its `run`.

    Attributes:
        reports: what `on_breaker` was told.
    """

    cache: Cache = None
    reports: list[bool] = field(default_factory=list)

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

    async def given_up(self):
        """Until the breaker is reported open."""
        await until(lambda: self.reports[-1:] == [True])


@asynccontextmanager
async def running_cache(url=None, **config):
    """A `RunningCache`; its time limit is generous, so that only a fault exceeds it."""
    secret = SecretStr(url) if url else None
    running = RunningCache()
    running.cache = make_cache(
        CacheConfig(url=secret, **{"timeout_s": 0.25} | config), running.reports.append
    )
    task = asyncio.create_task(running.cache.run())
    try:
        yield running
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
