"""Access: keys and their limits; without keys, the origins whose pages are let in."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from app.cache.protocol import CacheConfig
from app.http.telemetry import Telemetry
from app.keys.limits import KeyLimits
from app.keys.records import Key, KeysConfig
from app.keys.ring import KeyRing, is_expired
from app.scoring.ask import Caller, current_caller
from models.errors import Forbidden, Unauthorized

Headers = Iterable[tuple[bytes, bytes]]

ANY = "*"
_SAME_SITES = (b"same-origin", b"none")  # of `Sec-Fetch-Site`; "none" is typed by a person
_SAFE_METHODS = ("GET", "HEAD")


class Access:
    """Keys and their limits.

    Raises:
        KeysFileInvalid: the file cannot be used.
    """

    def __init__(self, config: KeysConfig, cache: CacheConfig, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._ring = KeyRing(Path(config.file), self._on_change)
        self._shared = None
        if url := cache.whole_url():
            # The client of Redis is imported only where a deployment has one.
            from app.keys.shared import SharedLimits

            self._shared = SharedLimits(url, cache, telemetry.set_limits_breaker)
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
        """The entry of the key that a request has; a request with several keys has none.

        Raises:
            Unauthorized: there is no valid key.
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
        """Count one request of a key; asks made within are on its behalf.

        Raises:
            RateLimited: a limit of the key is reached.
        """
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
        self._telemetry.set_keys(list(self._by_name), is_broken=not is_good)


class Origins:
    """Origins and host names that a service without keys accepts: any visited page can reach it.

    Without keys the browser of somebody who may ask is enough for a foreign page, so that two ways
    are closed: a request from another origin, and one by a foreign name that leads to this machine
    (DNS rebinding).

    Args:
        allowed_hosts: names accepted in `Host` beside local ones and addresses; "*" for any.
        cors_origins: origins whose pages may send requests; "*" for any.
    """

    def __init__(
        self, address: str, allowed_hosts: Collection[str], cors_origins: Collection[str]
    ) -> None:
        # At other addresses, as behind a Service of Kubernetes, the names are not known here.
        self._checks_names = is_loopback(address) or bool(allowed_hosts)
        self._names = {address.lower(), *(name.lower() for name in allowed_hosts)}
        self._origins = frozenset(origin.lower() for origin in cors_origins)

    def check(self, method: str, headers: Headers) -> None:
        """Refuse a request of a foreign page.

        Raises:
            Forbidden: its message names the setting that lets the page in.
        """
        given = dict(headers)
        host = given.get(b"host", b"").decode("latin-1").lower()
        if host and self._checks_names and not self._is_own_name(host):
            raise Forbidden(
                "the service is not called by this name: COCOA_ALLOWED_HOSTS lists names that the "
                "header Host may have"
            )
        if not self._is_own_page(method, host, given):
            raise Forbidden(
                "pages of this origin may not ask: COCOA_CORS_ORIGINS lists those that may"
            )

    def _is_own_name(self, host: str) -> bool:
        name = host.partition(":")[0]
        if host.startswith("["):  # an address of IPv6
            name = host.partition("]")[0].removeprefix("[")
        if ANY in self._names or name in self._names:
            return True
        # A foreign page has a name that somebody has registered, and that has a dot.
        return "." not in name.removesuffix(".localhost") or _address_of(name) is not None

    def _is_own_page(self, method: str, host: str, given: dict[bytes, bytes]) -> bool:
        origin = given.get(b"origin", b"").decode("latin-1").lower()
        if ANY in self._origins or origin in self._origins:
            return True
        if (site := given.get(b"sec-fetch-site")) is not None:
            # A browser that follows a link sends no origin.
            return site in _SAME_SITES or (not origin and method in _SAFE_METHODS)
        _, _, site_host = origin.partition("://")
        forwarded = given.get(b"x-forwarded-host", b"").decode("latin-1").lower()
        return not origin or (site_host != "" and site_host in (host, forwarded))


def is_loopback(host: str) -> bool:
    address = _address_of(host)
    return host == "localhost" if address is None else address.is_loopback


def _address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The IP address that `host` is; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None
