"""One call for all who wait: everybody has their own reply, and a fault is of its batch alone."""

import asyncio
import gc
import time

import pytest

from app.cache.connection import within
from app.cache.lane import Dropped, Lane

pytestmark = pytest.mark.anyio


class Handler:
    """Answers items with their doubles; batches are `seen`, and wait until the gate is open."""

    def __init__(self, *, is_open=False):
        self.seen, self.gate, self._began = [], asyncio.Event(), asyncio.Event()
        if is_open:
            self.gate.set()

    async def __call__(self, items):
        self.seen.append(list(items))
        self._began.set()
        await self.gate.wait()
        if "bad" in items:
            raise ValueError("bad")
        return [2 * item for item in items]

    async def called(self):
        """Until its next call has begun."""
        self._began.clear()
        await self._began.wait()


async def test_what_comes_in_during_a_call_is_the_next_one():
    handler = Handler()
    lane = Lane(handler)
    sent = [lane.send(0)]
    await handler.called()
    sent += [lane.send(i) for i in (1, 2, 3)]
    handler.gate.set()
    assert await asyncio.gather(*sent) == [0, 2, 4, 6]
    assert handler.seen == [[0], [1, 2, 3]]


async def test_a_batch_ends_once_it_is_large_enough():
    handler = Handler(is_open=True)
    lane = Lane(handler, max_batch=10)
    await asyncio.gather(*(lane.send(i, size=4) for i in range(5)))
    assert handler.seen == [[0, 1, 2], [3, 4]]


async def test_a_fault_fails_its_batch_and_no_later_one():
    lane = Lane(Handler(is_open=True))
    failed = await asyncio.gather(lane.send("bad"), lane.send(1), return_exceptions=True)
    assert [str(error) for error in failed] == ["bad", "bad"]
    assert await lane.send(1) == 2


async def test_a_fault_that_nobody_waits_for_is_no_matter_of_the_event_loop():
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    handler = Handler(is_open=True)
    lane = Lane(handler)
    lane.send("bad")
    await handler.called()
    assert await lane.send(1) == 2
    gc.collect()
    assert told == []


async def test_who_has_left_is_in_no_later_call():
    handler = Handler()
    lane = Lane(handler)
    first = lane.send(0)
    await handler.called()
    second, third = lane.send(1), lane.send(2)
    first.cancel()
    second.cancel()
    handler.gate.set()
    assert await third == 4
    assert handler.seen == [[0], [2]]


async def test_too_much_that_waits_is_refused_while_a_call_hangs_and_not_afterwards():
    handler = Handler()
    lane = Lane(handler, max_waiting=10)
    hanging = [lane.send(0, size=5), lane.send(0, size=5)]
    with pytest.raises(Dropped, match="too many"):
        lane.send(0)
    handler.gate.set()
    await asyncio.gather(*hanging)
    assert await lane.send(1, size=10) == 2


async def test_who_has_waited_for_too_long_is_told_and_in_no_later_call():
    handler = Handler()
    lane = Lane(handler)
    first = lane.send(0)
    await handler.called()
    with pytest.raises(TimeoutError):
        await within(0.01, lane.send(1))
    handler.gate.set()
    assert await asyncio.gather(first, lane.send(2)) == [0, 4]
    assert handler.seen == [[0], [2]]


async def test_a_reply_that_came_while_the_event_loop_was_busy_is_not_late():
    lane = Lane(Handler(is_open=True))
    reply = asyncio.create_task(within(0.01, lane.send(1)))
    for _ in range(2):
        time.sleep(0.05)  # noqa: ASYNC251
        await asyncio.sleep(0)
    assert await reply == 2


async def test_at_the_end_all_who_wait_are_told_and_what_comes_later_begins_anew():
    handler = Handler()
    lane = Lane(handler)
    sent = [lane.send(i) for i in range(3)]
    await handler.called()
    sent.append(lane.send(3))
    await lane.close()
    ended = await asyncio.gather(*sent, return_exceptions=True)
    assert [type(error) for error in ended] == [Dropped] * 4
    handler.gate.set()
    assert await lane.send(4) == 8


async def test_a_lane_that_ends_before_its_first_call_tells_who_waits_and_begins_anew():
    lane = Lane(Handler(is_open=True))
    sent = lane.send(0)
    await lane.close()
    with pytest.raises(Dropped):
        await sent
    assert await lane.send(1) == 2
