"""What a connection may cost before a request is whole: time, bytes, a file descriptor.

uvicorn bounds none of them.
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
from models.errors import Overloaded

# Connections beyond the limit: whoever asks on one of them learns how the service is, no more.
_NUM_RESERVED = 16
_ANSWERED_ON_RESERVED = ("/livez", "/readyz", "/metrics")
# Connections that wait to be accepted, of which one turn of the event loop accepts all.
BACKLOG = 100
_SWEEP_S = 0.5
# A client that reads nothing keeps its answer in memory, and the connection open.
_WRITE_S = 30.0
# What the line of a chunk may take beside it.
_CHUNK_BYTES = 16

_Reading = Literal["head", "body", "nothing"]


class Connections:
    """The open connections of one server.

    Args:
        limits: of connections, heads and times.
        telemetry: told of what is closed or refused.
    """

    def __init__(self, limits: Limits, telemetry: Telemetry) -> None:
        self.limits = limits
        self.telemetry = telemetry
        self._max_open = max_connections_of(limits)
        self._open: dict[GuardedProtocol, None] = {}  # the oldest first
        self._sweeping: asyncio.TimerHandle | None = None
        self._swept_at = 0.0
        self._waits = False

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

        That is the oldest one whose client keeps it waiting. Where all have a request under way,
        the new one is reserved for health checks.
        """
        if len(self._open) >= self._max_open:
            is_full = len(self._open) >= self._max_open + _NUM_RESERVED
            waiting = self._oldest_waiting(among_reserved=is_full)
            if waiting is not None:
                self.count("evicted")
                waiting.drop()
            elif is_full:
                self.count("refused")
                return False
            else:
                connection.is_reserved = True
        self._open[connection] = None
        if self._sweeping is None:
            self._sweep()
        return True

    def remove(self, connection: "GuardedProtocol") -> None:
        """Forget a connection that is closed."""
        self._open.pop(connection, None)

    def count(self, reason: str) -> None:
        """One connection that was closed before its client wanted that."""
        self.telemetry.observe_closed(reason)

    def _oldest_waiting(self, *, among_reserved: bool) -> "GuardedProtocol | None":
        for connection in self._open:
            if connection.awaits_client and (among_reserved or not connection.is_reserved):
                return connection
        return None

    def _sweep(self) -> None:
        now = time.monotonic()
        # After a stop of the whole process what came meanwhile is read first. Only once: a loop
        # that is always late must not spare the slow.
        self._waits = now - self._swept_at > 2 * _SWEEP_S and not self._waits
        if not self._waits:
            for connection in list(self._open):
                connection.check(now)
        self._swept_at = now
        loop = asyncio.get_running_loop()
        self._sweeping = loop.call_later(_SWEEP_S, self._sweep) if self._open else None


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits, typed refusals, and no upgrades.

    Attributes:
        is_reserved: whether it answers health checks only.
    """

    def __init__(
        self,
        connections: Connections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.is_reserved = False
        self._all = connections
        self._limits = connections.limits
        self._reading: _Reading = "head"
        self._since = time.monotonic()
        self._unread_since: float | None = None
        self._closing_since: float | None = None
        # Of the request that is being read: bytes that came and are not known to be body, bytes and
        # number of headers that the parser has found.
        self._raw_bytes = self._head_bytes = self._num_headers = 0
        # Whether the parser is another one, which reads what follows a head that is known.
        self._resumes = False
        self._whole_app = self.app

    @property
    def awaits_client(self) -> bool:
        """Whether nothing is under way here but what the client has to do next."""
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
        if self._unread_since is not None and now - self._unread_since > _WRITE_S:
            self._all.count("slow_reader")
            self.drop()
        if not self.awaits_client or self.flow.read_paused:
            return
        passed_s = now - self._since
        if self._reading == "body":
            # The middleware answers in time; what comes after an answer is nobody's.
            if passed_s > self._limits.max_body_s + 2 * _SWEEP_S:
                self._all.count("slow_request")
                self.drop()
        elif passed_s > self._limits.max_head_s:
            self._all.count("slow_request")
            if self._raw_bytes or (self._reading == "head" and self.headers is not None):
                message = f"the head of the request was not there in {self._limits.max_head_s:g} s"
                self._refuse(408, "request_timeout", message)
            else:
                self.drop()

    def drop(self) -> None:
        """Close the connection, whatever still waits to be written."""
        self._all.remove(self)
        self.transport.abort()

    # What asyncio and the parser call.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        if not self._all.add(self):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._all.remove(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._unread_since = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._unread_since = None
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`; a request that offers to upgrade is read as if it did not."""
        self._unset_keepalive_if_required()
        self._raw_bytes += len(data)
        try:
            self._parse(data)
            self._check_head(self._raw_bytes)
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _HeadTooLarge):
                self._refuse(431, "head_too_large", str(error.__context__))
            else:
                self.logger.warning("Invalid HTTP request received.")
                self._refuse(400, "invalid_http", "this is no HTTP request")
        except _HeadTooLarge as error:
            self._refuse(431, "head_too_large", str(error))

    def on_message_begin(self) -> None:
        """A request begins."""
        if self._resumes:
            return
        super().on_message_begin()
        self._reading, self._since = "head", time.monotonic()
        self._raw_bytes = self._head_bytes = self._num_headers = 0

    def on_url(self, url: bytes) -> None:
        """Part of a request's target."""
        if self._resumes:
            return
        super().on_url(url)
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; a trailer counts as one, and is left out."""
        if self._resumes:
            return
        self._num_headers += 1
        self._count_head(len(name) + len(value))
        if self._reading == "head":
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The body follows."""
        if self._resumes:
            self._resumes = False
            return
        path = self.url.partition(b"?")[0].decode("latin-1")
        refused = self.is_reserved and path not in _ANSWERED_ON_RESERVED
        self.app = _refuse_reserved if refused else self._whole_app
        super().on_headers_complete()
        if self.is_reserved:
            self.cycle.keep_alive = False
        self._reading, self._since = "body", time.monotonic()
        self._raw_bytes = 0

    def on_body(self, body: bytes) -> None:
        """Part of a body."""
        self._raw_bytes = max(0, self._raw_bytes - len(body) - _CHUNK_BYTES)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole, or, to a parser that expects another protocol, its head."""
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        self._reading, self._since = "nothing", time.monotonic()
        self._raw_bytes = 0

    def on_response_complete(self) -> None:
        """The client's turn."""
        self._since = time.monotonic()
        super().on_response_complete()

    def _parse(self, data: bytes) -> None:
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._framing() + data[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self._resumes = True
            else:
                return

    def _framing(self) -> bytes:
        """A head that says how long the body is, and nothing else."""
        lines = [b"POST / HTTP/1.1"]
        for name, value in self.headers:
            if name in (b"content-length", b"transfer-encoding"):
                lines.append(name + b": " + value)
        return b"\r\n".join([*lines, b"", b""])

    def _count_head(self, num_bytes: int) -> None:
        self._head_bytes += num_bytes
        self._check_head(self._head_bytes)
        if self._num_headers > self._limits.max_headers:
            raise _HeadTooLarge(f"a request may have {self._limits.max_headers} headers")

    def _check_head(self, num_bytes: int) -> None:
        if num_bytes > self._limits.max_head_bytes:
            message = f"the head of a request may have {self._limits.max_head_bytes} bytes"
            raise _HeadTooLarge(message)

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answer what is no whole request, and close the connection."""
        if self.awaits_client:
            self._all.telemetry.observe_error(code)
            self.transport.write(_raw_response(status, code, message))
        self.transport.close()


class _HeadTooLarge(Exception):
    """The head of a request, or its trailers."""


def max_connections_of(limits: Limits) -> int:
    """As many as are allowed, and no more than half the files that the process may open.

    A burst is accepted at once, before older connections are closed for it.
    """
    num_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if num_files == resource.RLIM_INFINITY:
        return limits.max_connections
    return min(limits.max_connections, num_files // 2)


def _raw_response(status: int, code: str, message: str) -> bytes:
    request_id = uuid.uuid4().hex
    body = ErrorBody(code=code, message=message, field=None, request_id=request_id)
    response = error_response(status, body)
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
    for name, value in (
        *response.raw_headers,
        (b"x-request-id", request_id.encode()),
        (b"connection", b"close"),
    ):
        lines.append(name + b": " + value)
    return b"\r\n".join([*lines, b"", bytes(response.body)])


async def _refuse_reserved(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer on a connection that is reserved for health checks."""
    message = "every connection has a request under way, the limit"
    body = ErrorBody(code=Overloaded.code, message=message, field=None, request_id=uuid.uuid4().hex)
    response = error_response(429, body, scope["path"], {"Retry-After": "1"})
    await response(scope, receive, send)
