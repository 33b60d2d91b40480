"""Entries in a Redis that other gateways share, and whose faults no request may feel.

A lookup waits for its values, never for a connection, and concurrent ones share a round trip. A
request that is cancelled leaves nothing behind.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any

from redis.exceptions import InvalidResponse

from app.cache.breaker import Breaker
from app.cache.connection import Command, Connection, within
from app.cache.lane import Dropped, Lane
from app.cache.protocol import CacheConfig, State

# Limits of one round trip, so that many lookups cannot make each other late.
_MAX_KEYS = 256
_MAX_WAITING_KEYS = 100_000
_MAX_WRITE_BYTES = 1_000_000
_MAX_WAITING_BYTES = 33_554_432


class RedisCache:
    """A `Cache` in Redis, used while Redis answers in time."""

    def __init__(self, url: str, config: CacheConfig, on_state: Callable[[State], None]) -> None:
        self._config = config
        # A connection each, so that no lookup waits for large values to be stored.
        self._reader = Connection(url, config.ca_file)
        self._writer = Connection(url, config.ca_file)
        self._reads: Lane[list[str], Any] = Lane(self._fetch, _MAX_KEYS, _MAX_WAITING_KEYS)
        self._writes: Lane[Command, Any] = Lane(self._write, _MAX_WRITE_BYTES, _MAX_WAITING_BYTES)
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

    def put(self, entries: Mapping[str, bytes]) -> None:
        if self._breaker.state != "closed":
            return
        for key, value in entries.items():
            if len(value) <= self._config.max_entry_bytes:
                command = "SET", self._name(key), value, "EX", self._config.ttl_s
                with suppress(Dropped):
                    self._writes.send(command, len(key) + len(value))

    async def run(self) -> None:
        await self._breaker.run()

    async def _fetch(self, lookups: Sequence[list[str]]) -> list[list[bytes | None]]:
        """Values of all lookups by one MGET, since each further reply costs."""
        names = list(chain.from_iterable(lookups))
        with self._breaker.watching():
            [reply] = await self._reader.execute([("MGET", *names)], self._config.timeout_s)
            values: Iterator[bytes | None] = iter(_values_in(reply, len(names)))
        return [list(islice(values, len(lookup))) for lookup in lookups]

    async def _write(self, commands: Sequence[Command]) -> list[Any]:
        with self._breaker.watching():
            replies = await self._writer.execute(commands)
            if not all(replies):
                raise InvalidResponse("a value was not stored, without a reason")
            return replies

    async def _probe(self, limit_s: float) -> None:
        """Write, then read."""
        name = self._name("probe")
        await self._writer.execute([("SET", name, b"", "EX", self._config.ttl_s)], limit_s)
        [values] = await self._reader.execute([("MGET", name)], limit_s)
        _values_in(values, 1)

    def _name(self, key: str) -> str:
        """The name of a key, whose last digit is its hash tag: a cluster has keys in 16 slots.

        So a lookup of many takes one MGET for each of these, where one a key would be late.
        """
        return f"{self._config.namespace}:{{{key[-1:]}}}:{key}"


def _values_in(reply: Any, count: int) -> list[bytes | None]:
    if not isinstance(reply, list) or len(reply) != count:
        raise InvalidResponse("no array of as many values as keys")
    if not {bytes, type(None)}.issuperset(map(type, reply)):
        raise InvalidResponse("an array of other things than values")
    return reply
