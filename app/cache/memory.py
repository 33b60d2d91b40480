"""Entries in this process: least recently used go first, and each after its time to live."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from app.cache.protocol import Cache, CacheConfig, State

# Of an entry's objects and its place in the dictionary, measured: entries for pairs of texts are
# small and many.
_OVERHEAD_BYTES = 300


class MemoryCache:
    """A `Cache` that is lost with its process and shared with no other.

    Attributes:
        num_bytes: size of the entries, at most `memory_bytes`.
    """

    def __init__(self, config: CacheConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._entries: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        self.num_bytes = 0

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        now = self._clock()
        values: list[bytes | None] = []
        for key in keys:
            value, expires_at = self._entries.get(key, (None, now))
            if value is not None and expires_at <= now:
                self._forget(key)
                value = None
            if value is not None:
                self._entries.move_to_end(key)
            values.append(value)
        return values

    def put(self, entries: Mapping[str, bytes]) -> None:
        expires_at = self._clock() + self._config.ttl_s
        for key, value in entries.items():
            if len(value) > self._config.max_entry_bytes:
                continue
            if key in self._entries:
                self._forget(key)
            # The copy is as large as it says: a serialiser's bytes keep the whole buffer that they
            # were written into, kilobytes however small the entry.
            copy = bytes(memoryview(value))
            self._entries[key] = copy, expires_at
            self.num_bytes += len(key) + len(copy) + _OVERHEAD_BYTES
            while self.num_bytes > self._config.memory_bytes:
                self._forget(next(iter(self._entries)))

    async def run(self) -> None:
        """Nothing runs beside the calls."""

    def _forget(self, key: str) -> None:
        value, _ = self._entries.pop(key)
        self.num_bytes -= len(key) + len(value) + _OVERHEAD_BYTES


def make_cache(config: CacheConfig, on_state: Callable[[State], None]) -> Cache | None:
    """The cache that is configured, in Redis or in this process; None where it is off."""
    if not config.enabled:
        return None
    if url := config.whole_url():
        # The client of Redis is imported only where a deployment has one.
        from app.cache.redis import RedisCache

        return RedisCache(url, config, on_state)
    return MemoryCache(config)
