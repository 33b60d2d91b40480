"""Work ends with the client that asked for it.

FastAPI does not cancel a handler whose client has gone.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from fastapi import Request

Result = TypeVar("Result")

# An answer from the cache is there sooner, and spares the price of a watcher.
_UNWATCHED_S = 0.005


class ClientGone(Exception):
    """The client closed its connection; its work was cancelled."""


async def unless_gone(request: Request, work: Awaitable[Result]) -> Result:
    """Result of `work`, which is cancelled as soon as the client disconnects.

    Raises:
        ClientGone: the client went first.
        Exception: whatever `work` raises.
    """
    watcher = _Watcher(request, asyncio.current_task())
    try:
        return await work
    except asyncio.CancelledError:
        if watcher.saw_it_go:
            raise ClientGone from None
        raise
    finally:
        watcher.stop()


class _Watcher:
    """Cancels a task when the client of its request goes.

    Attributes:
        saw_it_go: whether it has.
    """

    def __init__(self, request: Request, task: "asyncio.Task[Any] | None") -> None:
        self.saw_it_go = False
        self._request = request
        self._worker = task
        self._watching: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_UNWATCHED_S, self._start)

    def stop(self) -> None:
        """Watch no longer; from here on nothing is cancelled."""
        self._timer.cancel()
        if self._watching is not None:
            self._watching.cancel()
        if self.saw_it_go and self._worker is not None:
            self._worker.uncancel()

    def _start(self) -> None:
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self.saw_it_go = True
        if self._worker is not None:
            self._worker.cancel()
