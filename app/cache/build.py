"""Configuration to cache."""

from collections.abc import Callable

from app.cache.memory import MemoryCache
from app.cache.protocol import Cache, CacheConfig
from app.cache.redis import RedisCache


def make_cache(config: CacheConfig, on_breaker: Callable[[bool], None]) -> Cache | None:
    """The cache that is configured; None where none is wanted.

    Nothing is connected before its `run`.

    Args:
        config: of this deployment.
        on_breaker: told when Redis is given up (True) and when it is back (False).
    """
    if not config.enabled:
        return None
    url = config.url.get_secret_value() if config.url else ""
    return RedisCache(url, config, on_breaker) if url else MemoryCache(config)
