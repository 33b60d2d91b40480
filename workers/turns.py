"""Who runs next: callers share what runs at once in equal parts, whoever came first."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

# A caller that comes back within this time finds its part free.
_ACTIVE_S = 60.0


@dataclass(slots=True)
class _Line:
    """What one caller runs, and what it waits with, the oldest first."""

    running_rows: int = 0
    waiting: deque[tuple[int, "asyncio.Future[None]"]] = field(default_factory=deque)
    seen_at: float = 0.0

    def is_active(self, now: float) -> bool:
        return bool(self.running_rows or self.waiting) or now - self.seen_at < _ACTIVE_S


class Turns:
    """Turns of requests to run, in a line a caller.

    A caller alone runs as many rows as it likes up to a bound. With others about, each has an equal
    part of a smaller one, and may use no more of it, even while the others rest: what runs cannot
    be stopped for a request that comes. One request always runs, however many rows it has.

    Args:
        own_rows: bound of a caller alone.
        shared_rows: bound of all callers together, where there are several.
        clock: seconds.
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

    @asynccontextmanager
    async def turn(self, caller: str, rows: int) -> AsyncIterator[None]:
        """Wait for one's turn, and run until the context ends; whoever leaves frees their rows."""
        line = self._lines.setdefault(caller, _Line())
        line.seen_at = self._clock()
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = rows, begun
        line.waiting.append(place)
        self._begin_turns()
        try:
            await begun
            yield
        finally:
            if begun.done() and not begun.cancelled():
                line.running_rows -= rows
            elif place in line.waiting:
                line.waiting.remove(place)
            line.seen_at = self._clock()
            self._begin_turns()

    def _begin_turns(self) -> None:
        now = self._clock()
        self._lines = {name: line for name, line in self._lines.items() if line.is_active(now)}
        num_active = len(self._lines)
        part = self._own_rows if num_active == 1 else self._shared_rows // max(1, num_active)
        for line in self._lines.values():
            while line.waiting:
                rows, begun = line.waiting[0]
                has_left = begun.cancelled()
                if not has_left and line.running_rows and line.running_rows + rows > part:
                    break
                line.waiting.popleft()
                if not has_left:
                    line.running_rows += rows
                    begun.set_result(None)
