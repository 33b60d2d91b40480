"""Calls of other servers: the HTTP client, lines of a response, failures."""

import io
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp

# The most that a reply may bring, none of which is held before it is counted.
MAX_REPLY_BYTES = 67_108_864
# uvicorn, which vLLM and most others stand on, closes a connection that has rested for 5 s. Whoever
# keeps it for longer may use it just then.
_KEEPALIVE_S = 4.0


class Unreachable(Exception):
    """A server did not answer, or not with an answer; the text says why, and quotes nothing."""


class Unconnected(Unreachable):
    """The connection could not be made, or ended before the answer did."""


class Pending(Unreachable):
    """A server that answers, and is being tried out."""


class Refused(Exception):
    """A server that will never answer this process, such as one that wants another key."""


# What happened to a connection, by the last class that fits.
_TROUBLES: Mapping[type[Exception], str] = {
    TimeoutError: "it sends nothing",
    aiohttp.ConnectionTimeoutError: "no connection is answered",
    aiohttp.ClientConnectorError: "no connection can be made",
    aiohttp.ClientResponseError: "it speaks no HTTP",
}
# Failures of a server that brought no answer to a call or to a trial.
NO_ANSWER = (Unreachable, Refused)


@dataclass(frozen=True, slots=True)
class Response:
    """A reply whose body comes in `chunks`, as it was sent: what was compressed stays so."""

    asked: str  # method and path
    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class Client:
    """Calls to one server, each on a connection of its own, which later ones use again.

    It requests replies as they are: a few of their bytes, compressed, may stand for gigabytes.

    Args:
        headers, params: of each call.
        connect_s, silence_s: the longest wait for a connection, and for the next bytes.
        tls: None takes the system's authorities.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        params: Mapping[str, str] | None = None,
        connect_s: float = 5.0,
        silence_s: float = 5.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.url = url
        self.headers = {"Accept-Encoding": "identity", **(headers or {})}
        self._params, self._tls = params or None, tls
        self._connect_s, self._silence_s = connect_s, silence_s
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        silence_s: float | None = None,
        on_connection: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[Response]:
        """The response to a call, its body not read.

        The connection of a call that ends by an exception is closed, and no other call has it.
        `on_connection` is called where a new one was needed.

        Raises:
            Unconnected: no response came, or not all of it.
        """
        silence_s = silence_s or self._silence_s
        asking = self._opened().request(
            method,
            self.url + path,
            data=content and io.BytesIO(content),
            params=self._params,
            headers=headers,
            timeout=aiohttp.ClientTimeout(connect=self._connect_s, sock_read=silence_s),
            allow_redirects=False,
            trace_request_ctx=on_connection,
        )
        try:
            async with asking as response:  # with unread bytes its connection is closed
                asked, chunks = f"{method} {response.url.path}", response.content.iter_any()
                yield Response(asked, response.status, response.headers, chunks)
        except (aiohttp.ClientError, ConnectionError) as error:
            words = "it ends connections"
            for kind, said in _TROUBLES.items():
                if isinstance(error, kind):
                    words = said
            raise Unconnected(words) from error

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:  # it wants a running loop
            tracing = aiohttp.TraceConfig()
            tracing.on_connection_create_end.append(_tell_connected)
            connector = aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=_KEEPALIVE_S,
                ssl=self._tls or True,
                use_dns_cache=False,  # the servers behind a name change
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers=self.headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                proxy=_proxy_of(self.url),
                trace_configs=[tracing],
            )
        return self._session


def _proxy_of(url: str) -> str | None:
    """The proxy that the environment names for a URL (aiohttp would read ~/.netrc as well)."""
    scheme, _, rest = url.partition("://")
    if proxy_bypass(rest.partition("/")[0]):
        return None
    return getproxies().get(scheme)


async def _tell_connected(session: object, context: Any, params: object) -> None:
    context.trace_request_ctx()


async def body_of(response: Response, max_bytes: int = MAX_REPLY_BYTES) -> bytes:
    """The whole body of a response; raises as `pieces` does."""
    return b"".join([piece async for piece in pieces(response, max_bytes)])


async def pieces(response: Response, max_bytes: int) -> AsyncIterator[bytes]:
    """A response as it comes.

    Raises:
        Unreachable: it is longer.
    """
    num_bytes = 0
    async for piece in response.chunks:
        num_bytes += len(piece)
        if num_bytes > max_bytes:
            raise Unreachable(f"its reply is longer than {max_bytes} bytes")
        yield piece


async def lines(response: Response, max_bytes: int = MAX_REPLY_BYTES) -> AsyncIterator[bytes]:
    r"""Lines of a response as they come, blank ones left out, without their ends.

    A line ends at \n alone: other separators that Unicode knows stand in JSON as they are.
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
