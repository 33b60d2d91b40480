"""Whose pages and names a service without keys answers: any page a person visits can reach it.

A key is sent by whoever has it. Without keys the browser of somebody who may ask is enough, so that
two ways of a foreign page are closed: to ask as the page of another origin, and to ask by a name
of its own that leads to this machine (DNS rebinding).
"""

from collections.abc import Collection, Iterable
from ipaddress import ip_address

from models.errors import Forbidden

Headers = Iterable[tuple[bytes, bytes]]

ANY = "*"
_OWN_SITES = (b"same-origin", b"none")  # of `Sec-Fetch-Site`; "none" is typed by a person
_SAFE_METHODS = ("GET", "HEAD")


class Origins:
    """The check of a service without keys.

    Args:
        address: that the service listens on.
        allowed_hosts: names by which it may be called, beside those that are its own; "*" for any.
        cors_origins: whose pages may ask; "*" for any.
    """

    def __init__(
        self, address: str, allowed_hosts: Collection[str], cors_origins: Collection[str]
    ) -> None:
        # Elsewhere, as behind a Service of Kubernetes, only a deployment knows its names.
        self._checks_names = is_loopback(address) or bool(allowed_hosts)
        self._names = {address.lower(), *(name.lower() for name in allowed_hosts)}
        self._origins = frozenset(origin.lower() for origin in cors_origins)

    def check(self, method: str, headers: Headers) -> None:
        """Refuse what a foreign page asks.

        Raises:
            Forbidden: says which setting lets it in.
        """
        given = dict(headers)
        host = given.get(b"host", b"").decode("latin-1").lower()
        if host and self._checks_names and not self._is_own(_without_port(host)):
            raise Forbidden(
                "the service is not called by this name: COCOA_ALLOWED_HOSTS lists names that the "
                "header Host may have"
            )
        if not self._is_own_page(method, host, given):
            raise Forbidden(
                "pages of this origin may not ask: COCOA_CORS_ORIGINS lists those that may"
            )

    def _is_own(self, name: str) -> bool:
        if ANY in self._names or name in self._names:
            return True
        # A foreign page has a name that somebody has registered, and that has a dot.
        return "." not in name.removesuffix(".localhost") or _is_address(name)

    def _is_own_page(self, method: str, host: str, given: dict[bytes, bytes]) -> bool:
        origin = given.get(b"origin", b"").decode("latin-1").lower()
        if ANY in self._origins or origin in self._origins:
            return True
        if (site := given.get(b"sec-fetch-site")) is not None:
            # Who follows a link sends no origin.
            return site in _OWN_SITES or (not origin and method in _SAFE_METHODS)
        _, _, place = origin.partition("://")
        asked = given.get(b"x-forwarded-host", b"").decode("latin-1").lower()
        return not origin or (place != "" and place in (host, asked))


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"


def _without_port(host: str) -> str:
    if host.startswith("["):  # an address of IPv6
        return host.partition("]")[0].removeprefix("[")
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
