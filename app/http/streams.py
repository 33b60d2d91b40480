"""Server-sent events: tokens as they are written, then a result or an error."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Protocol

import orjson
from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from app.http.errors import counted_failure, shaped_for
from app.http.json_calls import json_of, unless_gone
from app.http.responses import to_response, token_info
from app.http.telemetry import Telemetry
from app.scoring.result import Result
from models.errors import NotReady
from models.records import OnToken, Token

# Proxies close connections that are silent for a minute or so.
HEARTBEAT_S = 15.0
_HEARTBEAT = b":\n\n"
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would collect events
]
# A server that stops does not wait for a client that reads nothing.
_FAREWELL_S = 1.0

Work = Callable[[OnToken], Coroutine[Any, Any, Result]]


class EventFormat(Protocol):
    """The writer of one stream's events, in the format of an endpoint."""

    def tokens(self, tokens: Sequence[Token]) -> bytes:
        """The events of tokens that came since the last call."""

    def result(self, result: Result) -> bytes:
        """The last event of a stream that succeeds."""

    def error(self, error: dict[str, Any]) -> bytes:
        """The last event of a stream that fails after its first byte; of a whole body's shape."""


class NamedEvents:
    """Events `token`, and at the end `result` or `error`: the bodies of a whole response.

    The reasoning before an answer comes as events `reasoning`.
    """

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id

    def tokens(self, tokens: Sequence[Token]) -> bytes:
        return b"".join(map(_token_event, tokens))

    def result(self, result: Result) -> bytes:
        return _event(b"result", json_of(to_response(result, self._request_id)))

    def error(self, error: dict[str, Any]) -> bytes:
        return _event(b"error", json_of(error))


class EventStream(Response):
    """Sends the tokens and the result of `work`, a task of its own that no slow reader holds up.

    At most the answer waits to be read. The first byte is a token's, or after a while a
    heartbeat's; an error before it is raised, as if nothing were streamed.
    """

    def __init__(self, work: Work, event_format: EventFormat, telemetry: Telemetry) -> None:
        super().__init__()
        self._work = work
        self._format = event_format
        self._telemetry = telemetry
        self._pending: list[Token] = []
        self._news = asyncio.Event()
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything; a client that goes ends the work."""
        try:
            async with unless_gone(Request(scope, receive)):
                await self._send_events(scope, send)
        except asyncio.CancelledError:
            await self._say_farewell(scope, send)
            raise
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_events(self, scope: Scope, send: Send) -> None:
        work = asyncio.create_task(self._work(self._add))
        work.add_done_callback(lambda _: self._news.set())
        try:
            while not work.done():
                await self._send_news(scope, send, work)
            await self._send_end(scope, send, work)
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    def _add(self, token: Token) -> None:
        self._pending.append(token)
        self._news.set()

    async def _send_news(self, scope: Scope, send: Send, work: "asyncio.Task[Result]") -> None:
        """Send the tokens that came, or a heartbeat where none has for long."""
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                await self._news.wait()
        except TimeoutError:
            await self._send(send, _HEARTBEAT)
            return
        self._news.clear()
        if not work.done():  # else an error may yet be the whole response
            await self._send_tokens(scope, send)

    async def _send_tokens(self, scope: Scope, send: Send) -> None:
        tokens, self._pending = self._pending, []
        if not tokens:
            return
        if "first_token" not in scope["state"]:
            scope["state"]["first_token"] = True
            seconds = time.perf_counter() - scope["state"]["started_at"]
            self._telemetry.observe_first_token(scope["route"].path, seconds)
        if events := self._format.tokens(tokens):
            await self._send(send, events)

    async def _send_end(self, scope: Scope, send: Send, work: "asyncio.Task[Result]") -> None:
        try:
            result = await work
            await self._send_tokens(scope, send)
            end = self._format.result(result)
        except Exception as error:
            if not self._has_begun:
                raise
            await self._send_tokens(scope, send)
            end = self._failed(scope, error)
        await self._send(send, end)

    def _failed(self, scope: Scope, error: Exception) -> bytes:
        """The event of an error, which is counted and logged as that of a whole response is."""
        status, body = counted_failure(error, scope, self._telemetry)
        scope["state"]["status"] = status
        return self._format.error(shaped_for(scope["path"], status, body))

    async def _say_farewell(self, scope: Scope, send: Send) -> None:
        """The event of a server that gives up waiting for its responses."""
        if not self._has_begun:
            return  # the middleware has a whole response for it
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                await self._send(send, self._failed(scope, NotReady("the service has stopped")))

    async def _send(self, send: Send, body: bytes) -> None:
        if not self._has_begun:
            self._has_begun = True
            await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        await send({"type": "http.response.body", "body": body, "more_body": True})


def _token_event(token: Token) -> bytes:
    if token.reasoning is not None:
        return _event(b"reasoning", orjson.dumps({"text": token.reasoning}))
    return _event(b"token", orjson.dumps(token_info(token)))


def _event(name: bytes, data: bytes) -> bytes:
    return b"event: " + name + b"\ndata: " + data + b"\n\n"
