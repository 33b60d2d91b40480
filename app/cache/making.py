"""The cache that a deployment asks for."""

from collections.abc import Callable

from app.cache.memory import MemoryCache
from app.cache.protocol import Cache, CacheConfig, State


def make_cache(config: CacheConfig, on_state: Callable[[State], None]) -> Cache | None:
    """The cache that is configured, in Redis or in this process; None where none is wanted."""
    if not config.enabled:
        return None
    if url := config.whole_url():
        # The client of Redis is imported only where a deployment has one.
        from app.cache.redis import RedisCache

        return RedisCache(url, config, on_state)
    return MemoryCache(config)
