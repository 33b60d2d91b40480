"""The limits of keys: this gateway's own, and where there is a Redis the buckets of all."""

import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.plugins.keys.buckets import LIMITS, LimitName, Refusal, level_after, wait_s
from app.plugins.keys.records import Key
from models.errors import RateLimited

if TYPE_CHECKING:
    from app.plugins.keys.shared import SharedLimits  # imports Redis

_WORDS: dict[LimitName, str] = {
    "requests_per_minute": "this key may send {} requests a minute",
    "tokens_per_minute": "this key may have {} tokens computed a minute",
    "max_concurrent": "this key may have {} requests under way",
}


@dataclass(slots=True)
class _Usage:
    """The usage of one key in this process: levels of its buckets, full at first."""

    at: float
    levels: dict[LimitName, float] = field(default_factory=dict)
    num_running: int = 0


@dataclass(eq=False)
class KeyLimits:
    """The limits of each key.

    Requests under way are counted by each gateway for itself. So are the buckets: its own are never
    stricter than the shared ones, and take over when Redis is away.
    """

    shared: "SharedLimits | None"
    on_refusal: Callable[[str, LimitName], None]
    clock: Callable[[], float] = time.monotonic
    _usages: dict[str, _Usage] = field(default_factory=dict)

    @asynccontextmanager
    async def held(self, key: Key, *, costs_tokens: bool) -> AsyncIterator[None]:
        """One request of a key, from its head to the end of its answer.

        Raises:
            RateLimited: a limit is reached; nothing is counted then.
        """
        usage = self._usage(key)
        self._check(key, _refusal(key, usage, costs_tokens))
        _take(usage, "requests_per_minute", 1)
        usage.num_running += 1
        try:
            if self.shared is not None:
                refusal = await self.shared.enter(key, costs_tokens=costs_tokens)
                if refusal is not None:
                    _take(self._usage(key), "requests_per_minute", -1)
                self._check(key, refusal)
            yield
        finally:
            usage.num_running -= 1

    def charge(self, key: Key, *, requests: int = 0, tokens: int = 0) -> None:
        """Count what a request turned out to cost; later requests wait for it."""
        usage = self._usage(key)
        _take(usage, "requests_per_minute", requests)
        _take(usage, "tokens_per_minute", tokens)
        if self.shared is not None:
            self.shared.charge(key, requests=requests, tokens=tokens)

    def _usage(self, key: Key) -> _Usage:
        """The usage of a key by now. A bucket is forgotten while the key has no such limit."""
        now = self.clock()
        usage = self._usages.setdefault(key.name, _Usage(now))
        seconds, usage.at = now - usage.at, now
        levels, usage.levels = usage.levels, {}
        for name, per_minute in _per_minute(key):
            usage.levels[name] = level_after(levels.get(name, per_minute), seconds, per_minute)
        return usage

    def _check(self, key: Key, refusal: Refusal | None) -> None:
        if refusal is None:
            return
        self.on_refusal(key.name, refusal.limit)
        seconds = max(1, math.ceil(refusal.wait_s))
        message = _WORDS[refusal.limit].format(getattr(key, refusal.limit))
        if refusal.limit != "max_concurrent":
            message = f"{message}; the next in {seconds} s"
        raise RateLimited(message, limit=refusal.limit, retry_after_s=seconds)


def _per_minute(key: Key) -> list[tuple[LimitName, int]]:
    limits: list[tuple[LimitName, int]] = []
    for name in LIMITS[:2]:
        if (per_minute := getattr(key, name)) is not None:
            limits.append((name, per_minute))
    return limits


def _refusal(key: Key, usage: _Usage, costs_tokens: bool) -> Refusal | None:
    if key.max_concurrent is not None and usage.num_running >= key.max_concurrent:
        return Refusal("max_concurrent", 0.0)
    for name, per_minute in _per_minute(key):
        level = usage.levels[name]
        if name == "requests_per_minute" and level < 1:
            return Refusal(name, wait_s(level, 1, per_minute))
        if name == "tokens_per_minute" and costs_tokens and level <= 0:
            return Refusal(name, wait_s(level, 0, per_minute))
    return None


def _take(usage: _Usage, name: LimitName, amount: int) -> None:
    """Take from a bucket whether or not it holds as much; give back what is below 0."""
    if name in usage.levels:
        usage.levels[name] -= amount
