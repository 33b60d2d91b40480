"""How many requests may be under way, and when a refused one should come back."""

import asyncio
import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from models.errors import Overloaded
from workers.turns import Turns

# Waits until a request may run, and gives the seconds waited.
Turn = Callable[[], AbstractAsyncContextManager[float]]

_RECENT = 64
_MAX_RETRY_AFTER_S = 60
# Places that a caller may hold for each one that is free: alone three quarters of all; of several
# who take all they can each the same number, and one more caller finds a place.
_HELD_PER_FREE = 3
# Of all places, for requests that come alone.
_KEPT_FREE = 0.25


class Admission:
    """Counts requests from admission to their end, so that no queue behind it grows without bound.

    Attributes:
        num_admitted: requests under way, waiting ones included.

    Args:
        limit: requests under way before one is refused.
        concurrent_items: items of a caller that run at once where no request runs that came alone.
        turns: where callers are told apart; None where all are one.
    """

    def __init__(self, limit: int, concurrent_items: int = 2, turns: Turns | None = None) -> None:
        self.limit, self.concurrent_items = limit, concurrent_items
        self.num_admitted = 0
        self._items: Counter[str] = Counter()
        self._waiting_items: defaultdict[str, deque[asyncio.Future[None]]] = defaultdict(deque)
        self._turns = turns
        self._held: Counter[str] = Counter()
        # Of each recent request that ended, the seconds it took, and how many were under way then.
        self._ended: deque[tuple[float, float]] = deque(maxlen=_RECENT)
        # Seconds of all requests together, up to the last count, and when those under way began.
        self._request_s, self._counted_at, self._began_at_s = 0.0, 0.0, 0.0

    @property
    def num_waiting(self) -> int:
        """Requests that hold a place and wait for their turn."""
        if self._turns is None:
            return 0
        return self._turns.num_waiting

    @asynccontextmanager
    async def admit(self, caller: str = "", rows: int = 1) -> AsyncIterator[float]:
        """Hold one of `limit` places, and run when it is one's turn; gives the seconds waited.

        Raises:
            Overloaded: all are taken, or as many as one caller may hold; `retry_after_s` is the
                queue over the recent rate.
        """
        self._count_time()
        num_free, num_held = self.limit - self.num_admitted, self._held[caller]
        if num_free <= 0:
            reason = f"{self.num_admitted} requests are under way, the admission limit"
            raise Overloaded(reason, retry_after_s=self._retry_after_s())
        if self._turns is not None and num_held >= _HELD_PER_FREE * num_free:
            reason = f"{num_held} requests of this key are under way; {num_free} places are others'"
            raise Overloaded(reason, retry_after_s=self._retry_after_s())
        self.num_admitted += 1
        self._held[caller] += 1
        self._begin_items(caller)
        began_at, request_s = time.monotonic(), self._request_s
        self._began_at_s += began_at
        try:
            if self._turns is None:
                yield 0.0
                return
            came_at = time.monotonic()
            async with self._turns.turn(caller, rows):
                yield time.monotonic() - came_at
        finally:
            self._count_time()
            self.num_admitted -= 1
            self._held[caller] -= 1
            self._began_at_s -= began_at
            if (seconds := self._counted_at - began_at) > 0:
                self._ended.append((seconds, (self._request_s - request_s) / seconds))
            self._begin_items(caller)

    @asynccontextmanager
    async def admit_item(self, caller: str = "", rows: int = 1) -> AsyncIterator[float]:
        """The same for an item of a call that brings several; they ask in turn, the oldest first.

        Of a caller as many items run at once as requests that came alone, so that neither starve:
        at least `concurrent_items`, and beyond these only while a quarter of all places is free.
        """
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting_items[caller]
        waiting.append(begun)
        self._begin_items(caller)
        try:
            await begun
            async with self.admit(caller, rows) as waited_s:
                yield waited_s
        finally:
            if begun.done() and not begun.cancelled():
                self._items[caller] -= 1
            elif begun in waiting:
                waiting.remove(begun)
            self._begin_items(caller)

    def _begin_items(self, caller: str) -> None:
        waiting = self._waiting_items[caller]
        while waiting and self._items[caller] < self._most_items(caller):
            begun = waiting.popleft()
            if not begun.cancelled():
                self._items[caller] += 1
                begun.set_result(None)

    def _most_items(self, caller: str) -> int:
        num_items = self._items[caller]
        num_alone = self._held[caller] - num_items
        num_free = self.limit - self.num_admitted - math.ceil(_KEPT_FREE * self.limit)
        return max(self.concurrent_items, min(num_alone, num_items + num_free))

    def _count_time(self) -> None:
        now = time.monotonic()
        self._request_s += self.num_admitted * (now - self._counted_at)
        self._counted_at = now

    def _retry_after_s(self) -> int:
        """The queue over the rate, by Little's law: requests under way over the time of each.

        The rate of ends would take the first ones of a burst for all that were done till then. Who
        is under way for longer than those that ended took tells of a standstill.
        """
        if not self._ended or not self.num_admitted:
            return 1
        seconds = sum(took_s for took_s, _ in self._ended) / len(self._ended)
        beside = sum(num for _, num in self._ended) / len(self._ended)
        age_s = self._counted_at - self._began_at_s / self.num_admitted
        wait_s = self.num_admitted * max(seconds, age_s) / beside
        return max(1, min(_MAX_RETRY_AFTER_S, math.ceil(wait_s - 1e-6)))
