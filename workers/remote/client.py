"""Calls of other servers: the HTTP client, lines of a response, failures."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx

# The most that a reply may bring, none of which is held before it is counted.
MAX_REPLY_BYTES = 67_108_864
# uvicorn, which vLLM and most others stand on, closes a connection that has rested for 5 s. Whoever
# keeps it for longer may use it just then.
_KEEPALIVE_S = 4.0
# The longest wait for a place in httpx's pool, which has one for each call: a wait is a defect.
POOL_S = 5.0


class Unreachable(Exception):
    """A server did not answer, or not with an answer; the text says why, and quotes nothing."""


class Pending(Unreachable):
    """A server that answers, and is being tried out."""


class Refused(Exception):
    """A server that will never answer this process, such as one that wants another key."""


# Failures of a server that brought no answer to a call or to a trial.
NO_ANSWER = (Unreachable, Refused, httpx.TransportError)


class Client:
    """Calls to one server, each on a connection of its own, of those at rest the one used last.

    httpx's own pool polls all its connections at rest, before and after each call:
    10 ms of processor time where 64 calls are under way, .8 so (docs/workers.md). So each
    connection has an `httpx.AsyncClient` of its own.

    It requests replies as they are: a few of their bytes, compressed, may stand for gigabytes.
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None, **options: Any) -> None:
        self.url = url
        self.headers = {"Accept-Encoding": "identity", **(headers or {})}
        if "verify" not in options:
            options["verify"] = httpx.create_ssl_context()  # once: it takes a while
        limits = httpx.Limits(max_connections=1, keepalive_expiry=_KEEPALIVE_S)
        options = {"base_url": url, "headers": self.headers, "limits": limits, **options}
        self._connect = partial(httpx.AsyncClient, **options)
        self.connections: set[httpx.AsyncClient] = set()  # of calls under way and at rest
        # With the monotonic second at which each came to rest; the one used last is at the end.
        self._resting: deque[tuple[float, httpx.AsyncClient]] = deque()

    @asynccontextmanager
    async def stream(self, method: str, path: str, **options: Any) -> AsyncIterator[httpx.Response]:
        """The response to a call, its body not read; options as of `httpx.AsyncClient.stream`.

        The connection of a call that ends by an exception is closed, and no other call has it.

        Raises:
            httpx.TransportError: no response came.
        """
        if self._resting:
            _, client = self._resting.pop()
        else:
            client = self._connect()
            self.connections.add(client)
        request = client.build_request(method, path, **options)
        try:
            response = await _sent(client, request)
            yield response
            await response.aclose()
        except BaseException:  # wherever it was given up, the next call might wait for its end
            await self._close(client)
            raise
        self._resting.append((time.monotonic(), client))
        while self._resting and time.monotonic() - self._resting[0][0] > _KEEPALIVE_S:
            await self._close(self._resting.popleft()[1])

    async def aclose(self) -> None:
        self._resting.clear()
        await asyncio.gather(*map(self._close, list(self.connections)))

    async def _close(self, client: httpx.AsyncClient) -> None:
        self.connections.discard(client)
        await client.aclose()


async def _sent(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """The response to a request, its body not read.

    A connection that ends as it is made has no socket any more on uvloop. httpx looks at the socket
    without asking, and raises `AttributeError`, which no caller can tell from a defect.
    """
    try:
        return await client.send(request, stream=True)
    except AttributeError as error:
        raise httpx.ConnectError("the connection ended as it was made", request=request) from error


async def body_of(response: httpx.Response, max_bytes: int = MAX_REPLY_BYTES) -> bytes:
    """The whole body of a response that is streamed; raises as `pieces` does."""
    body = bytearray()
    async for piece in pieces(response, max_bytes):
        body += piece
    return bytes(body)


async def pieces(response: httpx.Response, max_bytes: int) -> AsyncIterator[bytes]:
    """A response as it comes, and as it was sent: what was compressed all the same stays so.

    Raises:
        Unreachable: it is longer.
    """
    num_bytes = 0
    async for piece in response.aiter_raw():
        num_bytes += len(piece)
        if num_bytes > max_bytes:
            raise Unreachable(f"its reply is longer than {max_bytes} bytes")
        yield piece


async def lines(response: httpx.Response, max_bytes: int = MAX_REPLY_BYTES) -> AsyncIterator[bytes]:
    r"""Lines of a response as they come, blank ones left out, without their ends.

    httpx's own would end at every separator that Unicode knows, and some stand in JSON as they are.
    Bytes after the last \n are no line: whoever sent them was cut off. Raises as `pieces` does.
    """
    pending: list[bytes] = []
    async for chunk in pieces(response, max_bytes):
        first, *rest = chunk.split(b"\n")
        pending.append(first)
        for piece in rest:
            if line := b"".join(pending).rstrip(b"\r"):
                yield line
            pending = [piece]


def reason_of(error: Exception) -> str:
    """The reason of a failure, without words of a request or a reply."""
    if isinstance(error, Unreachable | Refused) and str(error):
        return str(error)
    return type(error).__name__
