"""One call for all who wait: everybody has their own reply, and a fault is of its batch alone."""

import asyncio

import pytest

from app.feedback.batches import Batches
from app.feedback.protocol import StoreFailed

pytestmark = pytest.mark.anyio


class Handler:
    """Answers items with their doubles; batches are `seen`, and wait until the gate is open."""

    def __init__(self):
        self.seen, self.gate = [], asyncio.Event()

    async def __call__(self, items):
        self.seen.append(list(items))
        await self.gate.wait()
        if "bad" in items:
            raise StoreFailed("bad")
        return [2 * item for item in items]


async def test_what_comes_in_during_a_call_is_the_next_one():
    handler = Handler()
    batches = Batches(handler)
    asked = [asyncio.create_task(batches.ask(0))]
    await asyncio.sleep(0.01)
    asked += [asyncio.create_task(batches.ask(i)) for i in (1, 2, 3)]
    await asyncio.sleep(0.01)
    handler.gate.set()
    assert await asyncio.gather(*asked) == [0, 2, 4, 6]
    assert handler.seen == [[0], [1, 2, 3]]


async def test_a_fault_fails_its_batch_and_no_later_one():
    handler = Handler()
    handler.gate.set()
    batches = Batches(handler)
    failed = await asyncio.gather(*map(batches.ask, ["bad", 1]), return_exceptions=True)
    assert [str(error) for error in failed] == ["bad", "bad"]
    assert await batches.ask(1) == 2


async def test_who_has_left_is_in_no_later_call():
    handler = Handler()
    batches = Batches(handler)
    first, second, third = (asyncio.create_task(batches.ask(i)) for i in range(3))
    del first
    await asyncio.sleep(0.01)
    fourth = asyncio.create_task(batches.ask(3))
    fifth = asyncio.create_task(batches.ask(4))
    await asyncio.sleep(0.01)
    fourth.cancel()
    second.cancel()
    await asyncio.sleep(0)
    handler.gate.set()
    assert await asyncio.gather(third, fifth) == [4, 8]
    assert handler.seen == [[0, 1, 2], [4]]


async def test_too_many_who_wait_are_refused_while_a_call_hangs(monkeypatch):
    monkeypatch.setattr("app.feedback.batches._MAX_WAITING", 3)
    batches = Batches(Handler())
    for _ in range(8):
        with pytest.raises((TimeoutError, StoreFailed)):
            async with asyncio.timeout(0.02):
                await batches.ask(0)
    with pytest.raises(StoreFailed, match="too many"):
        await batches.ask(0)
    await batches.close()


async def test_at_the_end_all_who_wait_are_told():
    batches = Batches(Handler())
    asked = [asyncio.create_task(batches.ask(i)) for i in range(3)]
    await asyncio.sleep(0.01)
    asked.append(asyncio.create_task(batches.ask(3)))
    await asyncio.sleep(0.01)
    await batches.close()
    ended = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(error) for error in ended] == [StoreFailed] * 4
