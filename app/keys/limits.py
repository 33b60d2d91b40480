"""The limits of keys: this process's own view, and where there is a Redis that of all gateways."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from app.keys.buckets import LimitName, limit_of
from app.keys.local import LocalLimits, Refusal
from app.keys.records import Key
from app.keys.shared import SharedLimits
from models.errors import RateLimited

# Another gateway may be a moment behind with what has ended.
_SECOND_LOOK_S = 0.1
_WORDS: dict[LimitName, str] = {
    "requests_per_minute": "this key may send {} requests a minute",
    "tokens_per_minute": "this key may have {} tokens computed a minute",
    "max_concurrent": "this key may have {} requests under way",
}


class KeyLimits:
    """What each key may use.

    A process counts what it sees itself in any case. That never refuses what all gateways together
    would let pass, and is where counting goes on when Redis is gone.

    Args:
        local: of this process.
        shared: of all gateways; None where there is no Redis.
        on_refusal: told of each key's name and limit that is reached.
    """

    def __init__(
        self,
        local: LocalLimits,
        shared: SharedLimits | None,
        on_refusal: Callable[[str, LimitName], None],
    ) -> None:
        self._local = local
        self._shared = shared
        self._on_refusal = on_refusal

    @asynccontextmanager
    async def held(self, key: Key, *, costs_tokens: bool) -> AsyncIterator[None]:
        """One request of a key, from its head to the end of its answer.

        Raises:
            RateLimited: a limit is reached; nothing is counted then.
        """
        self._check(key, self._local.enter(key, costs_tokens=costs_tokens))
        shared = self._shared if _has_limits(key) else None
        lease = "" if shared is None else shared.new_lease()
        try:
            if shared is not None:
                refusal = await shared.enter(key, lease, costs_tokens=costs_tokens)
                if refusal is not None and refusal.limit == "max_concurrent":
                    await asyncio.sleep(_SECOND_LOOK_S)
                    refusal = await shared.enter(key, lease, costs_tokens=costs_tokens)
                if refusal is not None:
                    self._local.charge(key, requests=-1)
                self._check(key, refusal)
            yield
        finally:
            self._local.leave(key)
            if shared is not None:
                shared.leave(key, lease)

    def charge(self, key: Key, *, requests: int = 0, tokens: int = 0) -> None:
        """Count what a request has turned out to use; whoever comes next waits for it."""
        self._local.charge(key, requests=requests, tokens=tokens)
        if self._shared is not None and _has_limits(key):
            self._shared.charge(key, requests=requests, tokens=tokens)

    def _check(self, key: Key, refusal: Refusal | None) -> None:
        if refusal is None:
            return
        self._on_refusal(key.name, refusal.limit)
        seconds = max(1, math.ceil(refusal.wait_s))
        message = _WORDS[refusal.limit].format(limit_of(key, refusal.limit))
        if refusal.limit != "max_concurrent":
            message = f"{message}; the next in {seconds} s"
        raise RateLimited(message, limit=refusal.limit, retry_after_s=seconds)


def _has_limits(key: Key) -> bool:
    limits = (key.requests_per_minute, key.tokens_per_minute, key.max_concurrent)
    return any(limit is not None for limit in limits)
