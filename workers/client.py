"""How this process calls other servers: its HTTP client, lines of a response, what fails."""

from collections.abc import AsyncIterator
from typing import Any

import httpx


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
    """

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """The response to a request; `stream` and `post` go through this method, too.

        Raises:
            httpx.TransportError: no response came.
        """
        try:
            return await super().send(request, **options)
        except AttributeError as error:
            reason = "the connection ended as it was made"
            raise httpx.ConnectError(reason, request=request) from error


async def lines(response: httpx.Response) -> AsyncIterator[bytes]:
    r"""Lines of a response as they come, blank ones left out, without their ends.

    httpx's own would end at every separator that Unicode knows, and some stand in JSON as they are.
    Bytes after the last \n are no line: whoever sent them was cut off.
    """
    pending: list[bytes] = []
    async for chunk in response.aiter_bytes():
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
