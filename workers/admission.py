"""How many requests may be under way, and when a refused one should come back."""

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
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.num_admitted = 0
        self._ended_at: deque[float] = deque(maxlen=_RECENT)

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Hold one of `limit` places.

        Raises:
            Overloaded: all are taken; `retry_after_s` is the queue over the recent rate.
        """
        if self.num_admitted >= self.limit:
            raise Overloaded(
                f"{self.num_admitted} requests are under way, the admission limit",
                retry_after_s=self._retry_after_s(),
            )
        self.num_admitted += 1
        try:
            yield
        finally:
            self.num_admitted -= 1
            self._ended_at.append(time.monotonic())

    def _retry_after_s(self) -> int:
        if not self._ended_at:
            return 1
        recent_s = time.monotonic() - self._ended_at[0]
        return max(
            1,
            min(_MAX_RETRY_AFTER_S, math.ceil(self.num_admitted * recent_s / len(self._ended_at))),
        )
