"""Bounds of what a connection may cost before a request is whole: time, bytes, open files.

uvicorn has none of them; docs/adr/0019-own-connection-limits.md says why they are here.
"""

import asyncio
import resource
import time
import uuid
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import Any, Literal, NoReturn

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.http.errors import error_response
from app.http.middleware import RESERVED
from app.http.schemas import ErrorBody
from app.http.telemetry import Telemetry
from app.settings import Limits

# Connections beyond the limit, which answer health checks only.
_NUM_RESERVED = 16
# Connections that wait to be accepted; one turn of the event loop accepts all of them.
BACKLOG = 100
_SWEEP_S = 0.5
# A client that reads nothing keeps its answer in memory, and the connection open.
_WRITE_S = 30.0
# Most bytes of the framing of a chunk, beside its data.
_CHUNK_BYTES = 16


class ConnectionLimits:
    """The open connections of one server, made by `protocol`."""

    def __init__(self, limits: Limits, telemetry: Telemetry) -> None:
        self.limits, self.telemetry = limits, telemetry
        self.protocol = partial(GuardedProtocol, self)
        self.open: dict[GuardedProtocol, None] = {}  # the oldest first
        self._is_sweeping = False
        # At most half the files that the process may open: a burst is accepted as a whole, before
        # older connections are closed for it.
        num_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._max_open = limits.max_connections
        if num_files != resource.RLIM_INFINITY:
            self._max_open = min(self._max_open, num_files // 2)

    def add(self, connection: "GuardedProtocol") -> None:
        """Keep a connection; where there are too many, drop the oldest that waits for its client.

        Where all have a request under way, the new connection is for health checks alone.
        """
        if len(self.open) >= self._max_open:
            oldest = islice(self.open, self._max_open)
            idle = next((old for old in oldest if old.awaits_client), None)
            if idle is not None:
                idle.drop("evicted")
            elif len(self.open) >= self._max_open + _NUM_RESERVED:
                connection.drop("refused")
                return
            else:
                connection.app_state = {**connection.app_state, RESERVED: True}
        self.open[connection] = None
        if not self._is_sweeping:
            self._sweep()

    def _sweep(self) -> None:
        now = time.monotonic()
        for connection in list(self.open):
            connection.check(now)
        self._is_sweeping = bool(self.open)
        if self._is_sweeping:
            # After the whole process was stopped, input that came meanwhile is read first, in the
            # turn between the two timers.
            loop = asyncio.get_running_loop()
            loop.call_later(_SWEEP_S, loop.call_later, 0, self._sweep)


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits, typed refusals, and no upgrades."""

    def __init__(self, connections: ConnectionLimits, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._all, self._limits = connections, connections.limits
        self._reading: Literal["head", "body", "nothing"] = "head"
        self._since = time.monotonic()
        self._stuck_since: float | None = None  # with an answer that the client does not read
        self._refusal = 400, "invalid_http", "this is no HTTP request"
        # Of the request that is being read: bytes that are not known to be its body, and headers.
        self._num_raw = self._num_headers = 0

    @property
    def awaits_client(self) -> bool:
        if self.flow.write_paused or self.transport.is_closing():
            return True
        cycle = self.cycle
        return not self.pipeline and (cycle is None or cycle.response_complete or cycle.more_body)

    def check(self, now: float) -> None:
        if self.transport.is_closing():
            self._stuck_since = self._stuck_since or now
        if self._stuck_since is not None:
            if now - self._stuck_since > _WRITE_S:
                self.drop(None if self.transport.is_closing() else "slow_reader")
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
            if not self._num_raw and (self._reading != "head" or self.headers is None):
                self.drop("slow_request")
                return
            self._all.telemetry.observe_one("closed_connections", "slow_request")
            self._refuse(408, "request_timeout", f"the head was not there in {max_s:g} s")

    def drop(self, reason: str | None) -> None:
        """Close the connection, its output unwritten, and count the reason unless it is None."""
        if reason is not None:
            self._all.telemetry.observe_one("closed_connections", reason)
        self._all.open.pop(self, None)
        self.transport.abort()

    # Called by asyncio.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.open.pop(self, None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        self._stuck_since = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stuck_since = None
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._num_raw += len(data)
        try:
            self._parse(data)
            self._check_head(self._num_raw)
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self._refuse(*self._refusal)

    # Called by the parser.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._reads("head")
        self._num_headers = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._num_headers += 1
        if self._num_headers > self._limits.max_headers:
            self._refuse_head(f"a request may have {self._limits.max_headers} headers")
        if self._reading == "head":  # trailers are left out
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._check_head(len(self.url) + sum(len(name + value) for name, value in self.headers))
        if not self.parser.should_upgrade():
            super().on_headers_complete()
            self.cycle.keep_alive &= RESERVED not in self.app_state
            if self.scope["http_version"] == "1.0":
                _send_no_chunks(self.cycle)
            self._reads("body")

    def on_body(self, body: bytes) -> None:
        self._num_raw = max(0, self._num_raw - len(body) - _CHUNK_BYTES)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()
            self._reads("nothing")

    def on_response_complete(self) -> None:
        self._since = time.monotonic()
        super().on_response_complete()

    def _reads(self, part: Literal["head", "body", "nothing"]) -> None:
        self._reading, self._since, self._num_raw = part, time.monotonic(), 0

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # The request is read once more, without its offer to upgrade: the parser would not read
            # what follows as its body.
            method, version = self.parser.get_method(), self.parser.get_http_version().encode()
            if method == b"CONNECT":
                raise httptools.HttpParserError("no proxy") from None
            lines = [method + b" " + self.url + b" HTTP/" + version]
            lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
            self.parser = httptools.HttpRequestParser(self)
            self._parse(b"\r\n".join([*lines, b"", data[upgrade.args[0] :]]))

    def _check_head(self, num_bytes: int) -> None:
        if num_bytes > self._limits.max_head_bytes:
            self._refuse_head(f"the head may have {self._limits.max_head_bytes} bytes")

    def _refuse_head(self, message: str) -> NoReturn:
        """Refuse the head of a request, or the trailers behind its body."""
        self._refusal = 431, "head_too_large", message
        raise httptools.HttpParserError

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answer an incomplete request with an error, and close the connection.

        So is one with bytes behind it that are no request: its length was told too small.
        """
        is_alone = self.cycle is not None and not self.pipeline
        if self.awaits_client or (is_alone and not self.cycle.response_started):
            self._all.telemetry.observe_one("errors", code)
            request_id = uuid.uuid4().hex
            body = ErrorBody(code=code, message=message, field=None, request_id=request_id)
            closing = {"x-request-id": request_id, "connection": "close"}
            response = error_response(status, body, "", closing)
            lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
            lines += [name + b": " + value for name, value in response.raw_headers]
            self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()


def _send_no_chunks(cycle: RequestResponseCycle) -> None:
    """Have a response without a length end with its connection: HTTP/1.0 knows no chunks.

    uvicorn would send it in chunks, and `100 Continue` before it, to any client.
    """
    send = cycle.send
    cycle.chunked_encoding = cycle.waiting_for_100_continue = False

    async def send_plain(message: Any) -> None:
        cycle.expected_content_length = len(message.get("body", b""))
        await send(message)

    cycle.send = send_plain  # type: ignore[method-assign]
