"""A worker as its gateway sees it: one call over the wire, and what its reply means."""

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx
import orjson

from models.errors import CocoaError, EngineError, NotReady, Unauthorized
from models.records import OnToken, Token
from workers import wire
from workers.config import Role, UpstreamConfig
from workers.deadlines import seconds_left
from workers.hooks import Hooks
from workers.lines import lines
from workers.upstream import Refused, Server, Unreachable, Upstream, session_of

logger = logging.getLogger(__name__)

Decoded = TypeVar("Decoded")


class Peer:
    """One worker as its gateway sees it: its info, and calls of it.

    Attributes:
        upstream: its servers.
        info: what it last said it is.
    """

    def __init__(self, role: Role, config: UpstreamConfig, hooks: Hooks) -> None:
        self.upstream = Upstream(role, config, self._check, on_call=hooks.on_call)
        self.info: Any = None
        self._role = role
        self._request_id = hooks.request_id

    async def connect(self) -> None:
        """Wait until a server has said what it is."""
        await self.upstream.connect()

    async def ask(
        self,
        path: str,
        body: bytes,
        decode: Callable[[Any], Decoded],
        *,
        timeout_s: float | None = None,
        key: str | None = None,
        on_token: OnToken | None = None,
    ) -> tuple[Decoded, Server]:
        """What a server answers to a call, and which one it was.

        Raises:
            Unreachable: none answered.
            CocoaError: what the worker raised.
        """
        began_at = time.monotonic()
        num_streamed = 0

        def stream(token: Token) -> None:
            nonlocal num_streamed
            num_streamed += 1
            if on_token is not None:
                on_token(token)

        async def send(server: Server) -> tuple[Decoded, Server]:
            headers = {wire.WIRE_HEADER: str(wire.VERSION)}
            if (left_s := seconds_left(timeout_s, began_at)) is not None:
                headers[wire.TIMEOUT_HEADER] = f"{left_s:.3f}"
            if key is not None:
                headers[wire.SESSION_HEADER] = session_of(key)
            if (request_id := self._request_id()) is not None:
                headers[wire.REQUEST_ID_HEADER] = request_id
            posting = server.client.stream("POST", path, content=body, headers=headers)
            async with posting as response:
                if response.status_code != 200:
                    raise await _refusal(response)
                try:
                    return decode(await _result(response, stream)), server
                except wire.Garbled as error:
                    raise Unreachable(f"its answer is {error}") from None

        return await self.upstream.call(send, key=key, may_repeat=lambda: not num_streamed)

    async def refresh(self, server: Server) -> None:
        """Ask one server anew what it is; where that fails, what it said before holds."""
        try:
            await self._check(server)
        except (Unreachable, Refused, httpx.TransportError) as error:
            reason = str(error) or type(error).__name__
            logger.warning("%s at %s says not what it is: %s", self._role, server.url, reason)

    async def _check(self, server: Server) -> None:
        response = await server.client.get("/v1/info")
        if response.status_code == 401:
            raise Refused("it wants another key")
        if response.status_code != 200:
            raise Unreachable(str(await _refusal(response)))
        try:
            info = wire.decode_info(self._role, response.content)
        except wire.Garbled as error:
            raise Unreachable(str(error)) from None
        # Of several servers whose weights differ for a while, the first one that is up is told.
        first = next((one for one in self.upstream.servers if one.is_up), server)
        if self.info is None or server is first:
            self.info = info


async def _result(response: httpx.Response, on_token: OnToken) -> Any:
    """The result at the end of the lines; tokens are told as they come.

    It is read to its end: a connection with unread bytes cannot be used again.

    Raises:
        Unreachable: the lines end without one, or the worker has stopped.
        Garbled: a line is none of ours, or comes after the result.
        CocoaError: what the worker raised.
    """
    result = None
    async for line in lines(response):
        if result is not None:
            raise wire.Garbled("longer than its result")
        try:
            value = orjson.loads(line)
        except ValueError:
            raise wire.Garbled("no JSON") from None
        if not isinstance(value, dict) or len(value) != 1:
            raise wire.Garbled("no line of ours")
        [(kind, content)] = value.items()
        if kind == "token":
            on_token(wire.decode_token(content))
        elif kind == "result":
            result = content
        elif kind == "error":
            raise _of_worker(wire.decode_error(content))
        else:
            raise wire.Garbled("no line of ours")
    if result is None:
        raise Unreachable("its answer ends in the middle")
    return result


async def _refusal(response: httpx.Response) -> Exception:
    """What a reply without an answer means.

    A worker that is not ready, or a proxy without one, is passed over like one that cannot be
    reached.
    """
    body = await response.aread()
    try:
        return _of_worker(wire.decode_error(orjson.loads(body)["error"]))
    except (wire.Garbled, ValueError, LookupError, TypeError):
        return Unreachable(f"it answers with status {response.status_code}")


def _of_worker(error: CocoaError) -> Exception:
    """What an error of a worker is to a gateway, whose clients know of no worker.

    One whose model has stopped, or that wants another key, is passed over; a defect of it is its
    model's failure.
    """
    if isinstance(error, NotReady):
        return Unreachable("its model is not ready")
    if isinstance(error, Unauthorized):
        return Unreachable("it wants another key")
    return EngineError(error.message) if type(error) is CocoaError else error
