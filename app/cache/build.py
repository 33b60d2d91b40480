"""Configuration to cache."""

from collections.abc import Callable

from app.cache.breaker import State
from app.cache.memory import MemoryCache
from app.cache.protocol import Cache, CacheConfig
from app.cache.redis import RedisCache


def make_cache(config: CacheConfig, on_state: Callable[[State], None]) -> Cache | None:
    """The cache that is configured; None where none is wanted.

    Nothing is connected before its `run`.

    Args:
        config: of this deployment.
        on_state: told of each change of the breaker before Redis.
    """
    if not config.enabled:
        return None
    if config.url and (url := config.url.get_secret_value()):
        return RedisCache(url, config, on_state)
    return MemoryCache(config)
