"""The circuit breaker of a Redis: open from its first fault on, probed until it is well."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from app.cache.connection import PATIENCE_S, Connection, kind_of_fault
from app.cache.lane import Dropped, Lane
from app.cache.protocol import State

logger = logging.getLogger(__name__)

# A first fault after so much calm may be this process's own delay: the log waits for the probe that
# follows at once.
_CALM_S = 30.0
_PROBE_EVERY_S = 1.0


@dataclass(eq=False)
class Breaker:
    """The breaker of one use of Redis."""

    # An exchange within so many seconds; raises while Redis is not well.
    probe: Callable[[float], Awaitable[None]]
    # Lanes and connections, which are closed before a probe and at the end.
    parts: Sequence[Lane[Any, Any] | Connection]
    timeout_s: float
    on_state: Callable[[State], None]
    lost: str  # what it means that it opens, for the log
    recovered: str  # what it means that it closes again
    clock: Callable[[], float] = time.monotonic
    # Only "closed" lets exchanges pass. "suspect", also at the start, is decided by a probe at
    # once; "open" is known to be a fault, logged, and probed every second.
    state: State = "suspect"
    _failed_at: float = -math.inf

    def __post_init__(self) -> None:
        self._has_failed = asyncio.Event()
        self._has_failed.set()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """An exchange, whose faults open the breaker.

        Raises:
            Dropped: the breaker is not closed, or the exchange failed.
        """
        if self.state != "closed":
            raise Dropped("Redis is not asked")
        try:
            yield
        except Exception as error:
            # Of several exchanges that one fault ends, the first reports it.
            if self.state == "closed":
                self._fail(error)
            raise Dropped(f"Redis: {kind_of_fault(error)}") from None

    async def run(self) -> None:
        """Probe while the breaker is not closed, until cancelled; then disconnect for good."""
        try:
            while True:
                await self._has_failed.wait()
                await self._heal()
        finally:
            self.state = "suspect"
            self._has_failed.set()
            await self._close()

    async def _close(self) -> None:
        for part in self.parts:
            await part.close()

    async def _heal(self) -> None:
        while self.state != "closed":
            if self.state == "open":
                await asyncio.sleep(_PROBE_EVERY_S)
            try:
                await self._close()
                # The first exchange connects, which includes TLS and the password.
                for limit_s in (PATIENCE_S, self.timeout_s):
                    await self.probe(limit_s)
            except Exception as error:
                self._fail(error)
            else:
                self._has_failed.clear()
                self._set("closed", self.recovered)

    def _fail(self, error: Exception) -> None:
        now = self.clock()
        is_first = self.state == "closed" and now - self._failed_at >= _CALM_S
        self._failed_at = now
        self._has_failed.set()
        if is_first:
            self._set("suspect")
        else:
            self._set("open", f"{self.lost}: {kind_of_fault(error)}")

    def _set(self, state: State, message: str = "") -> None:
        before, self.state = self.state, state
        if state == before:
            return
        if state == "open":
            logger.warning("%s", message)
        elif before == "open":
            logger.info("%s", message)
        self.on_state(state)
