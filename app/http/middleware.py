"""Pure ASGI around every request: id, log line, errors, who gets in, the body, the endpoint."""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Collection, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

from fastapi.routing import APIRoute
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.access import Access, Origins
from app.http.encodings import unpacked
from app.http.errors import answer_to
from app.http.logs import current_request_id
from app.http.telemetry import Telemetry
from app.settings import Limits, Settings
from models.errors import NotReady, Overloaded

logger = logging.getLogger(__name__)

# Paths for orchestrators, Prometheus and readers of the documentation. They need no key, and
# are served at the second port where there is one; every other path needs a key.
_HEALTH_PATHS = ("/livez", "/readyz", "/health", "/metrics")
_PAGES_OF_DOCUMENTATION = frozenset({"/docs", "/docs/oauth2-redirect", "/redoc"})
OPERATION_PATHS = frozenset({*_HEALTH_PATHS, *_PAGES_OF_DOCUMENTATION, "/openapi.json"})
# No other page may show these in a frame.
_NO_FRAMES = (
    (b"content-security-policy", b"frame-ancestors 'none'"),
    (b"x-frame-options", b"DENY"),
)
_ASSETS = "/static-offline-docs/"
_AT_BOTH_PORTS = "/version"
OPS_PORT = "cocoa.ops_port"  # in the scope of requests to the second port
RESERVED = "reserved"  # in the state of requests on a connection for health checks
_NO_RESPONSE = 499  # the status in metrics where the client went before a response began
_POLL = "/v1/info"  # of a worker: each gateway requests it every second; it is not counted
_PROBES = (*_HEALTH_PATHS, _POLL)  # logged at debug only
_MAX_DIGITS = 19  # a longer Content-Length is too large without being parsed
_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")


def add_middleware(
    app: Starlette,
    telemetry: Telemetry,
    limits: Limits,
    gate: "Gate",
    endpoints: Iterable[BaseRoute] = (),
) -> None:
    """Put this middleware around an application, whose calls in JSON these endpoints take."""
    if endpoints:
        app.add_middleware(JsonCalls, routes=endpoints)  # the innermost
    app.add_middleware(BodyLimit, limits=limits)
    app.add_middleware(RequestLog, telemetry=telemetry, gate=gate)


class RequestLog:
    """Gives each request an id, lets it in, answers its errors, then counts it and logs a line.

    A slash at the end of a path changes nothing; HEAD is GET, whose body the server leaves out.

    A client's `X-Request-ID` of up to 128 printable characters is kept, else an id is made; every
    response carries it. The state of the scope has `request_id` and `started_at`, and once they are
    known `status`, `error_code` and `key`.

    Starlette's own handler of errors would raise on to the server, whose log would quote the
    exception's text.
    """

    def __init__(self, app: ASGIApp, telemetry: Telemetry, gate: "Gate") -> None:
        self._app = app
        self._telemetry = telemetry
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.perf_counter()
        if scope["path"].endswith("/") and scope["path"].strip("/"):
            scope["path"] = scope["path"].rstrip("/")
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        request_id = dict(scope["headers"]).get(b"x-request-id", b"")
        if _REQUEST_ID.fullmatch(request_id) is None:
            request_id = secrets.token_hex(16).encode()
        state = scope.setdefault("state", {})
        state |= {"request_id": request_id.decode(), "started_at": started_at}

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                state["status"] = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id)]
                if scope["path"] in _PAGES_OF_DOCUMENTATION:
                    message["headers"] += _NO_FRAMES
            await send(message)

        in_logs = current_request_id.set(state["request_id"])
        try:
            async with self._gate.passed(scope):
                await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            state["status"] = _NO_RESPONSE  # no client is left to read a response
        except asyncio.CancelledError:
            # The server gives up draining; without a response it would send an untyped 500.
            if "status" not in state:
                response = answer_to(NotReady("the service has stopped"), scope, self._telemetry)
                await response(scope, receive, send_with_id)
            raise
        except Exception as error:
            response = answer_to(error, scope, self._telemetry)
            if "status" not in state:
                await response(scope, receive, send_with_id)
        finally:
            seconds = time.perf_counter() - started_at
            await asyncio.sleep(0)  # the event loop sends what was written at the end of its turn
            self._record(scope, seconds)
            current_request_id.reset(in_logs)

    def _record(self, scope: Scope, seconds: float) -> None:
        state, status = scope["state"], scope["state"].get("status", _NO_RESPONSE)
        route = getattr(scope.get("route"), "path", "none")  # the template, never the raw path
        if route != _POLL:
            self._telemetry.observe_request(route, status, seconds)
        level = logging.INFO
        if route in _PROBES:
            level = logging.DEBUG
        elif status >= 500:
            level = logging.WARNING
        fields = {
            "route": route,
            "status": status,
            "seconds": round(seconds, 4),
            "code": state.get("error_code"),
            "key": state.get("key"),
        }
        logger.log(level, "request", extra=fields)


