"""Entries in a Redis that other gateways share, and whose faults no request may feel.

A lookup waits for its values, never for a connection, and concurrent ones share a round trip. A
request that is cancelled leaves nothing behind.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from redis.exceptions import InvalidResponse

from app.cache.breaker import Breaker, State
from app.cache.connection import PATIENCE_S, Command, Connection, within
from app.cache.lane import Dropped, Lane
from app.cache.protocol import CLAIM_S, CacheConfig

Reply = TypeVar("Reply")
# A command and what makes of the reply what is asked for; raises InvalidResponse.
_Question = tuple[Command, Callable[[Any], Any]]

# Of one round trip, so that many lookups cannot make each other late.
_MAX_KEYS = 256
_MAX_WRITE_BYTES = 1_000_000
_MAX_WAITING_KEYS = 100_000
_MAX_WAITING_BYTES = 33_554_432
_CLAIM_MS = round(1000 * CLAIM_S)


class RedisCache:
    """A `Cache` in Redis, asked while it answers in time.

    Args:
        url: of the server.
        config: of this deployment.
        on_state: told of each change of its breaker.
    """

    def __init__(self, url: str, config: CacheConfig, on_state: Callable[[State], None]) -> None:
        self._config = config
        self._breaker = Breaker(
            self._probe,
            on_state,
            lost="the cache is off until Redis recovers",
            found="the cache is on again",
        )
        # A connection each, so that no lookup waits for large values to be stored.
        self._reader, self._writer = (Connection(url, config.ca_file) for _ in range(2))
        read = partial(self._exchange, self._reader, config.timeout_s)
        write = partial(self._exchange, self._writer, PATIENCE_S)
        self._reads: Lane[_Question, Any] = Lane(read, _MAX_KEYS, _MAX_WAITING_KEYS)
        self._writes: Lane[_Question, None] = Lane(write, _MAX_WRITE_BYTES, _MAX_WAITING_BYTES)

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """The entries in the order of the keys, None for a miss; after `timeout_s` all are."""
        if not keys:
            return []
        command = ("MGET", *map(self._name, keys))
        misses: list[bytes | None] = [None] * len(keys)
        return await self._ask(command, partial(_values_of, len(keys)), misses, len(keys))

    async def claim(self, key: str) -> bool:
        """Granted after `timeout_s`, and while Redis is not asked."""
        command = ("SET", self._name(f"claim:{key}"), b"1", "NX", "PX", _CLAIM_MS)
        return await self._ask(command, _is_new, True)

    def put(self, entries: Mapping[str, bytes]) -> None:
        """Store the entries soon, unless they are too large, or more than Redis keeps up with."""
        for key, value in entries.items():
            if len(value) <= self._config.max_entry_bytes:
                self._tell(self._put_command(key, value), _check_stored, len(key) + len(value))

    def keep(self, key: str) -> None:
        command = ("SET", self._name(f"claim:{key}"), b"1", "PX", _CLAIM_MS)
        self._tell(command, _check_stored, len(key))

    def release(self, key: str) -> None:
        self._tell(("DEL", self._name(f"claim:{key}")), _ignore, len(key))

    async def run(self) -> None:
        """Probe Redis until it answers and whenever it fails; end, disconnected, when cancelled."""
        try:
            await self._breaker.run()
        finally:
            await self._disconnect()

    async def _ask(
        self, command: Command, parse: Callable[[Any], Reply], without: Reply, size: int = 1
    ) -> Reply:
        """What Redis replies in time, else `without`."""
        if self._breaker.state != "closed":
            return without
        try:
            asked = self._reads.send((command, parse), size)
            reply: Reply = await within(self._config.timeout_s, asked)
        except (Dropped, TimeoutError):
            return without
        return reply

    def _tell(self, command: Command, parse: Callable[[Any], None], size: int) -> None:
        if self._breaker.state == "closed":
            with suppress(Dropped):
                self._writes.send((command, parse), size)

    async def _exchange(
        self, connection: Connection, limit_s: float, questions: Sequence[_Question]
    ) -> list[Any]:
        with self._breaker.watching():
            commands, parsers = zip(*questions, strict=True)
            replies = await connection.execute(commands, limit_s)
            return [parse(reply) for parse, reply in zip(parsers, replies, strict=True)]

    async def _probe(self) -> None:
        """Connect anew, then write and read in time."""
        await self._disconnect()
        # The first round connects, which includes TLS and the password.
        for limit_s in (PATIENCE_S, self._config.timeout_s):
            [stored] = await self._writer.execute([self._put_command("probe", b"")], limit_s)
            _check_stored(stored)
            [values] = await self._reader.execute([("MGET", self._name("probe"))], limit_s)
            _values_of(1, values)

    async def _disconnect(self) -> None:
        for lane in (self._reads, self._writes):
            await lane.close()
        for connection in (self._reader, self._writer):
            await connection.close()

    def _put_command(self, key: str, value: bytes) -> Command:
        return ("SET", self._name(key), value, "EX", self._config.ttl_s)

    def _name(self, key: str) -> str:
        return f"{self._config.namespace}:{key}"


def _values_of(count: int, reply: Any) -> list[bytes | None]:
    if not isinstance(reply, list) or len(reply) != count:
        raise InvalidResponse("no array of as many values as keys")
    if not {bytes, type(None)}.issuperset(map(type, reply)):
        raise InvalidResponse("an array of other things than values")
    return reply


def _is_new(reply: Any) -> bool:
    return reply is not None


def _check_stored(reply: Any) -> None:
    if not reply:
        raise InvalidResponse("a value was not stored, without a reason")


def _ignore(reply: Any) -> None:
    """However many keys were deleted."""
