"""Requests are let in by their keys, within the limits of these."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

from starlette.types import Scope

from app.cache.protocol import CacheConfig
from app.http.telemetry import Telemetry
from app.plugins.keys.buckets import LIMITS
from app.plugins.keys.limits import KeyLimits
from app.plugins.keys.records import Key, KeysConfig
from app.plugins.keys.ring import KeyRing, is_expired
from app.scoring.ask import Caller, current_caller
from models.errors import Unauthorized


class KeyAccess:
    """Keys and their limits (an `Access`).

    Raises:
        KeysFileInvalid: the file cannot be used.
    """

    def __init__(self, config: KeysConfig, cache: CacheConfig, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self.shared_rows = config.shared_rows
        self._ring = KeyRing(Path(config.file), self._on_change)
        self._shared = None
        if url := cache.whole_url():
            # The client of Redis is imported only where a deployment has one.
            from app.plugins.keys.shared import SharedLimits

            self._shared = SharedLimits(url, cache, telemetry.set_limits_breaker)
        self._limits = KeyLimits(self._shared, partial(telemetry.observe_one, "key_refusals"))
        self._by_name: dict[str, Key] = {}
        self._on_change(True)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the file and share the limits."""
        tasks = [asyncio.create_task(self._ring.run())]
        if self._shared is not None:
            tasks.append(asyncio.create_task(self._shared.run()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def admitted(self, scope: Scope, *, costs_tokens: bool) -> AbstractAsyncContextManager[None]:
        """Let a request in by its key, whose name is `key` in the state of the scope.

        Raises:
            Unauthorized: it has no valid key.
            RateLimited: a limit of its key is reached.
        """
        key = self._key_of(scope)
        scope["state"]["key"] = key.name
        return self._request_of(key, costs_tokens=costs_tokens)

    def _key_of(self, scope: Scope) -> Key:
        """The entry of the key that a request has; a request with several keys has none."""
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, token = b" ".join(given).decode("latin-1").strip().partition(" ")
        if len(given) != 1 or scheme.lower() != "bearer":
            raise Unauthorized("send a key, as in Authorization: Bearer KEY")
        if (key := self._ring.find(token.strip())) is None:
            raise Unauthorized("this key is not known")
        if is_expired(key):
            raise Unauthorized("this key has expired")
        return key

    @asynccontextmanager
    async def _request_of(self, key: Key, *, costs_tokens: bool) -> AsyncIterator[None]:
        """Count one request of a key; asks made within are on its behalf."""
        self._telemetry.observe_one("key_requests", key.name)
        async with self._limits.held(key, costs_tokens=costs_tokens):
            charge = partial(self.charge, key.name)
            in_asks = current_caller.set(Caller(key.name, key.namespace, key.modes, charge))
            try:
                yield
            finally:
                current_caller.reset(in_asks)

    def charge(self, name: str, tokens: int = 0, requests: int = 0) -> None:
        """Count what a request turned out to cost its key, if the key is still valid."""
        self._telemetry.observe_one("key_tokens", name, by=tokens)
        if (key := self._by_name.get(name)) is not None:
            self._limits.charge(key, tokens=tokens, requests=requests)

    def _on_change(self, is_good: bool) -> None:
        self._by_name = {key.name: key for key in self._ring.keys}
        self._telemetry.set_keys(list(self._by_name), LIMITS, is_broken=not is_good)
