"""Entries in a Redis that other gateways share, and whose faults no request may feel.

A lookup waits for its values, never for a connection, and concurrent ones share a round trip. A
request that is cancelled leaves nothing behind.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from redis.exceptions import InvalidResponse

from app.cache.breaker import Breaker
from app.cache.connection import PATIENCE_S, Command, Connection, within
from app.cache.lane import Dropped, Lane
from app.cache.protocol import CLAIM_S, CacheConfig, State

# Limits of one round trip, so that many lookups cannot make each other late.
_MAX_KEYS = 256
_MAX_WAITING_KEYS = 100_000
_MAX_WRITE_BYTES = 1_000_000
_MAX_WAITING_BYTES = 33_554_432
_CLAIM_MS = round(1000 * CLAIM_S)


class RedisCache:
    """A `Cache` in Redis, used while Redis answers in time."""

    def __init__(self, url: str, config: CacheConfig, on_state: Callable[[State], None]) -> None:
        self._config = config
        # A connection each, so that no lookup waits for large values to be stored.
        self._reader = Connection(url, config.ca_file)
        self._writer = Connection(url, config.ca_file)
        # A list of names is looked up, a single name is claimed.
        self._reads: Lane[list[str] | str, Any] = Lane(self._read, _MAX_KEYS, _MAX_WAITING_KEYS)
        self._writes: Lane[Command, Any] = Lane(self._write, _MAX_WRITE_BYTES, _MAX_WAITING_BYTES)
        self._keepers: dict[str, asyncio.Task[None]] = {}  # of claims
        self._breaker = Breaker(
            self._probe,
            (self._reads, self._writes, self._reader, self._writer),
            config.timeout_s,
            on_state,
            lost="the cache is off until Redis recovers",
            recovered="the cache is on again",
        )

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        names = list(map(self._name, keys))
        if names and self._breaker.state == "closed":
            with suppress(Dropped, TimeoutError):
                values: list[bytes | None]
                values = await within(self._config.timeout_s, self._reads.send(names, len(names)))
                return values
        return [None] * len(names)

    async def claim(self, key: str) -> bool:
        if self._breaker.state == "closed":
            with suppress(Dropped, TimeoutError):
                name = self._name(f"claim:{key}")
                if await within(self._config.timeout_s, self._reads.send(name)) is None:
                    return False
                self._keepers[key] = asyncio.create_task(self._keep(key))
        return True

    def put(self, entries: Mapping[str, bytes]) -> None:
        for key, value in entries.items():
            if len(value) <= self._config.max_entry_bytes:
                self._send("SET", key, value, "EX", self._config.ttl_s, size=len(key) + len(value))

    def release(self, key: str) -> None:
        if (keeper := self._keepers.pop(key, None)) is not None:
            keeper.cancel()
        self._send("DEL", f"claim:{key}")

    async def run(self) -> None:
        try:
            await self._breaker.run()
        finally:
            for keeper in self._keepers.values():
                keeper.cancel()

    async def _keep(self, key: str) -> None:
        """Renew a claim of this process until it is released."""
        while True:
            await asyncio.sleep(CLAIM_S / 3)
            self._send("SET", f"claim:{key}", b"1", "PX", _CLAIM_MS)

    def _send(self, verb: str, key: str, *arguments: bytes | str | int, size: int = 64) -> None:
        if self._breaker.state == "closed":
            with suppress(Dropped):
                self._writes.send((verb, self._name(key), *arguments), size)

    async def _read(self, lookups: Sequence[list[str] | str]) -> list[Any]:
        """Values and claims, in one round trip; one MGET, since each further reply costs."""
        names: list[str] = []
        commands: list[Command] = []
        for lookup in lookups:
            if isinstance(lookup, list):
                names += lookup
            else:
                commands.append(("SET", lookup, b"1", "NX", "PX", _CLAIM_MS))
        if names:
            commands.append(("MGET", *names))
        with self._breaker.watching():
            claims = await self._reader.execute(commands, self._config.timeout_s)
            values: Iterator[bytes | None] = iter(())
            if names:
                values = iter(_values_in(claims.pop(), len(names)))
        replies: list[Any] = []
        for lookup in lookups:
            if isinstance(lookup, list):
                replies.append(list(islice(values, len(lookup))))
            else:
                replies.append(claims.pop(0))
        return replies

    async def _write(self, commands: Sequence[Command]) -> list[Any]:
        with self._breaker.watching():
            replies = await self._writer.execute(commands, PATIENCE_S)
            for command, reply in zip(commands, replies, strict=True):
                if command[0] == "SET" and not reply:
                    raise InvalidResponse("a value was not stored, without a reason")
            return replies

    async def _probe(self, limit_s: float) -> None:
        """Write, then read."""
        name = self._name("probe")
        await self._writer.execute([("SET", name, b"", "EX", self._config.ttl_s)], limit_s)
        [values] = await self._reader.execute([("MGET", name)], limit_s)
        _values_in(values, 1)

    def _name(self, key: str) -> str:
        return f"{self._config.namespace}:{key}"


def _values_in(reply: Any, count: int) -> list[bytes | None]:
    if not isinstance(reply, list) or len(reply) != count:
        raise InvalidResponse("no array of as many values as keys")
    if not {bytes, type(None)}.issuperset(map(type, reply)):
        raise InvalidResponse("an array of other things than values")
    return reply