@dataclass(frozen=True, slots=True)
class Gate:
    """Lets requests in or refuses them, before any of a body is read."""

    access: Access | Origins | None = None  # None lets every request in
    has_ops_port: bool = False
    # Of routes that need no key; of a template, all that begins like it.
    open_paths: Collection[str] = ()
    free_paths: Collection[str] = ()  # of routes that cost no tokens

    @classmethod
    def of(
        cls,
        settings: Settings,
        keys: Access | None,
        open_paths: Collection[str],
        free_paths: Collection[str],
    ) -> "Gate":
        """The gate of these settings: by keys, or without any by where a request comes from."""
        origins = Origins(settings.host, settings.allowed_hosts, settings.cors_origins)
        return cls(keys or origins, settings.ops_port is not None, open_paths, free_paths)

    def passed(self, scope: Scope) -> AbstractAsyncContextManager[None]:
        """Let a request in, by its connection, its port and its key, until it ends.

        Raises:
            Overloaded: its connection is kept for health checks.
            HTTPException: 404, the path is not served at this port.
            Unauthorized: it has no valid key.
            RateLimited: a limit of its key is reached.
            Forbidden: no keys are needed, and it is of a foreign page.
        """
        path: str = scope["path"]
        if RESERVED in scope["state"] and path not in _HEALTH_PATHS:
            message = "every connection has a request under way, the limit"
            raise Overloaded(message, retry_after_s=1)
        is_operation = path in OPERATION_PATHS or path.startswith(_ASSETS)
        is_ops_port = OPS_PORT in scope
        if self.has_ops_port and path != _AT_BOTH_PORTS and is_operation != is_ops_port:
            raise HTTPException(404)
        if isinstance(self.access, Origins):
            if not is_ops_port:
                self.access.check(scope["method"], scope["headers"])
            return nullcontext()
        if self.access is None or is_operation or is_ops_port or self._is_open(path):
            return nullcontext()
        costs_tokens = scope["method"] == "POST" and path not in self.free_paths
        return self.access.admitted(scope, costs_tokens=costs_tokens)

    def _is_open(self, path: str) -> bool:
        for template in self.open_paths:
            fixed, parameter, _ = template.partition("{")
            if path == fixed or (parameter and path.startswith(fixed)):
                return True
        return False


class BodyLimit:
    """Reads each body itself and replays it to the application.

    That way the limits hold for chunked and compressed bodies too. The state of the scope has the
    whole `body`, unpacked.
    Where nothing comes any more, the server's connection wakes this when the time has passed: a
    timer for each request would cost more than reading most bodies.

    Raises:
        ClientDisconnect: the client went before its body was complete.
        HTTPException: 413, too large, by its declared length, as it comes or unpacked; 408, too
            slow; 415, in an encoding that is not read.
        RequestValidationError: it cannot be unpacked.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = await self._whole_body(scope, receive)
        if body and (encoding := dict(scope["headers"]).get(b"content-encoding")):
            of_header, max_bytes = encoding.decode("latin-1"), self._limits.max_body_bytes
            body = await asyncio.to_thread(unpacked, body, of_header, max_bytes)
        scope["state"]["body"] = body
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def replayed() -> Message:
            """The body once, and then messages of the server, so that a disconnect is seen."""
            if unread:
                return unread.pop()
            return await receive()

        await self._app(scope, replayed, send)

    async def _whole_body(self, scope: Scope, receive: Receive) -> bytes:
        max_bytes, max_s = self._limits.max_body_bytes, self._limits.max_body_s
        declared = dict(scope["headers"]).get(b"content-length", b"0").lstrip(b"0")
        if declared.isdigit() and (len(declared) > _MAX_DIGITS or int(declared) > max_bytes):
            raise HTTPException(413, f"the body exceeds {max_bytes} bytes")
        body, has_more, began_at = bytearray(), True, time.monotonic()
        while has_more:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientDisconnect
            body += message.get("body", b"")
            if len(body) > max_bytes:
                raise HTTPException(413, f"the body exceeds {max_bytes} bytes")
            has_more = message.get("more_body", False)
            if has_more and time.monotonic() - began_at > max_s:
                reason, headers = f"the body was not there in {max_s:g} s", {"Connection": "close"}
                raise HTTPException(408, reason, headers)
        return bytes(body)


class JsonCalls:
    """Has each POST answered by its endpoint, which it finds by the path alone.

    These endpoints read the request and write the response by themselves. FastAPI documents them;
    its way to an endpoint, through routers, handlers of errors and a solver of dependencies, would
    be a tenth of what a request costs beside the models.
    """

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute]) -> None:
        self._app = app
        self._posts: dict[str, APIRoute] = {}
        for route in routes:
            if isinstance(route, APIRoute) and route.methods == {"POST"}:
                self._posts[route.path] = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = None
        if scope["type"] == "http" and scope["method"] == "POST":
            route = self._posts.get(scope["path"])
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = route
        response: Response = await route.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)


def at_ops_port(app: ASGIApp) -> ASGIApp:
    """The application as it is served at its second port, that of operation."""

    async def at_port(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, OPS_PORT: True}, receive, send)

    return at_port
