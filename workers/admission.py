"""Admission: the requests under way, the next to run, and when a refused one may come back."""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from models.errors import Overloaded

# A caller that comes back within this time finds its part free.
_ACTIVE_S = 60.0


@dataclass(slots=True)
class _Line:
    """The running requests of one caller, and its waiting ones, the oldest first."""

    running_rows: int = 0
    waiting: deque[tuple[int, "asyncio.Future[None]"]] = field(default_factory=deque)
    seen_at: float = 0.0

    def is_active(self, now: float) -> bool:
        return bool(self.running_rows or self.waiting) or now - self.seen_at < _ACTIVE_S

    @asynccontextmanager
    async def turn(self, rows: int, begin: Callable[[], None]) -> AsyncIterator[None]:
        """Wait for one's turn, and run until the context ends; whoever leaves frees their rows.

        begin: has all begin that may, when somebody has come or gone.
        """
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = rows, begun
        self.waiting.append(place)
        begin()
        try:
            await begun
            yield
        finally:
            if begun.done() and not begun.cancelled():
                self.running_rows -= rows
            elif place in self.waiting:
                self.waiting.remove(place)
            begin()

    def begin(self, most_rows: Callable[[], int]) -> None:
        """Have those begin that find a place among so many rows; one begins in any case."""
        while self.waiting:
            rows, begun = self.waiting[0]
            if not begun.cancelled():
                if self.running_rows and self.running_rows + rows > most_rows():
                    break
                self.running_rows += rows
                begun.set_result(None)
            self.waiting.popleft()


class Turns:
    """Turns of requests to run, in a line a caller.

    A caller alone runs as many rows as it likes up to a bound. With others about, each has an equal
    part of a smaller one, and may use no more of it, even while the others rest: what runs cannot
    be stopped for a request that comes. One request always runs, however many rows it has.

    Args:
        own_rows: bound of a caller alone.
        shared_rows: bound of all callers together, where there are several.
    """

    def __init__(
        self, own_rows: int, shared_rows: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._own_rows, self._shared_rows = own_rows, shared_rows
        self._clock = clock
        self._lines: dict[str, _Line] = {}

    @property
    def num_waiting(self) -> int:
        return sum(len(line.waiting) for line in self._lines.values())

    def turn(self, caller: str, rows: int) -> AbstractAsyncContextManager[None]:
        """Wait for one's turn, and run until the context ends; whoever leaves frees their rows."""
        line = self._lines.setdefault(caller, _Line())

        def begin() -> None:
            line.seen_at = self._clock()
            self._begin_turns()

        return line.turn(rows, begin)

    def _begin_turns(self) -> None:
        now = self._clock()
        self._lines = {name: line for name, line in self._lines.items() if line.is_active(now)}
        num_active = len(self._lines)
        part = self._own_rows if num_active == 1 else self._shared_rows // max(1, num_active)
        for line in self._lines.values():
            line.begin(lambda: part)


# Waits until a request may run, and gives the seconds waited.
Turn = Callable[[], AbstractAsyncContextManager[float]]

_RECENT = 64
_MAX_RETRY_AFTER_S = 60
# Places that a caller may hold for each one that is free: alone three quarters of all; of several
# who take all they can each the same number, and one more caller finds a place.
_HELD_PER_FREE = 3
# Share of all places that is kept for requests that come alone.
_KEPT_FREE = 0.25


class Admission:
    """Counts requests from admission to their end, so that no queue behind it grows without bound.

    Args:
        limit: requests under way before one is refused.
        concurrent_items: items of a caller that run at once where no request runs that came alone.
    """

    def __init__(self, limit: int, concurrent_items: int = 2) -> None:
        self.limit, self.concurrent_items = limit, concurrent_items
        self.num_admitted = 0  # waiting ones included
        self._items: dict[str, _Line] = {}
        self._turns: Turns | None = None  # of callers; None where all are one
        self._held: Counter[str] = Counter()
        # The seconds of each recent request that ended, and how many were under way then.
        self._ended: deque[tuple[float, float]] = deque(maxlen=_RECENT)
        # Seconds of all requests together, up to the last count, and when those under way began.
        self._request_s, self._counted_at, self._began_at_s = 0.0, 0.0, 0.0

    def take_turns(self, own_rows: int, shared_rows: int) -> None:
        """Have callers take turns, as `Turns` says."""
        self._turns = Turns(own_rows, shared_rows)

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
        """The same for an item of a call that brings several; they take turns, the oldest first.

        Of a caller as many items run at once as requests that came alone, so that neither starve:
        at least `concurrent_items`, and beyond these only while a quarter of all places is free.
        """
        turn = self._items.setdefault(caller, _Line()).turn(1, partial(self._begin_items, caller))
        async with turn, self.admit(caller, rows) as waited_s:
            yield waited_s

    def _begin_items(self, caller: str) -> None:
        line = self._items.get(caller)
        if line is not None and line.waiting:
            line.begin(partial(self._most_items, caller))

    def _most_items(self, caller: str) -> int:
        num_items = self._items[caller].running_rows
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
