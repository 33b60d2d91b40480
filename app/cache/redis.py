"""Entries in a Redis that other gateways share, and whose faults no request may feel.

A lookup waits for its values, never for a connection: one task owns the connection that reads,
another the one that writes. So a request that is cancelled leaves nothing behind, and concurrent
lookups share a round trip.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from app.cache.connections import Connections, Write
from app.cache.health import Health
from app.cache.protocol import CacheConfig

# Of one round trip, so that many lookups cannot make each other late.
_MAX_KEYS = 256
_MAX_WRITE_BYTES = 1_000_000
_MAX_PENDING_BYTES = 33_554_432


@dataclass(slots=True, eq=False)
class _Read:
    """A question that waits for its answer: the values of some keys, or of one who claims it.

    A claim's value is something where it is held by another, so that a miss grants it.
    """

    keys: Sequence[str]
    deadline: float  # on the event loop's clock
    values: asyncio.Future[list[bytes | None]]
    claims: bool = False

    def answer(self, values: list[bytes | None]) -> None:
        if not self.values.done():
            self.values.set_result(values)

    def miss(self) -> None:
        self.answer([None] * len(self.keys))


class RedisCache:
    """A `Cache` in Redis.

    It is asked while it answers in time; else all is a miss until a probe succeeds.
    """

    def __init__(self, url: str, config: CacheConfig, on_breaker: Callable[[bool], None]) -> None:
        self._config = config
        self._redis = Connections(url, config)
        self._health = Health(
            self._redis.probe,
            on_breaker,
            lost="the cache is off until Redis recovers",
            found="the cache is on again",
        )
        self._reads: asyncio.Queue[_Read] = asyncio.Queue()
        self._writes: asyncio.Queue[Write] = asyncio.Queue()
        self._pending_bytes = 0

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """The entries in the order of the keys, None for a miss; after `timeout_s` all are."""
        return await self._ask(keys)

    async def claim(self, key: str) -> bool:
        """See `Cache.claim`; granted after `timeout_s`, and while Redis is not asked."""
        return await self._ask([key], claims=True) == [None]

    def put(self, entries: Mapping[str, bytes]) -> None:
        """Store the entries soon.

        Entries that are too large, or more than Redis can keep up with, are dropped.
        """
        for key, value in entries.items():
            if len(value) <= self._config.max_entry_bytes:
                self._write(Write("put", key, value))

    def keep(self, key: str) -> None:
        """See `Cache.keep`."""
        self._write(Write("keep", key))

    def release(self, key: str) -> None:
        """See `Cache.release`."""
        self._write(Write("release", key))

    async def run(self) -> None:
        """Probe Redis until it answers, serve until it fails, and start again.

        Ends, disconnected, when cancelled.
        """
        try:
            while True:
                await self._health.heal()
                await self._serve()
        finally:
            self._health.reset()
            self._drop_pending()
            await self._redis.close()

    async def _ask(self, keys: Sequence[str], *, claims: bool = False) -> list[bytes | None]:
        if not keys or self._health.is_open:
            return [None] * len(keys)
        loop = asyncio.get_running_loop()
        read = _Read(keys, loop.time() + self._config.timeout_s, loop.create_future(), claims)
        self._reads.put_nowait(read)
        return await read.values

    def _write(self, write: Write) -> None:
        has_room = self._pending_bytes + write.num_bytes <= _MAX_PENDING_BYTES
        if has_room and not self._health.is_open:
            self._pending_bytes += write.num_bytes
            self._writes.put_nowait(write)

    async def _serve(self) -> None:
        """Read and write until one of the two fails."""
        try:
            async with asyncio.TaskGroup() as lanes:
                lanes.create_task(self._serve_reads())
                lanes.create_task(self._serve_writes())
        except* Exception as errors:
            self._health.fail(errors.exceptions[0])
            self._drop_pending()

    async def _serve_reads(self) -> None:
        while True:
            reads = [await self._reads.get()]
            num_keys = len(reads[0].keys)
            while num_keys < _MAX_KEYS and not self._reads.empty():
                reads.append(self._reads.get_nowait())
                num_keys += len(reads[-1].keys)
            try:
                for claims in (False, True):
                    await self._answer([read for read in reads if read.claims is claims], claims)
            finally:
                for read in reads:
                    read.miss()

    async def _answer(self, reads: Sequence[_Read], claims: bool) -> None:
        """Answer reads that are all claims, or none of them, in one round trip."""
        if not reads:
            return
        keys = [key for read in reads for key in read.keys]
        left_s = reads[0].deadline - asyncio.get_running_loop().time()
        if claims:
            values = iter(
                [None if free else b"held" for free in await self._redis.claim(keys, left_s)]
            )
        else:
            values = iter(await self._redis.read(keys, left_s))
        for read in reads:
            read.answer(list(islice(values, len(read.keys))))

    async def _serve_writes(self) -> None:
        while True:
            writes = [await self._writes.get()]
            num_bytes = writes[0].num_bytes
            while num_bytes < _MAX_WRITE_BYTES and not self._writes.empty():
                writes.append(self._writes.get_nowait())
                num_bytes += writes[-1].num_bytes
            await self._redis.write(writes)
            self._pending_bytes -= num_bytes

    def _drop_pending(self) -> None:
        while not self._reads.empty():
            self._reads.get_nowait().miss()
        while not self._writes.empty():
            self._writes.get_nowait()
        self._pending_bytes = 0
