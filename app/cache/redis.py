"""Entries in a Redis that other gateways share, and whose faults no request may feel.

A lookup waits for its values, never for a connection: one task owns the connection that reads,
another the one that writes. So a request that is cancelled leaves nothing behind, and concurrent
lookups share a round trip.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from app.cache.breaker import Breaker
from app.cache.connections import Connections
from app.cache.faults import kind_of_fault
from app.cache.protocol import CacheConfig

logger = logging.getLogger(__name__)

# Of one round trip, so that many lookups cannot make each other late.
_MAX_KEYS = 256
_MAX_WRITE_BYTES = 1_000_000
_MAX_PENDING_BYTES = 33_554_432


@dataclass(slots=True, eq=False)
class _Read:
    keys: Sequence[str]
    deadline: float  # on the event loop's clock
    values: asyncio.Future[list[bytes | None]]

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
        self._on_breaker = on_breaker
        self._breaker = Breaker()
        self._redis = Connections(url, config)
        self._reads: asyncio.Queue[_Read] = asyncio.Queue()
        self._writes: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._pending_bytes = 0

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """The entries in the order of the keys, None for a miss; after `timeout_s` all are."""
        if not keys or self._breaker.is_open:
            return [None] * len(keys)
        loop = asyncio.get_running_loop()
        read = _Read(keys, loop.time() + self._config.timeout_s, loop.create_future())
        self._reads.put_nowait(read)
        return await read.values

    def put(self, entries: Mapping[str, bytes]) -> None:
        """Store the entries soon.

        Entries that are too large, or more than Redis can keep up with, are dropped.
        """
        if self._breaker.is_open:
            return
        for key, value in entries.items():
            num_bytes = _num_bytes(key, value)
            if (
                len(value) <= self._config.max_entry_bytes
                and self._pending_bytes + num_bytes <= _MAX_PENDING_BYTES
            ):
                self._pending_bytes += num_bytes
                self._writes.put_nowait((key, value))

    async def run(self) -> None:
        """Probe Redis until it answers, serve until it fails, and start again.

        Ends, disconnected, when cancelled.
        """
        try:
            while True:
                await self._heal()
                await self._serve()
        finally:
            self._breaker = Breaker()
            self._drop_pending()
            await self._redis.close()

    async def _heal(self) -> None:
        while self._breaker.is_open:
            await asyncio.sleep(self._breaker.pause_s)
            try:
                await self._redis.probe()
            except Exception as error:
                self._fail(error)
            else:
                self._succeed()

    async def _serve(self) -> None:
        """Read and write until one of the two fails."""
        try:
            async with asyncio.TaskGroup() as lanes:
                lanes.create_task(self._serve_reads())
                lanes.create_task(self._serve_writes())
        except* Exception as errors:
            self._fail(errors.exceptions[0])
            self._drop_pending()

    async def _serve_reads(self) -> None:
        while True:
            reads = [await self._reads.get()]
            num_keys = len(reads[0].keys)
            while num_keys < _MAX_KEYS and not self._reads.empty():
                reads.append(self._reads.get_nowait())
                num_keys += len(reads[-1].keys)
            try:
                left_s = reads[0].deadline - asyncio.get_running_loop().time()
                values = iter(
                    await self._redis.read([key for read in reads for key in read.keys], left_s)
                )
                for read in reads:
                    read.answer(list(islice(values, len(read.keys))))
            finally:
                for read in reads:
                    read.miss()

    async def _serve_writes(self) -> None:
        while True:
            writes = [await self._writes.get()]
            num_bytes = _num_bytes(*writes[0])
            while num_bytes < _MAX_WRITE_BYTES and not self._writes.empty():
                writes.append(self._writes.get_nowait())
                num_bytes += _num_bytes(*writes[-1])
            await self._redis.write(dict(writes))
            self._pending_bytes -= num_bytes

    def _fail(self, error: Exception) -> None:
        if self._breaker.fail(asyncio.get_running_loop().time()):
            logger.warning("the cache is off until Redis recovers: %s", kind_of_fault(error))
            self._on_breaker(True)

    def _succeed(self) -> None:
        if self._breaker.succeed():
            logger.info("the cache is on again")
            self._on_breaker(False)

    def _drop_pending(self) -> None:
        while not self._reads.empty():
            self._reads.get_nowait().miss()
        while not self._writes.empty():
            self._writes.get_nowait()
        self._pending_bytes = 0


def _num_bytes(key: str, value: bytes) -> int:
    return len(key) + len(value)
