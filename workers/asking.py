"""Calls of a server that nobody here wrote: JSON both ways, and every way in which that can fail.

A reply that asks for patience (429, or 503 with Retry-After) is heeded for as long as the deadline
allows. No exception quotes what was sent or what came back.
"""

import asyncio
import json
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson

from models.errors import Overloaded
from workers.lines import lines
from workers.upstream import Refused, Unreachable

# The longest wait for a reply: whoever waits for longer has had an error by now.
_TIMEOUT = httpx.Timeout(600.0, connect=5.0)
_FIRST_WAIT_S = 0.5
_MOST_PATIENCE_S = 60.0
_MOST_ERROR_BYTES = 65_536
_EVENT = b"data:"
_END = b"[DONE]"
_OPENED = "connection.connect_tcp.complete"

Opened = Callable[[], None]


def ignore() -> None:
    """For whoever does not care whether a connection was opened."""


class Rejected(Exception):
    """The server refuses this very body, and will again.

    Attributes:
        status: of HTTP, below 500.
        code: that the server gives; "" for none.
    """

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.code = code


class Failed(Exception):
    """The server had the call and failed; it may be repeated."""


async def get_json(client: httpx.AsyncClient, path: str) -> Any:
    """What a GET answers.

    Raises:
        Unreachable: it answers no JSON, or asks for patience.
        Refused: it wants another key.
        Rejected, Failed: see there.
    """
    response = await client.get(path)
    _check(response.status_code, response.content)
    return _parsed(response.content)


async def post_json(
    client: httpx.AsyncClient,
    path: str,
    body: Mapping[str, Any],
    *,
    until: float | None = None,
    on_open: Opened = ignore,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """What a POST answers.

    Args:
        client: of the server.
        path: below its URL.
        body: sent as JSON.
        until: monotonic second of the deadline; None where there is none.
        on_open: told where a new connection was opened for it.
        headers: beside those of the client.

    Raises:
        Overloaded: the server asks for more patience than the deadline has.
        Unreachable, Refused, Rejected, Failed: as in `get_json`.
    """
    async with _posted(client, path, body, until, on_open, headers) as response:
        return _parsed(await response.aread())


async def post_for_events(
    client: httpx.AsyncClient,
    path: str,
    body: Mapping[str, Any],
    *,
    until: float | None = None,
    on_open: Opened = ignore,
    headers: Mapping[str, str] | None = None,
) -> AsyncGenerator[Any, None]:
    """The server-sent events that a POST answers, as they come; see `post_json`.

    They are read to their end: a connection with unread bytes cannot be used again.

    Raises:
        Unreachable: they end before their end, too.
    """
    has_ended = False
    async with _posted(client, path, body, until, on_open, headers) as response:
        async for line in lines(response):
            if has_ended or not line.startswith(_EVENT):
                continue
            data = line.removeprefix(_EVENT).strip()
            if data == _END:
                has_ended = True
            else:
                yield _parsed(data)
    if not has_ended:
        raise Unreachable("its stream broke off")


@asynccontextmanager
async def _posted(
    client: httpx.AsyncClient,
    path: str,
    body: Mapping[str, Any],
    until: float | None,
    on_open: Opened,
    headers: Mapping[str, str] | None,
) -> AsyncIterator[httpx.Response]:
    """A response that is a success, its body not yet read."""

    async def trace(name: str, info: object) -> None:
        if name == _OPENED:
            on_open()

    patience = _Patience(until)
    while True:
        async with client.stream(
            "POST",
            path,
            content=json.dumps(body),  # orjson knows no integer beyond 64 bits
            headers={"Content-Type": "application/json", **(headers or {})},
            timeout=_TIMEOUT,
            extensions={"trace": trace},
        ) as response:
            status = response.status_code
            wait_s = patience.wait_s(status, response.headers)
            if wait_s is None:
                if status != 200:
                    _check(status, await _first_bytes(response))
                yield response
                return
        await asyncio.sleep(wait_s)


class _Patience:
    """How long to wait for a server that has no room, within a deadline."""

    def __init__(self, until: float | None) -> None:
        self._until = time.monotonic() + _MOST_PATIENCE_S if until is None else until
        self._next_s = _FIRST_WAIT_S

    def wait_s(self, status: int, headers: httpx.Headers) -> float | None:
        """Seconds to wait before the next try; None where the reply asks for none.

        Raises:
            Overloaded: there is no time for that.
        """
        asked_s = _seconds(headers.get("retry-after"))
        if status != 429 and not (status == 503 and asked_s is not None):
            return None
        wait_s = self._next_s if asked_s is None else max(asked_s, 0.05)
        self._next_s = min(2 * self._next_s, 8.0)
        if time.monotonic() + wait_s >= self._until:
            message = "the server of the model has no room, and asks to be left alone for longer"
            raise Overloaded(f"{message} than there is time", retry_after_s=math.ceil(wait_s))
        return wait_s


def _seconds(header: str | None) -> float | None:
    """Of a Retry-After; its other form, a date, says nothing where clocks differ."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None


async def _first_bytes(response: httpx.Response) -> bytes:
    """The beginning of an error's body, which tells its code."""
    found = b""
    async for piece in response.aiter_bytes():
        found += piece
        if len(found) > _MOST_ERROR_BYTES:
            break
    return found


def _check(status: int, content: bytes) -> None:
    if status == 200:
        return
    if status in (401, 403):
        raise Refused(f"it refuses the API key (status {status})")
    if status in (429, 502, 503, 504) or status < 400:
        raise Unreachable(f"status {status}")
    if status >= 500:
        raise Failed(f"status {status}")
    raise Rejected(status, _code(content))


def _code(content: bytes) -> str:
    """The code that an OpenAI-compatible error names; "" where it names none."""
    try:
        error = orjson.loads(content).get("error")
        code = error.get("code") if isinstance(error, dict) else None
    except (ValueError, AttributeError):
        return ""
    return code if isinstance(code, str) else ""


def _parsed(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except ValueError:
        raise Unreachable("it answers no JSON") from None
