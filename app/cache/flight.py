"""Identical work under way is done once: later callers wait for the task that already runs."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


@dataclass(slots=True)
class _Flight(Generic[Result]):
    task: "asyncio.Task[Result]"
    num_waiters: int = 0


class SingleFlight(Generic[Result]):
    """Tasks by key.

    A task belongs to all its waiters: it is cancelled when the last of them has left.
    """

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[Result]] = {}

    def __contains__(self, key: Hashable) -> bool:
        """Whether work of this key is under way."""
        return key in self._flights

    async def run(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Result of `work`, or of what was begun for the same key and still runs.

        Cancelling one waiter, as its deadline does, leaves the task to the others.

        Raises:
            Exception: whatever the work raises, to every waiter.
        """
        flight = self._flights.get(key) or self._begin(key, work)
        flight.num_waiters += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.num_waiters -= 1
            if not flight.num_waiters and not flight.task.done():
                self._forget(
                    key, flight
                )  # whoever comes from now on must not join what is being cancelled
                flight.task.cancel()

    def _begin(
        self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Result]]
    ) -> _Flight[Result]:
        flight = self._flights[key] = _Flight(asyncio.create_task(work()))

        def ended(task: "asyncio.Task[Result]") -> None:
            self._forget(key, flight)
            if not task.cancelled():
                task.exception()  # seen: its waiters may all have left

        flight.task.add_done_callback(ended)
        return flight

    def _forget(self, key: Hashable, flight: _Flight[Result]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
