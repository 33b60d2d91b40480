"""One write for all who wait for one: a write that reaches the disk costs the same for many."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from app.feedback.protocol import StoreFailed

Item = TypeVar("Item")
Reply = TypeVar("Reply")

_MAX_ITEMS = 256
_MAX_WAITING = 10_000


class Batches(Generic[Item, Reply]):
    """Calls of `handle`, one after another, each with what has come in during the one before.

    Args:
        handle: returns a reply an item, in order; what it raises, all of the batch raise.
    """

    def __init__(self, handle: Callable[[Sequence[Item]], Awaitable[Sequence[Reply]]]) -> None:
        self._handle = handle
        self._waiting: deque[tuple[Item, asyncio.Future[Reply]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def ask(self, item: Item) -> Reply:
        """The reply to one item.

        Raises:
            StoreFailed: too many wait already.
            Exception: whatever `handle` raises.
        """
        if len(self._waiting) >= _MAX_WAITING:
            raise StoreFailed("too many labels at once")
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await future

    async def close(self) -> None:
        """End; whoever waits is told."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        batch: list[tuple[Item, asyncio.Future[Reply]]] = []
        try:
            while self._waiting:
                batch = self._next_batch()
                await self._handle_all(batch)
        finally:
            self._task = None
            for _, future in [*batch, *self._waiting]:
                if not future.done():
                    future.set_exception(StoreFailed("the service is going down"))
            self._waiting.clear()

    def _next_batch(self) -> list[tuple[Item, "asyncio.Future[Reply]"]]:
        """Those who have not left meanwhile."""
        batch: list[tuple[Item, asyncio.Future[Reply]]] = []
        while self._waiting and len(batch) < _MAX_ITEMS:
            item, future = self._waiting.popleft()
            if not future.done():
                batch.append((item, future))
        return batch

    async def _handle_all(self, batch: Sequence[tuple[Item, "asyncio.Future[Reply]"]]) -> None:
        if not batch:
            return
        try:
            replies = await self._handle([item for item, _ in batch])
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), reply in zip(batch, replies, strict=True):
            if not future.done():
                future.set_result(reply)
