"""Micro-batching: items of concurrent callers go through one function together."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from models.errors import ModelLost, NotReady

Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")


class BatchFailed(Exception):
    """A call failed for a reason that is none of its items', so that none is tried alone."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(eq=False, slots=True)
class _Ticket(Generic[Item, Result]):
    """One caller's items; its future is settled when the last has its result or one has failed."""

    waiting: deque[Item]  # items that are in no batch yet
    num_items: int  # of all its distinct items
    future: "asyncio.Future[dict[Item, Result]]"
    results: dict[Item, Result] = field(default_factory=dict)


@dataclass(eq=False)
class MicroBatcher(Generic[Item, Result]):
    """Awaits `call(items) -> results`, over the distinct items of everybody who waits.

    There is no waiting for a batch to fill: while one runs, the next gathers. Callers take turns,
    one item each, so that nobody waits for all the items of a larger one. An exception runs
    each item of its batch once alone, so that one bad item fails its own caller only.
    """

    call: Callable[[list[Item]], Awaitable[Sequence[Result]]]  # results in the order of the items
    max_batch: int  # most items of one call
    on_batch: Callable[[int], None] = lambda size: None  # called with the size of each batch

    def __post_init__(self) -> None:
        self._waiting: deque[_Ticket[Item, Result]] = deque()
        self._wake = asyncio.Event()
        self._ended = False

    async def submit(self, items: Sequence[Item]) -> dict[Item, Result]:
        """Result of each distinct item. Cancelling the caller drops its items that have not run.

        Raises:
            NotReady: the loop has ended.
            Exception: as `call` raised it for one of these items alone.
        """
        if self._ended:
            raise NotReady("the model has stopped")
        if not items:
            return {}
        distinct = deque(dict.fromkeys(items))
        ticket: _Ticket[Item, Result] = _Ticket(
            distinct, len(distinct), asyncio.get_running_loop().create_future()
        )
        self._waiting.append(ticket)
        self._wake.set()
        return await ticket.future

    def close(self) -> None:
        """Fail all who wait, and end `run` after the batch in flight."""
        self._ended = True
        self._wake.set()
        _fail(self._waiting)

    async def run(self) -> None:
        """Serve `submit` until closed or cancelled.

        Raises where the model is lost, after failing every waiter.
        """
        batch: list[tuple[_Ticket[Item, Result], Item]] = []
        try:
            while not self._ended:
                batch = self._next_batch()
                if batch:
                    await self._run_batch(batch)
                else:
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            self.close()
            _fail(ticket for ticket, _ in batch)

    def _next_batch(self) -> list[tuple[_Ticket[Item, Result], Item]]:
        batch: list[tuple[_Ticket[Item, Result], Item]] = []
        while self._waiting and len(batch) < self.max_batch:
            ticket = self._waiting.popleft()
            if ticket.future.done():
                continue
            batch.append((ticket, ticket.waiting.popleft()))
            if ticket.waiting:
                self._waiting.append(ticket)
        return batch

    async def _run_batch(self, batch: list[tuple[_Ticket[Item, Result], Item]]) -> None:
        items = list(dict.fromkeys(item for _, item in batch))
        self.on_batch(len(items))
        outcomes: dict[Item, Result | Exception] = {}
        try:
            results = await self.call(items)
            outcomes.update(zip(items, results, strict=True))
        except ModelLost:
            raise
        except BatchFailed as failure:
            outcomes = dict.fromkeys(items, failure.error)
        except Exception as error:
            if len(items) > 1:  # each once alone, for those who still wait for it
                for item in items:
                    entries = [one for one in batch if one[1] == item and not one[0].future.done()]
                    if entries:
                        await self._run_batch(entries)
                return
            outcomes[items[0]] = error
        for ticket, item in batch:
            _settle(ticket, item, outcomes[item])


def _fail(tickets: Iterable[_Ticket[Item, Result]]) -> None:
    for ticket in tickets:
        if not ticket.future.done():
            ticket.future.set_exception(NotReady("the model has stopped"))


def _settle(ticket: _Ticket[Item, Result], item: Item, outcome: Result | Exception) -> None:
    if ticket.future.done():
        return
    if isinstance(outcome, Exception):
        ticket.future.set_exception(outcome)
        return
    ticket.results[item] = outcome
    if len(ticket.results) == ticket.num_items:
        ticket.future.set_result(ticket.results)
