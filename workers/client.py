"""httpx's client, as the gateway calls other servers with it."""

from typing import Any

import httpx


class Client(httpx.AsyncClient):
    """A client for which a connection that ends as it is made is one that could not be made.

    On uvloop such a connection has no socket any more. httpx looks at the socket without asking,
    and raises `AttributeError`, which no caller can tell from a defect.
    """

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """See `httpx.AsyncClient.send`, by which `stream` and `post` go, too.

        Raises:
            httpx.TransportError: no response came.
        """
        try:
            return await super().send(request, **options)
        except AttributeError as error:
            reason = "the connection ended as it was made"
            raise httpx.ConnectError(reason, request=request) from error
