"""Whether a Redis is asked: given up at its first fault, probed until it is well."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from app.cache.breaker import Breaker
from app.cache.faults import kind_of_fault

logger = logging.getLogger(__name__)


class Health:
    """The breaker of one use of Redis, and what is told of it.

    Args:
        probe: raises while Redis is not well.
        on_breaker: told when Redis is given up (True) and when it is back (False).
        lost: what that means, for the log.
        found: what it means that it is back.
    """

    def __init__(
        self,
        probe: Callable[[], Awaitable[None]],
        on_breaker: Callable[[bool], None],
        *,
        lost: str,
        found: str,
    ) -> None:
        self._probe = probe
        self._on_breaker = on_breaker
        self._lost, self._found = lost, found
        self._breaker = Breaker()

    @property
    def is_open(self) -> bool:
        """Whether nothing is asked."""
        return self._breaker.is_open

    def reset(self) -> None:
        """Ask nothing until a probe succeeds, without a word."""
        self._breaker = Breaker()

    async def heal(self) -> None:
        """Probe until Redis is well."""
        while self._breaker.is_open:
            await asyncio.sleep(self._breaker.pause_s)
            try:
                await self._probe()
            except Exception as error:
                self.fail(error)
            else:
                if self._breaker.succeed():
                    logger.info("%s", self._found)
                    self._on_breaker(False)

    def fail(self, error: Exception) -> None:
        """Ask nothing until `heal` has ended."""
        if self._breaker.fail(asyncio.get_running_loop().time()):
            logger.warning("%s: %s", self._lost, kind_of_fault(error))
            self._on_breaker(True)
