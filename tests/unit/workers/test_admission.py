"""Admission: places are limited, and freed however a request ends.

A refusal says when to come back.
"""

import asyncio
import random
from contextlib import AsyncExitStack, suppress
from itertools import chain

import pytest

from models.errors import Overloaded
from workers.admission import Admission

pytestmark = pytest.mark.anyio


class Clock:
    """Stands for the `time` module."""

    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("workers.admission.time", clock)
    return clock


async def refused(admission, caller=""):
    with pytest.raises(Overloaded) as caught:
        async with admission.admit(caller):
            pass
    return caught.value


async def test_a_freed_place_is_given_again():
    admission = Admission(1)
    for _ in range(3):
        async with admission.admit():
            await refused(admission)


# id: (limit, seconds of each of the requests that ended, idle seconds since then, seconds since
# all places are taken, expected)
RETRY_AFTER = {
    "nothing has ended yet": (4, [], 0, 0, 1),
    "one a second": (4, [1] * 10, 0, 0, 4),
    "ten a second": (4, [0.1] * 10, 0, 0, 1),
    "one in ten seconds": (4, [10] * 3, 0, 0, 40),
    "slower than a minute": (4, [100] * 3, 0, 0, 60),
    "only the recent ones count": (4, [1000] * 100 + [1] * 64, 0, 0, 4),
    "a standstill grows it": (1, [1], 0, 20, 20),
    "a burst after an idle hour": (64, [0.05], 3600, 0, 4),
}


@pytest.mark.parametrize(
    ("limit", "durations", "idle_s", "taken_s", "expected"),
    RETRY_AFTER.values(),
    ids=list(RETRY_AFTER),
)
async def test_retry_after_is_the_queue_over_the_recent_rate(
    clock, limit, durations, idle_s, taken_s, expected
):
    admission = Admission(limit)
    for duration in durations:
        async with admission.admit():
            clock.now += duration
    clock.now += idle_s
    async with AsyncExitStack() as places:
        for _ in range(limit):
            await places.enter_async_context(admission.admit())
        clock.now += taken_s
        assert (await refused(admission)).retry_after_s == expected


async def test_requests_beside_each_other_share_the_time(clock):
    admission = Admission(4)
    async with AsyncExitStack() as places:
        for _ in range(4):
            await places.enter_async_context(admission.admit())
        clock.now += 8
    async with AsyncExitStack() as places:
        for _ in range(4):
            await places.enter_async_context(admission.admit())
        assert (await refused(admission)).retry_after_s == 8  # 4 places, 2 s for each that ended


async def test_the_first_end_of_a_burst_is_not_all_that_was_done_till_then(clock):
    admission = Admission(64)
    async with AsyncExitStack() as others:
        async with admission.admit():
            for _ in range(63):
                await others.enter_async_context(admission.admit())
            clock.now += 10
        await others.enter_async_context(admission.admit())
        assert (await refused(admission)).retry_after_s == 10  # and not 60


async def test_ends_in_waves_are_the_rate_of_all(clock):
    admission = Admission(8)
    for _ in range(3):
        async with AsyncExitStack() as places:
            for _ in range(8):
                await places.enter_async_context(admission.admit())
            clock.now += 19
    async with AsyncExitStack() as places:
        for _ in range(8):
            await places.enter_async_context(admission.admit())
        clock.now += 5
        assert (await refused(admission)).retry_after_s == 19


def with_callers(limit):
    admission = Admission(limit)
    admission.take_turns(own_rows=1000, shared_rows=1000)
    return admission


async def held_by(admission, places, caller):
    """How many places a caller gets that takes all it can."""
    count = 0
    while True:
        try:
            await places.enter_async_context(admission.admit(caller))
        except Overloaded:
            return count
        count += 1


async def test_a_caller_alone_leaves_a_quarter_of_the_places_to_others():
    admission = with_callers(64)
    async with AsyncExitStack() as places:
        assert await held_by(admission, places, "a") == 48
        assert "48 requests of this key" in (await refused(admission, "a")).message


async def test_beside_callers_who_take_all_they_can_a_further_one_soon_finds_a_place_always():
    admission, chance = with_callers(64), random.Random(0)
    held = {caller: [] for caller in "abcdefgh"}

    async def take_all():
        for caller, stacks in held.items():
            with suppress(Overloaded):
                while True:
                    stack = AsyncExitStack()
                    await stack.enter_async_context(admission.admit(caller))
                    stacks.append(stack)

    for number in range(300):
        await take_all()
        if number > 200:
            async with admission.admit("someone else"):
                pass
        some = chance.choice([stacks for stacks in held.values() if stacks])
        await some.pop().aclose()
    counts = [len(stacks) for stacks in held.values()]
    assert max(counts) <= 2 * min(counts)
    for stack in chain.from_iterable(held.values()):
        await stack.aclose()
    assert admission.num_admitted == 0


async def begin_items(stack, admission, caller, count):
    """How many of so many items of a caller have their turn at once."""
    begun = []

    async def item():
        async with admission.admit_item(caller):
            begun.append(caller)
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(item()) for _ in range(count)]

    async def end():
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    stack.push_async_callback(end)
    for _ in range(3 * count):
        await asyncio.sleep(0)
    return len(begun)


@pytest.mark.parametrize(
    ("num_alone", "num_items"), [(0, 2), (1, 2), (5, 5), (20, 20), (30, 18), (48, 2), (60, 2)]
)
async def test_items_run_as_requests_alone_do_and_leave_a_quarter_free(num_alone, num_items):
    admission = Admission(64)
    async with AsyncExitStack() as stack:
        for _ in range(num_alone):
            await stack.enter_async_context(admission.admit("a"))
        assert await begin_items(stack, admission, "a", 40) == num_items
        assert await begin_items(stack, admission, "b", 2) == 2, (
            "another caller's begin all the same"
        )
    assert admission.num_admitted == 0


async def test_an_item_that_waits_begins_with_the_next_request_that_comes_alone():
    admission = Admission(64)
    async with AsyncExitStack() as stack:
        assert await begin_items(stack, admission, "", 3) == 2
        for _ in range(3):
            await stack.enter_async_context(admission.admit(""))
        for _ in range(9):
            await asyncio.sleep(0)
        assert admission.num_admitted == 6
