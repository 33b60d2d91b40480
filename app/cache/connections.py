"""The two connections to Redis, one to read and one to write, each used by one caller at a time.

What is late is cancelled, which closes its connection: nobody else can take a late reply for their
own.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import InvalidResponse, RedisError

from app.cache.protocol import CLAIM_S, CacheConfig

T = TypeVar("T")
# Nobody waits for a connection to be made, nor for a value to be stored.
_PATIENCE_S = 1.0
_CLAIM_MS = round(1000 * CLAIM_S)
# Rounds of the event loop that bring a reply from the socket to who waits for it.
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Write:
    """One thing to be written.

    Attributes:
        kind: an entry is put; a claim is kept or released.
        key: of the entry.
        value: of what is put.
    """

    kind: Literal["put", "keep", "release"]
    key: str
    value: bytes = b""

    @property
    def num_bytes(self) -> int:
        """What it takes to hold it until it is written."""
        return len(self.key) + len(self.value)


class Connections:
    """Bytes by key in Redis, each call within its time limit."""

    def __init__(self, url: str, config: CacheConfig) -> None:
        self._config = config
        self._reader = connect(url, config.ca_file)
        self._writer = connect(url, config.ca_file)

    async def read(self, keys: Sequence[str], limit_s: float) -> list[bytes | None]:
        """The values in the order of the keys, None for what is not there; one round trip.

        Raises:
            TimeoutError: the limit has passed.
            RedisError: whatever else went wrong, a reply that is none to this question included.
        """
        names = [self._name(key) for key in keys]
        reply: Any = await within(limit_s, self._reader.mget(names))
        if not isinstance(reply, list) or len(reply) != len(names):
            raise InvalidResponse("no array of as many values as keys")
        if not all(value is None or isinstance(value, bytes) for value in reply):
            raise InvalidResponse("an array of other things than values")
        return reply

    async def claim(self, keys: Sequence[str], limit_s: float) -> list[bool]:
        """For each key whether it was free, and is held for `CLAIM_S` from now; one round trip.

        Raises:
            TimeoutError: the limit has passed.
            RedisError: whatever else went wrong.
        """
        pipeline = self._reader.pipeline(transaction=False)
        for key in keys:
            pipeline.set(self._claim(key), b"1", nx=True, px=_CLAIM_MS)
        return [reply is not None for reply in await within(limit_s, pipeline.execute())]

    async def write(self, writes: Sequence[Write], limit_s: float = _PATIENCE_S) -> None:
        """Do all of these in one round trip, in their order.

        Raises:
            TimeoutError: the limit has passed.
            RedisError: whatever else went wrong; some entries may have been stored.
        """
        pipeline = self._writer.pipeline(transaction=False)
        for write in writes:
            if write.kind == "put":
                pipeline.set(self._name(write.key), write.value, ex=self._config.ttl_s)
            elif write.kind == "keep":
                pipeline.set(self._claim(write.key), b"1", px=_CLAIM_MS)
            else:
                pipeline.delete(self._claim(write.key))
        replies = await within(limit_s, pipeline.execute())
        puts = (reply for write, reply in zip(writes, replies, strict=True) if write.kind == "put")
        if not all(puts):
            raise InvalidResponse("an entry was not stored, without a reason")

    async def probe(self) -> None:
        """Connect anew, then read and write in time.

        Raises:
            TimeoutError: Redis is too slow.
            RedisError: whatever else is wrong with it.
        """
        await self.close()
        # The first round connects, which includes TLS and the password.
        for limit_s in (_PATIENCE_S, self._config.timeout_s):
            await self.write([Write("put", "probe")], limit_s)
            await self.read(["probe"], limit_s)

    async def close(self) -> None:
        """Disconnect; a further call connects again."""
        for client in (self._reader, self._writer):
            with suppress(RedisError, OSError):
                await client.aclose()

    def _claim(self, key: str) -> str:
        return self._name(f"claim:{key}")

    def _name(self, key: str) -> str:
        return f"{self._config.namespace}:{key}"


def connect(url: str, ca_file: Path | None) -> Redis:
    """A client, not yet connected, without time limits and repetitions of its own."""
    tls: dict[str, Any] = {}
    if ca_file and url.startswith("rediss:"):
        tls["ssl_ca_certs"] = ca_file
    return Redis.from_url(
        url,
        protocol=2,  # saves the round trip of HELLO
        retry=Retry(NoBackoff(), 0),
        socket_timeout=None,
        socket_connect_timeout=2 * _PATIENCE_S,  # bounds the closing, too
        **tls,
    )


async def within(limit_s: float, exchange: Awaitable[T]) -> T:
    """What the exchange returns.

    A reply that arrived while the event loop was busy elsewhere is not late: at the limit the loop
    looks once more.

    Raises:
        TimeoutError: nothing has arrived; the exchange is cancelled.
    """
    task = asyncio.ensure_future(exchange)
    try:
        await asyncio.wait({task}, timeout=max(limit_s, 0.0))
        for _ in range(_ROUNDS):
            # An exchange that ends cancelled by itself must not pass for the cancellation of its
            # caller.
            if task.done() and not task.cancelled():
                return task.result()
            await asyncio.sleep(0)
        raise TimeoutError
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
