"""How this process calls other servers: its HTTP client, lines of a response, what fails."""

from collections.abc import AsyncIterator
from typing import Any

import httpx

# The most that a reply may bring, none of which is held before it is counted.
MAX_REPLY_BYTES = 67_108_864


class Unreachable(Exception):
    """A server did not answer, or not with an answer; the text says why, and quotes nothing."""


class Refused(Exception):
    """A server that will never answer this process, such as one that wants another key."""


# What says of a server that it brought no answer to a call, or to the question what it is.
NO_ANSWER = (Unreachable, Refused, httpx.TransportError)


class Client(httpx.AsyncClient):
    """A client that reports a connection which ends as it is made as one that could not be made.

    On uvloop such a connection has no socket any more. httpx looks at the socket without asking,
    and raises `AttributeError`, which no caller can tell from a defect.

    It asks for replies as they are: a few of their bytes, compressed, may stand for gigabytes.

    Args:
        named: url by whose host the server knows itself, where `base_url` has an address.
        **options: as in httpx.
    """

    def __init__(self, named: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.headers["Accept-Encoding"] = "identity"
        self._extensions: dict[str, Any] = {}
        if named:
            url = httpx.URL(named)
            self.headers["Host"] = url.netloc.decode()
            self._extensions["sni_hostname"] = url.host

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """The response to a request; `stream` and `post` go through this method, too.

        Raises:
            httpx.TransportError: no response came.
        """
        request.extensions = {**self._extensions, **request.extensions}
        try:
            return await super().send(request, **options)
        except AttributeError as error:
            reason = "the connection ended as it was made"
            raise httpx.ConnectError(reason, request=request) from error


async def body_of(response: httpx.Response, max_bytes: int = MAX_REPLY_BYTES) -> bytes:
    """The whole body of a response that is streamed; raises as `pieces` does."""
    found = bytearray()
    async for piece in pieces(response, max_bytes):
        found += piece
    return bytes(found)


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
    """What happened, without what was said."""
    if isinstance(error, Unreachable | Refused) and str(error):
        return str(error)
    return type(error).__name__
