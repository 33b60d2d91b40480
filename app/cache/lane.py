"""A queue before a resource that serves one batch at a time: a connection to Redis, or a disk."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")
Reply = TypeVar("Reply")


class Dropped(Exception):
    """An item has no reply; it may have been handled or not.

    The text says why, and quotes nothing of the item.
    """


@dataclass(eq=False)
class Lane(Generic[Item, Reply]):
    """Calls of `handle`, one after another, each with all items that came in meanwhile."""

    # Returns a reply for each item, in order; its exception is that of all its items.
    handle: Callable[[Sequence[Item]], Awaitable[Sequence[Reply]]]
    max_batch: int = 256  # sizes of the items of one batch together; the last item may exceed it
    max_waiting: int = 10_000  # sizes of all items without a reply together

    def __post_init__(self) -> None:
        self._waiting: deque[tuple[Item, int, asyncio.Future[Reply]]] = deque()
        self._batch: list[tuple[Item, int, asyncio.Future[Reply]]] = []
        self._size = 0
        self._task: asyncio.Task[None] | None = None

    def send(self, item: Item, size: int = 1) -> "asyncio.Future[Reply]":
        """The reply, some time later; it need not be waited for, and may be cancelled.

        Raises:
            Dropped: too much waits already.
        """
        if self._size + size > self.max_waiting:
            raise Dropped("too many at once")
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, size, future))
        self._size += size
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return future

    async def close(self) -> None:
        """Stop; items without a reply raise `Dropped`. Later items start the lane anew."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        left = [*self._batch, *self._waiting]
        self._batch.clear()
        self._waiting.clear()
        self._size, self._task = 0, None
        for _, _, future in left:
            _fail(future, Dropped("the service is going down, or has lost its connection"))

    async def _work(self) -> None:
        while self._waiting:
            size = self._next_batch()
            if self._batch:
                await self._serve()
                self._batch.clear()
            self._size -= size
        self._task = None

    def _next_batch(self) -> int:
        """Take the next items, without cancelled ones; return the size of all that were taken."""
        size = 0
        while self._waiting and size < self.max_batch:
            item = self._waiting.popleft()
            size += item[1]
            if not item[2].done():
                self._batch.append(item)
        return size

    async def _serve(self) -> None:
        try:
            replies = await self.handle([item for item, _, _ in self._batch])
        except Exception as error:
            for _, _, future in self._batch:
                _fail(future, error)
            return
        for (_, _, future), reply in zip(self._batch, replies, strict=True):
            if not future.done():
                future.set_result(reply)


def _fail(future: "asyncio.Future[Reply]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # seen: perhaps nobody waits for it
