"""How many requests may be under way, and when a refused one should come back."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from models.errors import Overloaded

_RECENT = 64
_MAX_RETRY_AFTER_S = 60


class Admission:
    """Counts requests from admission to their end, so that no queue behind it grows without bound.

    Attributes:
        num_admitted: requests under way, waiting ones included.
        item_turns: taken by the items of calls that bring several, whichever call's they are, so
            that a burst of items leaves room for requests that come alone.

    Args:
        limit: requests under way before one is refused.
        concurrent_items: number of turns.
    """

    def __init__(self, limit: int, concurrent_items: int = 2) -> None:
        self.limit, self.concurrent_items = limit, concurrent_items
        self.num_admitted = 0
        self.item_turns = asyncio.Semaphore(concurrent_items)
        # Seconds during which a request was under way, and how many of them there were when each
        # of the recent ones ended, after where the first of these began.
        self._busy_s = 0.0
        self._ended_at_s = deque([0.0], maxlen=_RECENT + 1)
        self._counted_at = 0.0

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Hold one of `limit` places.

        Raises:
            Overloaded: all are taken; `retry_after_s` is the queue over the recent rate, which
                counts no time without a request.
        """
        self._count_time()
        if self.num_admitted >= self.limit:
            raise Overloaded(
                f"{self.num_admitted} requests are under way, the admission limit",
                retry_after_s=self._retry_after_s(),
            )
        self.num_admitted += 1
        try:
            yield
        finally:
            self._count_time()
            self.num_admitted -= 1
            self._ended_at_s.append(self._busy_s)

    def _count_time(self) -> None:
        now = time.monotonic()
        if self.num_admitted > 0:
            self._busy_s += now - self._counted_at
        self._counted_at = now

    def _retry_after_s(self) -> int:
        num_ended = len(self._ended_at_s) - 1
        if num_ended == 0:
            return 1
        seconds_each = (self._busy_s - self._ended_at_s[0]) / num_ended
        return max(1, min(_MAX_RETRY_AFTER_S, math.ceil(self.num_admitted * seconds_each)))
