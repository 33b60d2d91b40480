"""Who may ask, and how much: keys and their limits."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app.cache.protocol import CacheConfig
from app.http.telemetry import Telemetry
from app.keys.limits import KeyLimits
from app.keys.records import Key, KeysConfig
from app.keys.ring import KeyRing, is_expired
from app.scoring.ask import Caller, current_caller
from models.errors import Unauthorized

if TYPE_CHECKING:
    from app.keys.shared import SharedLimits

Headers = Iterable[tuple[bytes, bytes]]


class Access:
    """Who may ask, and how much.

    Raises:
        KeysFileInvalid: the file cannot be used.
    """

    def __init__(self, config: KeysConfig, cache: CacheConfig, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._ring = KeyRing(Path(config.file), self._on_change)
        self._shared = _shared_limits(cache, telemetry)
        self._limits = KeyLimits(self._shared, partial(telemetry.observe_one, "key_refusals"))
        self._by_name: dict[str, Key] = {}
        self._on_change(True)

    async def run(self) -> None:
        """Follow the file and share the limits until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._ring.run())
            if self._shared is not None:
                tasks.create_task(self._shared.run())

    def key_of(self, headers: Headers) -> Key:
        """The entry of the key that a request has.

        Of several keys none counts, since only one of them could.

        Raises:
            Unauthorized: there is no valid one.
        """
        given = [value for name, value in headers if name == b"authorization"]
        scheme, _, token = b" ".join(given).decode("latin-1").strip().partition(" ")
        if len(given) != 1 or scheme.lower() != "bearer":
            raise Unauthorized("send a key, as in Authorization: Bearer KEY")
        if (key := self._ring.find(token.strip())) is None:
            raise Unauthorized("this key is not known")
        if is_expired(key):
            raise Unauthorized("this key has expired")
        return key

    @asynccontextmanager
    async def request_of(self, key: Key, *, costs_tokens: bool) -> AsyncIterator[None]:
        """Count one request of a key; what is asked within is asked on its behalf.

        Raises:
            RateLimited: a limit of the key is reached.
        """
        self._telemetry.observe_one("key_requests", key.name)
        async with self._limits.held(key, costs_tokens=costs_tokens):
            charge = partial(self.charge, key)
            in_asks = current_caller.set(Caller(key.name, key.namespace, key.modes, charge))
            try:
                yield
            finally:
                current_caller.reset(in_asks)

    def charge(self, key: Key, tokens: int) -> None:
        self._telemetry.observe_one("key_tokens", key.name, by=tokens)
        if (now := self._by_name.get(key.name)) is not None:
            self._limits.charge(now, tokens=tokens)

    def charge_requests(self, caller: Caller, count: int) -> None:
        if (key := self._by_name.get(caller.name)) is not None:
            self._limits.charge(key, requests=count)

    def _on_change(self, is_good: bool) -> None:
        self._by_name = {key.name: key for key in self._ring.keys}
        self._telemetry.set_keys(list(self._by_name), is_broken=not is_good)


def _shared_limits(cache: CacheConfig, telemetry: Telemetry) -> "SharedLimits | None":
    if not (url := cache.whole_url()):
        return None
    # The client of Redis is imported only where a deployment has one.
    from app.keys.shared import SharedLimits

    return SharedLimits(url, cache, telemetry.set_limits_breaker)


def make_access(config: KeysConfig, cache: CacheConfig, telemetry: Telemetry) -> Access | None:
    if not config.file:
        return None
    return Access(config, cache, telemetry)
