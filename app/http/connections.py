"""Bounds of what a connection may cost before a request is whole: time, bytes, open files.

uvicorn has none of them; docs/adr/0019-own-connection-limits.md says why they are here.
"""

import asyncio
import resource
import time
import uuid
from http import HTTPStatus
from typing import Any, Literal

import httptools
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from app.http.errors import error_response
from app.http.schemas import ErrorBody
from app.http.telemetry import Telemetry
from app.settings import Limits
from models.errors import NotReady, Overloaded

# Connections beyond the limit, which answer health checks only.
_NUM_RESERVED = 16
_ANSWERED_ON_RESERVED = ("/livez", "/readyz", "/health", "/metrics")
# Connections that wait to be accepted; one turn of the event loop accepts all of them.
BACKLOG = 100
_SWEEP_S = 0.5
# A client that reads nothing keeps its answer in memory, and the connection open.
_WRITE_S = 30.0
# A server that goes down waits so long for the rest of a body; most come in milliseconds.
_LAST_BODY_S = 1.0
# What the framing of one chunk may take beside its data.
_CHUNK_BYTES = 16


class ConnectionLimits:
    """The open connections of one server.

    Args:
        limits: of connections, heads and times.
        telemetry: told of what is closed or refused.
    """

    def __init__(self, limits: Limits, telemetry: Telemetry) -> None:
        self.limits = limits
        self.telemetry = telemetry
        self._open: dict[GuardedProtocol, None] = {}  # the oldest first
        self._is_sweeping = False
        self._swept_at = 0.0
        self._has_waited = False
        # At most half the files that the process may open: a burst is accepted as a whole, before
        # older connections are closed for it.
        num_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._max_open = limits.max_connections
        if num_files != resource.RLIM_INFINITY:
            self._max_open = min(self._max_open, num_files // 2)

    def protocol(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> asyncio.Protocol:
        """What uvicorn calls for each connection."""
        return GuardedProtocol(self, config, server_state, app_state, _loop)

    def add(self, connection: "GuardedProtocol") -> bool:
        """Whether a connection may stay; where there are too many, it takes another one's place.

        That is the oldest one whose client is the one to act. Where all have a request under way,
        the new one is reserved for health checks.
        """
        if len(self._open) >= self._max_open:
            is_full = len(self._open) >= self._max_open + _NUM_RESERVED
            if (idle := self._oldest_idle(among_reserved=is_full)) is not None:
                idle.drop("evicted")
            elif is_full:
                self.telemetry.observe_one("closed_connections", "refused")
                return False
            else:
                connection.is_reserved = True
        self._open[connection] = None
        if not self._is_sweeping:
            self._sweep()
        return True

    def remove(self, connection: "GuardedProtocol") -> None:
        """Forget a connection that is closed."""
        self._open.pop(connection, None)

    def _oldest_idle(self, *, among_reserved: bool) -> "GuardedProtocol | None":
        for connection in self._open:
            if connection.awaits_client and (among_reserved or not connection.is_reserved):
                return connection
        return None

    def _sweep(self) -> None:
        now = time.monotonic()
        # After the whole process was stopped, what came meanwhile is read first. Not twice in
        # succession: an event loop that is always late must not spare slow clients.
        self._has_waited = now - self._swept_at > 2 * _SWEEP_S and not self._has_waited
        if not self._has_waited:
            for connection in list(self._open):
                connection.check(now)
        self._swept_at = now
        self._is_sweeping = bool(self._open)
        if self._is_sweeping:
            asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits, typed refusals, and no upgrades.

    Attributes:
        is_reserved: whether it answers health checks only.
    """

    def __init__(
        self,
        connections: ConnectionLimits,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.is_reserved = False
        self._all = connections
        self._limits = connections.limits
        self._whole_app = self.app
        self._reading: Literal["head", "body", "nothing"] = "head"
        self._since = time.monotonic()
        self._unread_since: float | None = None
        self._closing_since: float | None = None
        self._draining_since: float | None = None
        # Of the request that is being read: bytes that are not known to be its body, and headers.
        self._num_raw = self._num_headers = 0

    @property
    def awaits_client(self) -> bool:
        """Whether the client is the one to act."""
        if self.flow.write_paused or self.transport.is_closing():
            return True
        cycle = self.cycle
        return not self.pipeline and (cycle is None or cycle.response_complete or cycle.more_body)

    def check(self, now: float) -> None:
        """Close the connection if its client takes longer than it may."""
        if self.transport.is_closing():
            self._closing_since = self._closing_since or now
            if now - self._closing_since > _WRITE_S:
                self.transport.abort()
            return
        if self._unread_since is not None:
            if now - self._unread_since > _WRITE_S:
                self.drop("slow_reader")
            return
        if self._draining_since is not None and now - self._draining_since > _LAST_BODY_S:
            self._refuse_half_a_body()
            return
        if not self.awaits_client or self.flow.read_paused:
            return
        passed_s, max_s = now - self._since, self._limits.max_head_s
        if self._reading == "body":
            # Once woken, the middleware answers; a body that goes on after its answer is dropped.
            if passed_s > self._limits.max_body_s + 2 * _SWEEP_S:
                self.drop("slow_request")
            elif passed_s > self._limits.max_body_s:
                self.cycle.message_event.set()
        elif passed_s > max_s:
            if self._num_raw or (self._reading == "head" and self.headers is not None):
                self._all.telemetry.observe_one("closed_connections", "slow_request")
                message = f"the head of the request was not there in {max_s:g} s"
                self._refuse(408, "request_timeout", message)
            else:
                self.drop("slow_request")

    def drop(self, reason: str) -> None:
        """Close the connection, whatever still waits to be written."""
        self._all.telemetry.observe_one("closed_connections", reason)
        self._all.remove(self)
        self.transport.abort()

    # What uvicorn calls.

    def shutdown(self) -> None:
        """End with the request under way; one whose body does not come is not waited for."""
        self._draining_since = time.monotonic()
        super().shutdown()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._all.add(self):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.remove(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        self._unread_since = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread_since = None
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._num_raw += len(data)
        try:
            self._parse(data)
            self._check_head(self._num_raw)
        except _HeadTooLarge as error:
            self._refuse(431, "head_too_large", str(error))
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _HeadTooLarge):  # raised in a callback of the parser
                self._refuse(431, "head_too_large", str(error.__context__))
            else:
                self.logger.warning("Invalid HTTP request received.")
                self._refuse(400, "invalid_http", "this is no HTTP request")

    # What the parser calls.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._reading, self._since, self._num_raw = "head", time.monotonic(), 0
        self._num_headers = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._num_headers += 1
        if self._num_headers > self._limits.max_headers:
            raise _HeadTooLarge(f"a request may have {self._limits.max_headers} headers")
        if self._reading == "head":  # trailers are left out
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._check_head(len(self.url) + sum(len(name + value) for name, value in self.headers))
        if self.parser.should_upgrade():
            return
        path = self.url.partition(b"?")[0].decode("latin-1")
        self.app = self._whole_app
        if self.is_reserved and path not in _ANSWERED_ON_RESERVED:
            self.app = _refuse_reserved
        super().on_headers_complete()
        if self.is_reserved:
            self.cycle.keep_alive = False
        self._reading, self._since, self._num_raw = "body", time.monotonic(), 0

    def on_body(self, body: bytes) -> None:
        self._num_raw = max(0, self._num_raw - len(body) - _CHUNK_BYTES)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()
            self._reading, self._since, self._num_raw = "nothing", time.monotonic(), 0

    def on_response_complete(self) -> None:
        self._since = time.monotonic()
        super().on_response_complete()

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # The request is read once more, without its offer to upgrade: the parser would not read
            # what follows as its body.
            version = self.parser.get_http_version().encode()
            lines = [self.parser.get_method() + b" " + self.url + b" HTTP/" + version]
            if lines[0].startswith(b"CONNECT"):
                raise httptools.HttpParserError("no proxy") from None
            for name, value in self.headers:
                if name != b"upgrade":
                    lines.append(name + b": " + value)
            head = b"\r\n".join([*lines, b"", b""])
            self.parser = httptools.HttpRequestParser(self)
            self._parse(head + data[upgrade.args[0] :])

    def _check_head(self, num_bytes: int) -> None:
        if num_bytes > self._limits.max_head_bytes:
            message = f"the head of a request may have {self._limits.max_head_bytes} bytes"
            raise _HeadTooLarge(message)

    def _refuse_half_a_body(self) -> None:
        if self._reading == "body" and self.cycle is not None and not self.cycle.response_started:
            self._all.telemetry.observe_one("closed_connections", "slow_request")
            message = "the service is going down, and the body was not complete"
            self._refuse(503, NotReady.code, message)

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answer what is no whole request, and close the connection."""
        if self.awaits_client:
            self._all.telemetry.observe_one("errors", code)
            self.transport.write(_raw_response(status, code, message))
        self.transport.close()


class _HeadTooLarge(Exception):
    """The head of a request, or the trailers behind its body."""


def _raw_response(status: int, code: str, message: str) -> bytes:
    request_id = uuid.uuid4().hex
    body = ErrorBody(code=code, message=message, field=None, request_id=request_id)
    headers = {"x-request-id": request_id, "connection": "close"}
    response = error_response(status, body, headers=headers)
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
    lines += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join([*lines, b"", bytes(response.body)])


async def _refuse_reserved(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer on a connection that is reserved for health checks."""
    message = "every connection has a request under way, the limit"
    body = ErrorBody(code=Overloaded.code, message=message, field=None, request_id=uuid.uuid4().hex)
    response = error_response(429, body, scope["path"], {"Retry-After": "1"})
    await response(scope, receive, send)
