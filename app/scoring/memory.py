"""Entries by name: looked up, computed once for all who want them at a time, and stored.

What a cache returns is not trusted: a Redis is shared, and others may write to it.
"""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from app.cache.protocol import Cache
from app.scoring.observer import Observer
from app.scoring.result import Source

Value = TypeVar("Value")

# Exceptions of reading JSON of another shape.
_INVALID = (ValueError, TypeError, LookupError, AttributeError)
_SEAL_BYTES = 16


@dataclass(slots=True)
class _Shared:
    """Work under way, which belongs to all who wait for it."""

    task: "asyncio.Task[Any]"
    num_waiters: int = 0


class Memory:
    """Entries over a cache that outlives a request. An invalid entry is a miss."""

    def __init__(self, cache: Cache, observer: Observer) -> None:
        self.cache = cache
        self._observer = observer
        self._under_way: dict[Hashable, _Shared] = {}

    async def get_or_compute(
        self,
        name: str,
        wanted: Hashable,
        read: Callable[[bytes], Value | None],
        compute: Callable[[], Coroutine[Any, Any, tuple[Value, bytes | None]]],
    ) -> tuple[Value, Source]:
        """The value of an entry, or of work that is shared by all who want the same at once.

        Work is cancelled when the last who waits for it has left.

        Args:
            name: of the entry.
            wanted: all beside the name that the value depends on.
            read: the value that an entry's payload makes for this caller; None where it has too
                little. Raises ValueError, TypeError, LookupError or AttributeError for an invalid
                one.
            compute: the value, and what is stored of it; None stores nothing.

        Raises:
            Exception: any that `compute` raises, to all who wait for it.
        """
        [known] = await self.get_many([name], read)
        if known is not None:
            self._observer.observe_one("cache_lookups", "hit")
            return known, "cache"
        self._observer.observe_one("cache_lookups", "miss")
        key = name, wanted
        is_joining = key in self._under_way
        if is_joining:
            self._observer.observe_one("joined_requests")
            shared = self._under_way[key]
        else:
            shared = self._begin(key, self._compute(name, compute))
        shared.num_waiters += 1
        try:
            # Cancelling one waiter, as its deadline does, leaves the task to the others.
            value = await asyncio.shield(shared.task)
        finally:
            shared.num_waiters -= 1
            if not shared.num_waiters and not shared.task.done():
                self._forget(key, shared)  # later callers must not join cancelled work
                shared.task.cancel()
        return value, "joined" if is_joining else "computed"

    async def get_many(
        self, names: Sequence[str], read: Callable[[bytes], Value | None]
    ) -> list[Value | None]:
        """Each entry's payload as `read` makes it, in the order of the names; None for a miss."""
        values: list[Value | None] = []
        for name, entry in zip(names, await self.cache.get_many(names), strict=True):
            value = None
            if entry is not None:
                try:
                    value = read(unseal(name, entry))
                except _INVALID:
                    self._observer.observe_one("cache_corrupt_entries")
            values.append(value)
        return values

    def put(self, payloads: Mapping[str, bytes]) -> None:
        self.cache.put({name: seal(name, payload) for name, payload in payloads.items()})

    async def holds(self, name: str, entry: bytes) -> bool:
        """True where the cache has this very entry, which was read as valid before."""
        has_it = await self.cache.get_many([name]) == [entry]
        if has_it:
            self._observer.observe_one("cache_lookups", "hit")
        return has_it

    def _begin(self, key: Hashable, work: Coroutine[Any, Any, Any]) -> _Shared:
        shared = self._under_way[key] = _Shared(asyncio.create_task(work))

        def ended(task: "asyncio.Task[Any]") -> None:
            self._forget(key, shared)
            if not task.cancelled():
                task.exception()  # marks it as seen: all who waited may have left

        shared.task.add_done_callback(ended)
        return shared

    def _forget(self, key: Hashable, shared: _Shared) -> None:
        if self._under_way.get(key) is shared:
            del self._under_way[key]

    async def _compute(
        self, name: str, compute: Callable[[], Coroutine[Any, Any, tuple[Value, bytes | None]]]
    ) -> Value:
        value, payload = await compute()
        if payload is not None:
            self.put({name: payload})
        return value


def seal(name: str, payload: bytes) -> bytes:
    """The payload behind a digest of name and payload.

    The digest tells it from damaged, moved or foreign entries. It has no secret: all who may write
    and knows this function can seal whatever they like.
    """
    # Names hold no NUL, so that none can end in the middle of a payload.
    named = b"%b\0%b" % (name.encode(), payload)
    return hashlib.blake2b(named, digest_size=_SEAL_BYTES).digest() + payload


def unseal(name: str, entry: bytes) -> bytes:
    """The payload that `seal` was given for this name.

    Raises:
        ValueError: it was given no such payload.
    """
    payload = entry[_SEAL_BYTES:]
    if entry != seal(name, payload):
        raise ValueError("not what was stored under this name")
    return payload
