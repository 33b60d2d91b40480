"""Who gets in: by an `Access` that a plugin brings, or else by origins whose pages are let in."""

from collections.abc import Collection, Iterable
from contextlib import AbstractAsyncContextManager
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Protocol

from starlette.types import Scope

from models.errors import Forbidden

Headers = Iterable[tuple[bytes, bytes]]

ANY = "*"
_SAME_SITES = (b"same-origin", b"none")  # of `Sec-Fetch-Site`; "none" is typed by a person
_SAFE_METHODS = ("GET", "HEAD")


class Access(Protocol):
    """Who may ask, and how much, where somebody is asked for a key."""

    shared_rows: int  # of answers and samples, which keys have in equal shares

    def admitted(self, scope: Scope, *, costs_tokens: bool) -> AbstractAsyncContextManager[None]:
        """Let a request in until it ends; asks made within are on behalf of who sent it.

        Raises:
            Unauthorized: it has no valid key.
            RateLimited: a limit of its key is reached.
        """


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
            raise Forbidden("pages of this origin may not ask: COCOA_CORS_ORIGINS lists which may")

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
