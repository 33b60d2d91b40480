"""Which requests get in: at which port, and with which key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from app.http.access import Access
from app.http.routes.page import FILES_PATH, PAGE_PATH

# What orchestrators, Prometheus and readers of the documentation ask: it needs no key, and goes to
# the second port where there is one. Whatever is not named here needs a key.
_OPERATION = frozenset(
    {
        "/livez",
        "/readyz",
        "/metrics",
        "/docs",
        "/docs/oauth2-redirect",
        "/redoc",
        "/openapi.json",
    }
)
_ASSETS = "/static-offline-docs/"
_AT_BOTH_PORTS = "/version"
_OPS_PORT = "cocoa.ops_port"  # marks what came by it
# What a budget of tokens has no say in.
_FREE_PATHS = frozenset({"/feedback"})


class NoSuchPath(Exception):
    """The path is another port's."""


class Gate:
    """Lets requests pass, or refuses them before anything of their bodies is read.

    Args:
        access: whose keys are needed; None where none are.
        has_ops_port: whether operation has a port of its own.
    """

    def __init__(self, access: Access | None, *, has_ops_port: bool) -> None:
        self._access = access
        self._has_ops_port = has_ops_port

    @asynccontextmanager
    async def passed(self, scope: Scope) -> AsyncIterator[None]:
        """One request, from its head to the end of its answer.

        Raises:
            NoSuchPath: it is not served at this port.
            Unauthorized: it has no key that is good.
            RateLimited: a limit of its key is reached.
        """
        path: str = scope["path"]
        is_operation = path in _OPERATION or path.startswith(_ASSETS)
        is_ops_port = _OPS_PORT in scope
        if self._has_ops_port and path != _AT_BOTH_PORTS and is_operation != is_ops_port:
            raise NoSuchPath
        is_page = path == PAGE_PATH or path.startswith(FILES_PATH)  # says nothing without a key
        if self._access is None or is_operation or is_ops_port or is_page:
            yield
            return
        key = self._access.key_of(_credentials(scope))
        scope["state"]["key"] = key.name
        costs_tokens = scope["method"] == "POST" and path not in _FREE_PATHS
        async with self._access.request_of(key, costs_tokens=costs_tokens):
            yield


def with_keys(document: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI document of a service whose paths need a key."""
    schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["key"] = {"type": "http", "scheme": "bearer"}
    for path, operations in document["paths"].items():
        if path not in _OPERATION:
            for operation in operations.values():
                operation["security"] = [{"key": []}]
    return document


def at_ops_port(app: ASGIApp) -> ASGIApp:
    """The application as its port of operation shows it."""

    async def at_port(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, _OPS_PORT: True}, receive, send)

    return at_port


def _credentials(scope: Scope) -> str:
    """The value of `Authorization`; of several none, since only one of them could be heeded."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    return values[0].decode("latin-1") if len(values) == 1 else ""
