"""Entries in a Redis that other gateways share, and whose faults no request may feel.

A lookup waits for its values, never for a connection: one task owns the connection that reads, another the one that
writes. So a request that is cancelled leaves nothing behind, concurrent lookups share a round trip, and a connection
whose reply is late is closed by its owner before anyone else could take that reply for their own.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar, cast

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)

from app.cache.breaker import Breaker
from app.cache.protocol import CacheConfig

logger = logging.getLogger(__name__)
T = TypeVar("T")

# Nobody waits for a connection to be made, nor for a value to be stored.
_PATIENCE_S = 1.0
# Rounds of the event loop that bring a reply from the socket to who waits for it.
_ROUNDS = 4
# Of one exchange, so that a few large ones cannot hold the many small ones up.
_MAX_KEYS = 256
_MAX_WRITE_BYTES = 1_000_000
_MAX_PENDING_BYTES = 33_554_432


# The first that fits names a fault.
_KINDS: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    ((AuthenticationError,), "authentication refused"),
    ((NoPermissionError,), "permission refused"),
    ((OutOfMemoryError,), "out of memory"),
    ((ReadOnlyError,), "read-only"),
    ((BusyLoadingError,), "loading"),
    ((TimeoutError, RedisTimeoutError), "too slow"),
    ((OSError, RedisConnectionError), "unreachable"),
    ((ResponseError,), "refused"),
)


@dataclass(slots=True, eq=False)
class _Read:
    keys: list[str]
    deadline: float  # on the event loop's clock
    values: asyncio.Future[list[bytes | None]]

    def answer(self, values: list[bytes | None]) -> None:
        if not self.values.done():
            self.values.set_result(values)

    def miss(self) -> None:
        self.answer([None] * len(self.keys))


class RedisCache:
    """A `Cache` in Redis. It is asked while it answers in time; else all is a miss until a probe succeeds."""

    def __init__(self, url: str, config: CacheConfig, on_breaker: Callable[[bool], None]) -> None:
        self._config = config
        self._on_breaker = on_breaker
        self._breaker = Breaker()
        self._reader, self._writer = _client(url, config), _client(url, config)
        self._reads: asyncio.Queue[_Read] = asyncio.Queue()
        self._writes: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._pending_bytes = 0

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """The entries in the order of the keys, None for a miss; after `timeout_s` all are."""
        if not keys or self._breaker.is_open:
            return [None] * len(keys)
        loop = asyncio.get_running_loop()
        names = [self._name(key) for key in keys]
        read = _Read(names, loop.time() + self._config.timeout_s, loop.create_future())
        self._reads.put_nowait(read)
        return await read.values

    def put(self, entries: Mapping[str, bytes]) -> None:
        """Store the entries soon; what is too large, or more than Redis can keep up with, is dropped."""
        if self._breaker.is_open:
            return
        for key, value in entries.items():
            num_bytes = len(key) + len(value)
            if len(value) <= self._config.max_entry_bytes and self._pending_bytes + num_bytes <= _MAX_PENDING_BYTES:
                self._pending_bytes += num_bytes
                self._writes.put_nowait((key, value))

    async def run(self) -> None:
        """Probe Redis until it answers, serve until it fails, and so on; ends, disconnected, when cancelled."""
        try:
            while True:
                await self._heal()
                await self._serve()
        finally:
            self._breaker = Breaker()
            self._drop_pending()
            await self._disconnect()

    async def _heal(self) -> None:
        while self._breaker.is_open:
            await asyncio.sleep(self._breaker.pause_s)
            try:
                await self._probe()
            except Exception as error:
                self._fail(error)
            else:
                self._succeed()

    async def _probe(self) -> None:
        """Raise unless Redis stores and answers in time, on the connections that will be used."""
        await self._disconnect()
        # The first time connects, which includes TLS and the password, and takes as long as it takes.
        for limit_s in (_PATIENCE_S, self._config.timeout_s):
            await _within(limit_s, self._write({"probe": b""}))
            await _within(limit_s, self._reader.mget(self._name("probe")))

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
                values = await _within(left_s, self._reader.mget([key for read in reads for key in read.keys]))
                remaining = iter(cast("list[bytes | None]", values))
                for read in reads:
                    read.answer(list(islice(remaining, len(read.keys))))
            finally:
                for read in reads:
                    read.miss()

    async def _serve_writes(self) -> None:
        while True:
            writes = [await self._writes.get()]
            num_bytes = len(writes[0][0]) + len(writes[0][1])
            while num_bytes < _MAX_WRITE_BYTES and not self._writes.empty():
                writes.append(self._writes.get_nowait())
                num_bytes += len(writes[-1][0]) + len(writes[-1][1])
            await _within(_PATIENCE_S, self._write(dict(writes)))
            self._pending_bytes -= num_bytes

    async def _write(self, entries: Mapping[str, bytes]) -> None:
        pipeline = self._writer.pipeline(transaction=False)
        for key, value in entries.items():
            pipeline.set(self._name(key), value, ex=self._config.ttl_s)
        await pipeline.execute()

    def _fail(self, error: BaseException) -> None:
        if self._breaker.fail(asyncio.get_running_loop().time()):
            logger.warning("the cache is off until Redis recovers: %s", _kind(error))
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

    async def _disconnect(self) -> None:
        for client in (self._reader, self._writer):
            with suppress(RedisError, OSError):
                await client.aclose()

    def _name(self, key: str) -> str:
        return f"{self._config.namespace}:{key}"


def _client(url: str, config: CacheConfig) -> Redis:
    """A client of one lane. Time limits stand around whole exchanges, and a failed one is never repeated."""
    tls: dict[str, Any] = {"ssl_ca_certs": config.ca_file} if config.ca_file and url.startswith("rediss:") else {}
    return Redis.from_url(
        url,
        protocol=2,  # saves the round trip of HELLO
        retry=Retry(NoBackoff(), 0),
        socket_timeout=None,
        socket_connect_timeout=_PATIENCE_S,
        **tls,
    )


async def _within(limit_s: float, exchange: Awaitable[T]) -> T:
    """What the exchange returns.

    A reply that arrived while the event loop was busy elsewhere is not late: at the limit the loop looks once more.

    Raises:
        TimeoutError: nothing has arrived; the exchange was cancelled, and its connection closed.
    """
    task = asyncio.ensure_future(exchange)
    try:
        await asyncio.wait({task}, timeout=max(limit_s, 0.0))
        for _ in range(_ROUNDS):
            if task.done():
                return task.result()
            await asyncio.sleep(0)
        raise TimeoutError
    finally:
        task.cancel()
        await asyncio.wait({task})


def _kind(error: BaseException) -> str:
    """What kind of fault it is, in fixed words: an error's own text may hold a key, a value or the URL."""
    if isinstance(error.__context__, ssl.SSLError):
        return "TLS failed"
    for types, kind in _KINDS:
        if isinstance(error, types):
            return kind
    return type(error).__name__
