"""What each key has used, as far as this process knows."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from app.keys.buckets import LimitName, level_after, wait_s
from app.keys.records import Key


@dataclass(frozen=True, slots=True)
class Refusal:
    """A limit that is reached, and the seconds until it no longer is, as far as that is known."""

    limit: LimitName
    wait_s: float


@dataclass(slots=True)
class _Usage:
    requests: float
    tokens: float
    at: float
    num_running: int = 0


class LocalLimits:
    """Usage by the names of keys.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._usages: dict[str, _Usage] = {}

    def enter(self, key: Key, *, costs_tokens: bool) -> Refusal | None:
        """Count one request as under way, unless a limit is reached.

        Args:
            key: whose it is.
            costs_tokens: whether the budget of tokens matters for it.
        """
        usage = self._usage(key)
        if key.max_concurrent is not None and usage.num_running >= key.max_concurrent:
            return Refusal("max_concurrent", 0.0)
        if key.requests_per_minute is not None and usage.requests < 1:
            seconds = wait_s(usage.requests, 1, key.requests_per_minute)
            return Refusal("requests_per_minute", seconds)
        if key.tokens_per_minute is not None and costs_tokens and usage.tokens <= 0:
            return Refusal("tokens_per_minute", wait_s(usage.tokens, 0, key.tokens_per_minute))
        usage.requests -= 1
        usage.num_running += 1
        return None

    def leave(self, key: Key) -> None:
        """Count one request as no longer under way."""
        self._usage(key).num_running -= 1

    def charge(self, key: Key, *, requests: int = 0, tokens: int = 0) -> None:
        """Take from the buckets whether or not they hold it; give back what is below 0."""
        usage = self._usage(key)
        usage.requests -= requests
        usage.tokens -= tokens

    def _usage(self, key: Key) -> _Usage:
        """What a key has used, by now; full buckets at first."""
        now = self._clock()
        requests, tokens = key.requests_per_minute or 0, key.tokens_per_minute or 0
        if (usage := self._usages.get(key.name)) is None:
            usage = self._usages[key.name] = _Usage(requests, tokens, now)
        seconds, usage.at = now - usage.at, now
        usage.requests = level_after(usage.requests, seconds, requests)
        usage.tokens = level_after(usage.tokens, seconds, tokens)
        return usage
